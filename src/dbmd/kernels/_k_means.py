"""k-means++ and k-means of dense samples, as small functions that release the GIL.

The start of a fit makes a dozen attempts, each of a millisecond or two: checks and conversions would take longer than
the attempts, and threads would wait for each other's Python. Draws and rules are those of scikit-learn.

Distances are found with features in rows, so that what is done to a run of samples is done in vector registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.kernels._rows import jit

__all__ = ["k_means", "k_means_attempt", "k_means_plus_plus", "sums_of_nearest"]

RUN = 128  # samples that are worked on at a time: those of a few dozen features fit into the first-level cache


@jit
def k_means_plus_plus(Xt: Any, weights: Any, draws: Any) -> Any:
    """Return centres by k-means++: samples drawn by their distances to the centres before, the best of some each.

    Parameters
    ----------
    Xt : array of shape (n, m), float64, contiguous
        Samples.
    weights : array of shape (n,)
        Weight of each in the draws.
    draws : array of shape (r, trials)
        Numbers from 0 to 1 that decide the draws. Of the first row only the first counts: there is one first centre.

    Returns
    -------
    array of shape (r, m)
    """
    (n, m), (r, trials), X = Xt.shape, draws.shape, np.ascontiguousarray(Xt.T)
    centres = np.empty((r, m))
    nearest = np.full(n, np.inf)  # squared distance to the nearest centre
    tried, best = np.empty(n), np.empty(n)
    up_to = np.empty(n)
    for k in range(r):
        total = 0.0
        for i in range(n):
            total += weights[i] if k == 0 else weights[i] * nearest[i]
            up_to[i] = total
        least = np.inf
        for t in range(trials if k else 1):
            drawn = min(np.searchsorted(up_to, draws[k, t] * total), n - 1)
            cost = _distances(X, weights, drawn, nearest, tried)
            if t == 0 or cost < least:
                least = cost
                best, tried = tried, best
                centres[k] = Xt[drawn]
        nearest, best = best, nearest
    return centres


@jit
def _distances(X: Any, weights: Any, centre: Any, nearest: Any, out: Any) -> Any:
    """Write squared distances to the nearest centre if a sample becomes one; return their weighted sum.

    Parameters
    ----------
    X : array of shape (m, n)
        Samples, in columns.
    weights : array of shape (n,)
        Weight of each.
    centre : int
        The sample.
    nearest : array of shape (n,)
        Squared distances to the nearest of the centres before.
    out : array of shape (n,), changed in place
        The squared distances.
    """
    m, n = X.shape
    costs = np.zeros(RUN)  # a sum for each place in a run: a single one would be waited for after each sample
    for start in range(0, n, RUN):
        stop = min(start + RUN, n)
        d2, before, own = out[start:stop], nearest[start:stop], weights[start:stop]
        d2[:] = 0.0
        for j in range(0, m - 3, 4):  # four at a time, as in _cost
            a, b, c, d = X[j, start:stop], X[j + 1, start:stop], X[j + 2, start:stop], X[j + 3, start:stop]
            at_a, at_b, at_c, at_d = X[j, centre], X[j + 1, centre], X[j + 2, centre], X[j + 3, centre]
            for i in range(len(d2)):
                d2[i] += (a[i] - at_a) ** 2 + (b[i] - at_b) ** 2 + (c[i] - at_c) ** 2 + (d[i] - at_d) ** 2
        for j in range(m - m % 4, m):
            x, at = X[j, start:stop], X[j, centre]
            for i in range(len(d2)):
                d2[i] += (x[i] - at) ** 2
        for i in range(len(d2)):
            d2[i] = min(d2[i], before[i])
            costs[i] += own[i] * d2[i]
    return costs.sum()


@jit
def k_means(Xt: Any, weights: Any, centres: Any, tol: Any, max_iter: Any) -> Any:
    """Return centres after Lloyd's iterations, and the weighted sum of the squared distances to them.

    They end when no sample changes its cluster, or the squared distances that centres move by sum to at most ``tol``.

    Parameters
    ----------
    Xt : array of shape (n, m), float64, contiguous
        Samples.
    weights : array of shape (n,)
        Weight of each.
    centres : array of shape (r, m), float64, contiguous
        Where to start.
    tol : float
        In squared units of the data.
    max_iter : int
        Most iterations.

    Returns
    -------
    array of shape (r, m), float
    """
    n, X = len(Xt), np.ascontiguousarray(Xt.T)
    labels, d2 = np.full(n, -1), np.empty(n)
    for _ in range(max_iter):
        changed = _assign(X, centres, labels)
        sums, sizes = _sums(Xt, weights, labels, len(centres))
        if sizes.min() <= 0.0:
            _to_own_centre(Xt, centres, labels, d2)
            _fill_empty(Xt, weights, labels, d2, sums, sizes)
        new = _means(sums, sizes)
        moved = 0.0
        for k in range(len(new)):
            for j in range(new.shape[1]):
                moved += (new[k, j] - centres[k, j]) ** 2
        centres = new
        if not changed or moved <= tol:
            break
    _assign(X, centres, labels)
    _to_own_centre(Xt, centres, labels, d2)
    total = 0.0
    for i in range(n):
        total += weights[i] * d2[i]
    return centres, total


@jit
def k_means_attempt(Xt: Any, weights: Any, draw_by: Any, draws: Any, tol: Any, max_iter: Any) -> Any:
    """Return what :func:`k_means` does from the centres of :func:`k_means_plus_plus`.

    Parameters
    ----------
    Xt : array of shape (n, m), float64, contiguous
        Samples.
    weights, draw_by : arrays of shape (n,)
        Weight of each in a centre, and in the draws.
    draws, tol, max_iter
        As there.
    """
    return k_means(Xt, weights, k_means_plus_plus(Xt, draw_by, draws), tol, max_iter)


@jit
def sums_of_nearest(Xt: Any, weights: Any, centres: Any) -> Any:
    """Return the weighted sum of the samples nearest to each centre, and the sum of their weights.

    Parameters
    ----------
    Xt : array of shape (n, m), float64, contiguous
        Samples.
    weights : array of shape (n,)
        Weight of each.
    centres : array of shape (r, m), float64, contiguous
        The centres.

    Returns
    -------
    arrays of shapes (r, m) and (r,)
    """
    labels = np.full(len(Xt), -1)
    _assign(np.ascontiguousarray(Xt.T), centres, labels)
    return _sums(Xt, weights, labels, len(centres))


@jit
def _assign(X: Any, centres: Any, labels: Any) -> Any:
    """Write the nearest centre of each sample into ``labels``; return whether any is another one than before.

    Parameters
    ----------
    X : array of shape (m, n), contiguous
        Samples, in columns.
    centres : array of shape (r, m)
        The centres.
    labels : array of int of shape (n,), changed in place
        Number of the nearest centre of each.
    """
    n, r = X.shape[1], len(centres)
    cost, least, near = np.empty(RUN), np.empty(RUN), np.empty(RUN)  # numbers of centres as floats: for the registers
    changed = False
    for start in range(0, n, RUN):
        stop = min(start + RUN, n)
        least[:] = np.inf
        for k in range(r):
            _cost(X, start, stop, centres[k], cost)
            number = float(k)
            for i in range(stop - start):
                near[i] = number if cost[i] < least[i] else near[i]
                least[i] = min(cost[i], least[i])
        for i in range(stop - start):
            changed |= labels[start + i] != int(near[i])
            labels[start + i] = int(near[i])
    return changed


@jit
def _cost(X: Any, start: Any, stop: Any, centre: Any, out: Any) -> None:
    """Write half the squared distances of a run of samples to a centre, less what is the same for all centres."""
    m, norm = len(centre), 0.0
    for j in range(m):
        norm += 0.5 * centre[j] ** 2
    out[:] = norm
    for j in range(0, m - 3, 4):  # four at a time: most of the time goes into reading and writing the sums
        a, b, c, d = X[j, start:stop], X[j + 1, start:stop], X[j + 2, start:stop], X[j + 3, start:stop]
        of_a, of_b, of_c, of_d = centre[j], centre[j + 1], centre[j + 2], centre[j + 3]
        for i in range(len(a)):
            out[i] -= of_a * a[i] + of_b * b[i] + of_c * c[i] + of_d * d[i]
    for j in range(m - m % 4, m):
        a, of_a = X[j, start:stop], centre[j]
        for i in range(len(a)):
            out[i] -= of_a * a[i]


@jit
def _sums(Xt: Any, weights: Any, labels: Any, r: Any) -> Any:
    """Return the weighted sum of the samples of each cluster, shape (r, m), and the sum of their weights, shape (r,).

    Parameters
    ----------
    Xt : array of shape (n, m)
        Samples.
    weights, labels : arrays of shape (n,)
        Weight and cluster of each.
    r : int
        Clusters.
    """
    n, m = Xt.shape
    sums, sizes = np.zeros((r, m)), np.zeros(r)
    for i in range(n):
        x, total, weight = Xt[i], sums[labels[i]], weights[i]
        sizes[labels[i]] += weight
        for j in range(m):
            total[j] += weight * x[j]
    return sums, sizes


@jit
def _means(sums: Any, sizes: Any) -> Any:
    """Return the mean of each cluster, shape (r, m), from sums, shape (r, m), and sizes, shape (r,).

    One that is still empty goes where the largest is.
    """
    means, largest = np.empty_like(sums), np.argmax(sizes)
    for k in range(len(sums)):
        own = k if sizes[k] > 0.0 else largest
        means[k] = sums[own] / sizes[own]
    return means


@jit
def _to_own_centre(Xt: Any, centres: Any, labels: Any, out: Any) -> None:
    """Write the squared distance of each sample, shape (n, m), to the centre of its label, shape (n,), into ``out``."""
    for i in range(len(Xt)):
        out[i] = 0.0
        for j in range(Xt.shape[1]):
            out[i] += (Xt[i, j] - centres[labels[i], j]) ** 2


@jit
def _fill_empty(Xt: Any, weights: Any, labels: Any, d2: Any, sums: Any, sizes: Any) -> None:
    """Move the samples that are farthest from their centres into clusters that are empty.

    Parameters
    ----------
    Xt : array of shape (n, m)
        Samples.
    weights, labels, d2 : arrays of shape (n,)
        Weight of each, its cluster, and its squared distance from there. That of a sample that was moved becomes zero.
    sums, sizes : arrays of shapes (r, m) and (r,), changed in place
        Sums of the clusters.
    """
    for k in range(len(sizes)):
        if sizes[k] > 0.0:
            continue
        far = np.argmax(d2)
        if d2[far] <= 0.0:
            return
        d2[far] = 0.0
        weight, old = weights[far], labels[far]
        for j in range(Xt.shape[1]):
            sums[k, j] = weight * Xt[far, j]
            sums[old, j] -= sums[k, j]
        sizes[k] = weight
        sizes[old] -= weight
