"""The first W where samples differ in brightness: x = s W h with 0 <= s <= 1, a simplex with a corner at zero.

Centres of k-means are no start here: samples of one composition are divided into clusters by their brightness, and a
descent from their centres ends in a local minimum. What tells compositions apart is the direction of a sample, and how
bright a pattern is at most. There are two ways to find both, and neither is always the better one:

    extremes    pure and bright samples are corners of the data: the farthest ones, one corner after the other
    directions  centres of clusters of directions, all so long that the brightest sample has brightness one

The first finds patterns that are rare, the second those that are pure only where it is dark. The sample of the start is
fitted from both, and the objective decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy import sparse

from dbmd._utils.threads import one_thread
from dbmd.model.statistics import Float

FARTHEST = 0.01  # fraction of the samples that a corner is the mean of
LONGEST = 3.0  # largest brightness that counts, relative to that of the brightest samples but so many
REFINEMENTS = 3  # of the direction in which a corner lies: one sample alone may be an outlier
ATTEMPTS = 3  # of k-means++ and k-means
MORE, ROUNDS = 10, 6  # of subspace iteration: further directions, rounds
TINY = np.finfo(float).tiny
CLEAR = 0.03  # by how much an objective must be lower to decide, for each sample and unit of the noise excess


def bright_starts(Xt: Any, weights: Float, r: int, seed: int) -> list[Float]:
    """Return candidates for W, shape (m, r) each, to be compared by the objective of a fit.

    Parameters
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        Samples.
    weights : array of shape (n,)
        Weight of each: the number of samples that it stands for, times its precision.
    r, seed : int
        Components, without the one of zeros; seed of the draws.

    Returns
    -------
    list of arrays of shape (m, r)
        From extreme samples, and from clusters of directions.
    """
    used = np.flatnonzero(weights > 0.0)
    if len(used) <= r:  # each sample is a component
        rows = Xt[used[np.arange(r) % len(used)]]
        return [np.asarray(rows.toarray() if sparse.issparse(rows) else np.eye(r) @ rows, np.float64).T]
    with one_thread():
        basis = leading_directions(Xt, weights, r, seed)
        Yt = np.asarray(Xt @ basis, np.float64)[used]
        return [
            basis @ corners.T for corners in (extremes(Yt, weights[used], r), directions(Yt, weights[used], r, seed))
        ]


def clearly_lowest(objectives: Sequence[float], n: float, excess: float) -> int:
    """Return the number of the candidate to keep: the first, unless another is clearly lower.

    The objective counts all features as if their noise were independent, and where the noise excess is large it is not.
    Then small differences of the objective say little about which fit is nearer to the truth.

    Parameters
    ----------
    objectives : sequence of float
        The objective after the fit from each candidate.
    n : float
        Number of samples, or sum of their weights.
    excess : float
        Noise excess of all sources.
    """
    best = int(np.argmin(objectives))
    return best if objectives[0] - objectives[best] > CLEAR * excess * n else 0


def leading_directions(Xt: Any, weights: Float, r: int, seed: int) -> Float:
    """Return the directions in which samples are far from zero, shape (m, r), orthonormal; fewer if n or m is less.

    By randomised subspace iteration. Samples without noise and with r components lie in the space of these directions.

    Parameters
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        Samples.
    weights : array of shape (n,)
        Weight of each.
    r, seed : int
        Directions, seed of the draws.
    """
    n, m = Xt.shape
    basis = np.random.default_rng(seed).standard_normal((m, min(r + MORE, n, m)))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(basis)[0]
        basis = np.asarray(((Xt @ basis) * (weights / weights.sum())[:, None]).T @ Xt, np.float64).T
    return np.asarray(np.linalg.svd(basis, full_matrices=False)[0][:, :r])


def extremes(Yt: Float, weights: Float, r: int) -> Float:
    """Return the corners of the data beside zero, shape (r, k), by successive projection.

    A corner is where the samples are farthest from the space of the corners before it (Araujo et al. 2001). A single
    sample would be noisy, and may be an outlier: it is the mean of the farthest samples in its direction.

    Parameters
    ----------
    Yt : array of shape (n, k)
        Samples, in coordinates.
    weights : array of shape (n,)
        Weight of each, positive.
    r : int
        Number of corners.
    """
    rest, corners = Yt, np.zeros((0, Yt.shape[1]))
    for j in range(r):
        if j < Yt.shape[1]:
            direction = rest[np.square(rest).sum(axis=1).argmax()]
            for _ in range(REFINEMENTS):
                parts = largest(rest @ direction, weights)
                direction = parts @ rest
            corner = parts @ Yt
            rest = rest - np.outer(rest @ direction, direction) / max(float(direction @ direction), TINY)
        else:  # no direction is left: a sample that is far from all corners
            corner = Yt[((Yt[:, None, :] - corners) ** 2).sum(axis=2).min(axis=1).argmax()]
        corners = np.vstack([corners, corner])
    return corners


def directions(Yt: Float, weights: Float, r: int, seed: int) -> Float:
    """Return the centres of clusters of directions, shape (r, k), multiplied by the brightness of the brightest sample.

    Parameters
    ----------
    Yt : array of shape (n, k)
        Samples, in coordinates.
    weights : array of shape (n,)
        Weight of each, positive.
    r, seed : int
        Clusters, seed of the draws.
    """
    from sklearn.cluster import KMeans  # late: it takes a while to load
    from sklearn.exceptions import ConvergenceWarning

    norms = np.linalg.norm(Yt, axis=1)
    units = Yt / np.maximum(norms, TINY)[:, None]
    # The direction of a dark sample is mostly noise.
    counted = weights * (norms / norms.max()) ** 2 if norms.any() else weights
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # with fewer distinct directions than clusters some coincide
        found = KMeans(r, n_init=ATTEMPTS, random_state=seed % 2**32).fit(units, sample_weight=counted)
    centres = np.asarray(found.cluster_centers_, np.float64)
    # The linear function that is one at all centres is the brightness of any mixture of them.
    brightness = Yt @ np.linalg.lstsq(centres, np.ones(r), rcond=None)[0]
    usual = brightness[largest(brightness, weights) > 0.0].min()
    longest = min(float(brightness.max()), LONGEST * float(usual))
    return centres * longest if longest > 0.0 else centres


def largest(values: Float, weights: Float) -> Float:
    """Return parts, shape (n,), that sum to one: those of the samples with the largest values, and zero for the others.

    Parameters
    ----------
    values, weights : array of shape (n,)
        What is to be large, and for how much each sample counts.
    """
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    parts = np.empty_like(weights)
    parts[order] = np.clip(FARTHEST * weights.sum() - before, 0.0, weights[order])
    return parts / parts.sum()
