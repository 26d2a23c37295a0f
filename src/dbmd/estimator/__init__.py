"""The scikit-learn estimator."""

from __future__ import annotations

from dbmd.estimator import _old_pickles  # noqa: F401  so that what earlier versions pickled can be loaded
from dbmd.estimator._dbmd import DBMD, load

__all__ = ["DBMD", "load"]

# Pickles name the class by its module: the public one, whatever file it is in today.
DBMD.__module__ = load.__module__ = __name__
