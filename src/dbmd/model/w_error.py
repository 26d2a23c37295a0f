"""By how much W is likely to be off within its plane, found by fitting made-up samples whose W is known.

Errors of W out of its plane are noise that averages out (:mod:`dbmd.model.uncertainty`). Within the plane they are
mostly not: the simplex comes out a little too small or too large, however many samples there are. The reasons are
Laplace's approximation, and memberships that are not uniform. How much depends on W, on the noise, and on how the
memberships are distributed. So samples are made up with the same W and noise, and memberships from the Dirichlet
distribution that has the mean and the variance of those of the fit. They are fitted from the W that they were made
with, and the W found is compared with it. In the plane a sample has r - 1 coordinates, whatever the number of features,
so that this takes a fraction of a second.

The distance found is that of the fit from the truth. So the truth is taken to be the W of the fit less the distance,
samples are made up with that, and so on.

The fit of the data is not corrected by it: on data whose memberships are far from a Dirichlet distribution that does
harm. Only the size of the errors is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float
from dbmd.registry import load_kernel

SAMPLES = 3_000  # made up at a time
ROUNDS = 6  # how often the truth is estimated anew
FURTHER = 1.5  # the truth moves by so many times what a round says, for the first rounds say too little
REPEATS = 4  # made-up sets of the last round: their mean is the bias, and their spread that of W
LARGEST = 0.5  # entry of an error: beyond that W is not known at all
STEPS, TOLERANCE, MEMORY = 40, 1e-4, 6  # of a fit: steps at most, last change relative to the simplex, steps kept
WORSE = 2.0  # times the least change so far: where a fit begins again
SMALL = 1e-10  # relative length of a direction that the components do not span
STEP_OF_NOISE = 0.5  # levels whose logarithms differ by less than about this are taken as one


def likely_errors(W: Float, is_free: NDArray[np.bool_], noise: Float, n: Float, moments: Float, seed: int = 0) -> Float:
    """Return likely errors E of W: the truth may be W (I - E) for each of them.

    Parameters
    ----------
    W : array of shape (m, r)
        The components, with the dark one if there is one.
    is_free : array of bool of shape (r,)
        Which of them were found; the others are exact.
    noise : array of shape (n_sources,)
        Variance of the noise of each source in the plane of W.
    n : array of shape (n_sources,)
        Number of samples of each source.
    moments : array of shape (r, r)
        Mean of h h' over all samples, expected given their uncertainty.
    seed : int
        Of the samples that are made up.

    Returns
    -------
    array of shape (4, r, r)
        Their columns sum to zero; those of components that are exact are zero.
    """
    rng, (_, r) = np.random.default_rng(seed), W.shape
    found = np.zeros((REPEATS, r, r))
    centred = W - W.mean(axis=1, keepdims=True)
    _, sizes, Vt = np.linalg.svd(centred, full_matrices=False)
    spanned = sizes > SMALL * sizes[0]
    total = float(n.sum())
    if not is_free.any() or not spanned.any() or not total > 0.0:
        return found
    L = Vt[spanned].T * sizes[spanned]
    truth, E = L, np.zeros((r, r))
    levels, codes = _levels(noise, n)
    for round_ in range(ROUNDS):
        true_moments = (np.eye(r) + E) @ moments @ (np.eye(r) + E).T
        alpha, back = dirichlet_of(true_moments), np.linalg.pinv(truth - truth.mean(axis=0))
        for i in range(REPEATS if round_ == ROUNDS - 1 else 1):
            H = rng.dirichlet(alpha, SAMPLES)
            Y = H @ truth + rng.normal(size=(SAMPLES, L.shape[1])) * np.sqrt(levels[codes])[:, None]
            off = (_fit(truth, Y, levels, codes, is_free) - truth) @ back
            found[i] = _bounded(off.T)
        E = _bounded(E + FURTHER * (found[0] - E))
        truth = np.linalg.solve(np.eye(r) + E.T, L)
    bias = found.mean(axis=0)
    return np.asarray(bias + (found - bias) * np.sqrt(SAMPLES / total))


def variance_within(W: Float, errors: Float) -> Float:
    """Return the variance of components within their plane, shape (r, m).

    The size of an error is known better than its direction: its mean square is spread over all directions of the plane.

    Parameters
    ----------
    W : array of shape (m, r)
        The components, with the dark one if there is one.
    errors : array of shape (k, r, r)
        Likely errors.
    """
    U, sizes, _ = np.linalg.svd(W - W.mean(axis=1, keepdims=True), full_matrices=False)
    U = U[:, sizes > SMALL * max(float(sizes[0]), 1e-300)]
    squares = np.square(W @ errors).sum(axis=1).mean(axis=0)
    return np.outer(squares / max(U.shape[1], 1), np.square(U).sum(axis=1))


def dirichlet_of(moments: Float) -> Float:
    """Return the Dirichlet distribution, shape (r,), with the mean and about the covariance that moments tell.

    Parameters
    ----------
    moments : array of shape (r, r)
        Mean of h h'.
    """
    mean = np.maximum(moments.sum(axis=1), 1e-4)
    mean /= mean.sum()
    covariance, largest = moments - np.outer(mean, mean), np.diag(mean) - np.outer(mean, mean)
    ratio = np.vdot(covariance, largest) / max(float(np.vdot(largest, largest)), 1e-300)
    return np.asarray(mean * (1.0 / np.clip(ratio, 1e-3, 0.995) - 1.0))


def _levels(noise: Float, n: Float) -> tuple[Float, NDArray[np.intp]]:
    """Return a few noise levels, shape (k,), and which of them each made-up sample has, shape (SAMPLES,), in order."""
    group = np.unique(np.round(np.log(noise) / STEP_OF_NOISE), return_inverse=True)[1].ravel()
    counts = np.bincount(group, n)
    levels = np.bincount(group, n * noise) / np.maximum(counts, 1e-300)
    levels = np.where(counts > 0.0, levels, 1.0)
    ends = np.cumsum(counts) / counts.sum()
    codes = np.searchsorted(ends, (np.arange(SAMPLES) + 0.5) / SAMPLES)
    return levels, np.minimum(codes, len(levels) - 1)


def _fit(L: Float, Y: Float, levels: Float, codes: NDArray[np.intp], is_free: NDArray[np.bool_]) -> Float:
    """Return the components, shape (r, p), that a fit of samples Y, shape (k, p), finds from L: Anderson's mixing."""
    size, least = float(np.linalg.norm(L)), np.inf
    points: list[Float] = []
    changes: list[Float] = []
    x = best = L
    for _ in range(STEPS):
        new = _step(x, Y, levels, codes, is_free)
        change = float(np.linalg.norm(new - x))
        if change <= TOLERANCE * size:
            return new
        if change < least:
            least, best = change, new
        elif not change < WORSE * least:  # samples change their faces: begin again from the best point
            points, changes, x = [], [], best
            continue
        points, changes = [*points[-MEMORY:], x.ravel()], [*changes[-MEMORY:], (new - x).ravel()]
        x = new
        if len(points) > 1:
            steps, slopes = np.diff(points, axis=0).T, np.diff(changes, axis=0).T
            x = x - ((steps + slopes) @ np.linalg.lstsq(slopes, changes[-1], rcond=1e-8)[0]).reshape(L.shape)
    return best


