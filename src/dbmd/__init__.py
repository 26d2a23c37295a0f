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
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["DBMD", "__version__", "load", "metrics", "open_data", "tl"]

if TYPE_CHECKING:
    from dbmd import metrics, tl
    from dbmd.dataset import open_data
    from dbmd.estimator import DBMD, load


# Loaded when first used: scikit-learn takes a second, and not every use of dbmd needs it.
_HOMES = {"DBMD": "dbmd.estimator", "load": "dbmd.estimator", "open_data": "dbmd.dataset"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("metrics", "tl"):
        return import_module(f"dbmd.{name}")
    raise AttributeError(f"module 'dbmd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
