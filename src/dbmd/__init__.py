"""dbmd: distributed Bayesian matrix decomposition.

    X_c = W H_c + noise(sigma_c)

Samples from several sources, each with a noise level of its own, are decomposed into a shared sparse basis W and for
every sample a point on the simplex: its soft membership in the clusters.

>>> from dbmd import DBMD
>>> from sklearn.datasets import load_iris
>>> X = load_iris().data
>>> model = DBMD(n_components=3, random_state=0).fit(X)
>>> model.transform(X).shape
(150, 3)

Public are the names in ``__all__`` of the modules below, with their documented parameters, methods and attributes:

    dbmd                  the estimator, files of any size, saved models
    dbmd.metrics          how well clusters agree with classes
    dbmd.pl               figures with matplotlib
    dbmd.tl               AnnData
    dbmd.spark            pyspark.ml
    dbmd.engines          what an engine sends, and how long that takes
    dbmd.errors           what can be caught
    dbmd.data.datasets    data sets with known classes
    dbmd.protocols        what an engine, a solver, a kernel and a format must offer

Everything else is private and may change at any time: other modules, and names that begin with an underscore. Objects
that only dbmd makes, such as the records of ``history_``, are public in their documented attributes.

A public name or parameter that goes away works for two more minor releases, with a FutureWarning that says what to use
instead (``_utils/deprecation.py``). Model directories that a release has written can be read by all later ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"  # the only place: pyproject.toml takes it from here
__all__ = [
    "DBMD",
    "__version__",
    "choose_components",
    "engines",
    "errors",
    "load",
    "metrics",
    "open_data",
    "open_report",
    "pl",
    "tl",
]

if TYPE_CHECKING:
    from dbmd import engines, errors, metrics, pl, tl
    from dbmd.dataset import open_data
    from dbmd.estimator import DBMD, choose_components, load
    from dbmd.report.browse import open_report


# Loaded when first used: scikit-learn takes a second, and not every use of dbmd needs it.
_HOMES = {
    "DBMD": "dbmd.estimator",
    "choose_components": "dbmd.estimator",
    "load": "dbmd.estimator",
    "open_data": "dbmd.dataset",
    "open_report": "dbmd.report.browse",
}
_MODULES = ("engines", "errors", "metrics", "pl", "tl")  # not spark: import * must work without pyspark


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"dbmd.{name}")
    raise AttributeError(f"module 'dbmd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