def _step(L: Float, Y: Float, levels: Float, codes: NDArray[np.intp], is_free: NDArray[np.bool_]) -> Float:
    """Return the components after an iteration: memberships with their covariances, then (P)."""
    kernel, r = load_kernel("cpu"), len(L)
    Q, A, B = L @ L.T, np.zeros((r, r)), np.zeros_like(L)
    Ht = kernel.solve_h(Q, np.ascontiguousarray(Y @ L.T), np.zeros(r))
    starts = np.searchsorted(codes, np.arange(len(levels) + 1))
    for level, first, end in zip(levels, starts[:-1], starts[1:], strict=True):
        if end > first:
            own = Ht[first:end]
            covariance = kernel.FaceCovariance(Q, float(level))
            covariance.add(own)
            A += (own.T @ own + covariance.total()[0]) / level
            B += own.T @ Y[first:end] / level
    ridge = 1e-9 * np.trace(A) / r  # a component that no sample has stays where it is
    new = L.copy()
    free, fixed = np.flatnonzero(is_free), np.flatnonzero(~is_free)
    right = B[free] - A[np.ix_(free, fixed)] @ L[fixed] + ridge * L[free]
    new[free] = np.linalg.solve(A[np.ix_(free, free)] + ridge * np.eye(len(free)), right)
    return new


def _bounded(E: Float) -> Float:
    """Return an error of which no entry is larger than ``LARGEST``."""
    return E * min(1.0, LARGEST / max(float(np.abs(E).max()), 1e-300))
