"""The scikit-learn estimator: one file for each step from samples to memberships.

    _dbmd.py         the class: parameters, fitting, saving
    _prediction.py   the methods of a fitted model: transform, predict, score, ...
    _reporting.py    the page about a fitted model
    _opening.py      X, sources and weights in any form, opened and checked: a Dataset
    _fitting.py      a Dataset through algorithm.py (a fit) or online.py (a further batch)
    _learned.py      attributes from the result of the algorithm
    _units.py        between the units of the data and those of the scaled data
    _advisor.py      what a user should know about data and fit
    fitted.py        the arrays of a model that memberships of further samples depend on
    _new_sources.py  noise levels and offsets of sources that the model does not know
    _halves.py       fits of two halves of the data, and whether they agree
    _choosing.py     how many components two halves agree on
    _choice.py       what that says: the number, the curve, a sentence
    _memberships.py  memberships and likelihood; lazily for collections of Dask

The other interfaces (pyspark.ml, AnnData, command line) are built on this one.
"""

from __future__ import annotations

from dbmd.estimator import _old_pickles  # noqa: F401  so that what earlier versions pickled can be loaded
from dbmd.estimator._choice import Choice
from dbmd.estimator._choosing import choose_components
from dbmd.estimator._dbmd import DBMD, load

__all__ = ["DBMD", "Choice", "choose_components", "load"]

# Pickles name the class by its module: the public one, whatever file it is in today.
for public in (DBMD, Choice, choose_components, load):
    public.__module__ = __name__
del public
