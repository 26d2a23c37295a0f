"""How good a clustering is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

__all__ = ["clustering_accuracy"]


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the part of the samples that the best one-to-one matching of clusters to classes gets right.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Classes.
    y_pred : array-like of shape (n,)
        Clusters. Their number may differ from that of the classes; what is left over counts as wrong.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> from dbmd.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    classes, true = np.unique(np.asarray(y_true), return_inverse=True)
    clusters, predicted = np.unique(np.asarray(y_pred), return_inverse=True)
    if true.shape != predicted.shape or true.ndim != 1 or not true.size:
        raise ValueError(
            "y_true and y_pred must be one-dimensional, of the same length and not empty. "
            f"Got shapes {np.shape(y_true)} and {np.shape(y_pred)}."
        )
    counts = np.zeros((len(classes), len(clusters)), int)
    np.add.at(counts, (true, predicted), 1)
    matched = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return float(matched / true.size)
