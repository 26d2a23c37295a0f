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
__all__ = ["DBMD", "__version__", "metrics"]

if TYPE_CHECKING:
    from dbmd import metrics
    from dbmd.estimator import DBMD


# Loaded when first used: scikit-learn takes a second, and not every use of dbmd needs it.
def __getattr__(name: str) -> Any:
    if name == "DBMD":
        return import_module("dbmd.estimator").DBMD
    if name == "metrics":
        return import_module("dbmd.metrics")
    raise AttributeError(f"module 'dbmd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
