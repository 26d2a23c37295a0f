"""Scores of a clustering: against known classes, and against a fit of other samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from dbmd.model.agreement import matched

__all__ = ["Agreement", "agreement", "agreement_score", "clustering_accuracy", "match"]

AGREES, SLACK = 0.95, 0.05  # the correlation at which a pair counts nothing, and the distance at which it counts fully


@dataclass(frozen=True)
class Agreement:
    """How well clusters agree with classes. Each score is 1 where they are the same up to their names.

    Attributes
    ----------
    accuracy : float
        Fraction of the samples that the best one-to-one matching gets right, in [0, 1].
    ari : float
        Adjusted Rand index: agreement on pairs of samples, 0 on average for random clusters.
    nmi : float
        Mutual information divided by the mean of the two entropies, in [0, 1].
    """

    accuracy: float
    ari: float
    nmi: float


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the fraction of the samples that the best one-to-one matching of clusters to classes gets right.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Classes.
    y_pred : array-like of shape (n,)
        Clusters. Their number may differ from that of the classes; samples of unmatched ones count as wrong.

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
    return _accuracy(counts)


def match(contingency: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the one-to-one matching of classes and clusters that gets the most samples right.

    Parameters
    ----------
    contingency : array-like of int of shape (n_classes, n_clusters)
        Samples by class and cluster.

    Returns
    -------
    classes, clusters : array of int of shape (min(n_classes, n_clusters),)
        The indices of each matched pair, in the order of the classes.

    Examples
    --------
    >>> from dbmd.metrics import match
    >>> classes, clusters = match([[1, 9], [8, 2]])
    >>> clusters.tolist()
    [1, 0]
    """
    classes, clusters = linear_sum_assignment(np.asarray(contingency), maximize=True)
    return classes, clusters


def agreement(contingency: ArrayLike) -> Agreement:
    """Return accuracy, adjusted Rand index and normalised mutual information, from counts alone.

    Parameters
    ----------
    contingency : array-like of int of shape (n_classes, n_clusters)
        Samples by class and cluster; not all zero.

    Returns
    -------
    Agreement

    Examples
    --------
    >>> from dbmd.metrics import agreement
    >>> agreement([[0, 9], [8, 0]])
    Agreement(accuracy=1.0, ari=1.0, nmi=1.0)
    """
    counts = np.asarray(contingency)
    if counts.ndim != 2 or not counts.sum():
        raise ValueError(
            f"contingency must have shape (n_classes, n_clusters) and count a sample. Got shape {counts.shape} "
            f"and {counts.sum()} samples."
        )
    return Agreement(_accuracy(counts), _adjusted_rand(counts), _normalised_information(counts))


def agreement_score(estimator: Any, X: Any, y: Any = None, *, source: Any = None) -> float:
    """Return how many components two fits agree on, less those that they do not: it chooses ``n_components``.

    The estimator was fitted to other samples, as scikit-learn's searches do it. A copy of it is fitted to ``X``, the
    memberships of ``X`` by both are matched one to one, and the correlation c of each pair counts (c - 0.95) / 0.05, at
    most 1 and at least -1. The score is the sum. So it grows by one with each component that both fits have, and falls
    by one with each that depends on which samples were seen; unlike :meth:`dbmd.DBMD.score`, which keeps growing.

    Halves are best, of samples in random order: ``cv=KFold(2, shuffle=True)``.
    :func:`dbmd.choose_components` compares the same without a search, for data of any size.

    Parameters
    ----------
    estimator : estimator
        Fitted to other samples: a :class:`dbmd.DBMD`, or a pipeline that ends with one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, at least as many as there are components.
    y : None
        Ignored.
    source : array-like of shape (n_samples,), optional
        Their sources, for :class:`dbmd.DBMD` alone.

    Returns
    -------
    float
        From -n_components to n_components.

    Examples
    --------
    >>> from dbmd import DBMD
    >>> from dbmd.metrics import agreement_score
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> search = GridSearchCV(
    ...     DBMD(scaling="standard", random_state=0),
    ...     {"n_components": [2, 3, 4, 5]},
    ...     scoring=agreement_score,
    ...     cv=KFold(2, shuffle=True, random_state=0),
    ... )
    >>> search.fit(load_wine().data).best_params_
    {'n_components': 3}
    """
    from sklearn.base import clone  # here: counts and labels are scored without scikit-learn

    other = clone(estimator)
    if getattr(estimator, "n_components", None) == "auto":
        other.set_params(n_components=estimator.n_components_)
    given = {} if source is None else {"source": source}
    other.fit(X, **given)
    _, pairs = matched(estimator.transform(X, **given), other.transform(X, **given))
    return float(np.clip((pairs - AGREES) / SLACK, -1.0, 1.0).sum())


def _accuracy(counts: NDArray[Any]) -> float:
    return float(counts[match(counts)].sum() / counts.sum())


def _adjusted_rand(counts: NDArray[Any]) -> float:
    def pairs(n: NDArray[Any]) -> float:
        n = n.astype(float)  # squares of large counts do not fit an integer
        return float((n * (n - 1) / 2).sum())

    together, by_class, by_cluster = pairs(counts), pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    every = pairs(counts.sum(keepdims=True))
    expected = by_class * by_cluster / every if every else 0.0
    largest = (by_class + by_cluster) / 2
    # Both have all samples in one group, or each sample alone: the same partition.
    return (together - expected) / (largest - expected) if largest != expected else 1.0


def _normalised_information(counts: NDArray[Any]) -> float:
    p = counts / counts.sum()
    classes, clusters = _entropy(p.sum(axis=1)), _entropy(p.sum(axis=0))
    if not classes + clusters:
        return 1.0
    # Rounding may give a value slightly below zero or above one.
    return float(np.clip(2 * (classes + clusters - _entropy(p)) / (classes + clusters), 0.0, 1.0))


def _entropy(p: NDArray[Any]) -> float:
    p = p[p > 0]
    return max(float(-(p * np.log(p)).sum()), 0.0)
