"""Missing entries of a sample on the driver, filled so that its clusters and its noise look as if nothing were missing.

Only the start sees them: passes over samples treat gaps exactly (:mod:`dbmd.h_step`).

They are drawn from their distribution given the observed entries, by probabilistic principal components
(Tipping and Bishop 1999), x = U z + mean + noise with standard normal z. Drawn and not expected entries: those would
have less variance than observed ones, along all directions. There are more directions than components, because noise
that is not white varies together in many features, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.reduce import MORE
from dbmd.model.statistics import Float

ROUNDS, LAST_ROUNDS = 20, 8  # of expectation-maximisation, with all directions and with those that are not noise
ENOUGH_NUMBERS, ENOUGH_SAMPLES = 100_000, 1000  # that directions are found from, whichever are more samples
SOURCE_ROUNDS = 2  # of fill and means of sources, where they have offsets
STILL = 3e-3  # relative change of the noise at which it is found
CLEAR = 2.0  # variance that a direction must have, in units of what it may have by chance
ROWS = 1000  # samples that are worked on at once
LEAST_NOISE = 1e-8  # variance of the noise, relative to that of the data: not zero


def completed_by_source(Xt: NDArray[Any], source_codes: NDArray[np.intp], r: int, seed: int) -> Float:
    """Return samples with numbers in their gaps, where sources have offsets; parameters are those of :func:`completed`.

    Offsets are taken off before. As directions of all samples, they would be known less well than they are: within a
    source they do not vary.
    """
    _, source = np.unique(source_codes, return_inverse=True)
    gaps = np.isnan(Xt)
    filled = completed(Xt, source_codes, r, seed)
    for _ in range(SOURCE_ROUNDS):
        mean = np.array([filled[source == c].mean(axis=0) for c in range(source.max() + 1)])[source]
        filled = completed(Xt - mean, source_codes, r, seed) + mean
    return np.where(gaps, filled, Xt)


def completed(Xt: NDArray[Any], source_codes: NDArray[np.intp], r: int, seed: int) -> Float:
    """Return samples with numbers in their gaps.

    Parameters
    ----------
    Xt : array of shape (n, m)
        Samples, NaN where an entry is missing.
    source_codes : array of int of shape (n,)
        Their sources, whose noise differs.
    r, seed : int
        Components, seed of the draws.

    Returns
    -------
    array of shape (n, m)
        The samples, observed entries as they are.
    """
    gaps, rng = np.isnan(Xt), np.random.default_rng(seed)
    counts = (~gaps).sum(axis=0)
    mean = np.where(gaps, 0.0, Xt).sum(axis=0, dtype=np.float64) / np.maximum(counts, 1)
    X = np.where(gaps, 0.0, Xt - mean)
    V, noise = _directions(X[_some(X)], ~gaps[_some(X)], r)
    # The mean of observed entries is not that of all: at little noise the difference would show.
    U, X, mean = V[:, :-1], np.where(gaps, 0.0, X - V[:, -1]), mean + V[:, -1]
    squares = np.zeros(len(X))
    filled = X.copy()
    for rows in _pieces(len(X)):
        z, covariance = _scores(X[rows], ~gaps[rows], U, noise)
        squares[rows] = np.where(gaps[rows], 0.0, np.square(X[rows] - z @ U.T)).sum(axis=1)
        spread = np.linalg.cholesky(covariance) @ rng.standard_normal((*z.shape, 1))
        filled[rows] = np.where(gaps[rows], (z + spread[:, :, 0]) @ U.T, X[rows])
    # The noise of each source, relative to that of all.
    observed = np.bincount(source_codes, (~gaps).sum(axis=1))
    ratio = (np.bincount(source_codes, squares) / np.maximum(observed, 1)) / max(squares.sum() / observed.sum(), 1e-300)
    levels = np.sqrt(noise * ratio)
    drawn = filled + levels[source_codes, None] * rng.standard_normal(X.shape) + mean
    return np.asarray(np.where(gaps, drawn, Xt), np.float64)


def _directions(X: Float, observed: NDArray[np.bool_], r: int) -> tuple[Float, float]:
    """Return U and the mean side by side, shape (m, k + 1), and the variance of the noise.

    Parameters
    ----------
    X : array of shape (n, m)
        Samples about a vector near their mean, zero where an entry is missing.
    observed : array of bool of shape (n, m)
        Which entries are not.
    r : int
        Components.
    """
    n, m = X.shape
    k = max(1, min(r + MORE, (min(n, m) + 1) // 2))
    variance = float(np.square(X).sum() / observed.sum())
    if variance == 0.0:
        return np.zeros((m, 2)), 0.0
    V = np.hstack([_principal(X, k) / np.sqrt(observed.mean()), np.zeros((m, 1))])
    V, noise = _fit(X, observed, V, variance, ROUNDS)
    # Along its leading directions noise alone varies by more than its mean, by chance (Marchenko and Pastur 1967): such
    # directions must not be filled in. Two features are observed together in so many samples:
    together = n * float(observed.mean()) ** 2
    free = max(0.5, 1.0 - k * (1.0 / m + 1.0 / together))
    values, axes = np.linalg.eigh(V[:, :-1].T @ V[:, :-1])
    is_signal = values > CLEAR * noise / free * ((1.0 + np.sqrt(m / together)) ** 2 - 1.0)
    if not is_signal.any():
        return np.zeros((m, 2)), variance
    return _fit(X, observed, np.hstack([V[:, :-1] @ axes[:, is_signal], V[:, -1:]]), noise, LAST_ROUNDS)


def _principal(X: Float, k: int) -> Float:
    """Return the k leading principal directions of samples, shape (n, m), times their standard deviations: (m, k)."""
    n, m = X.shape
    if m <= n:
        values, axes = np.linalg.eigh(X.T @ X / n)
        return np.asarray(axes[:, -k:] * np.sqrt(np.maximum(values[-k:], 0.0)), np.float64)
    axes = np.linalg.eigh(X @ X.T)[1][:, -k:]
    return np.asarray(X.T @ axes / np.sqrt(n), np.float64)


def _fit(X: Float, observed: NDArray[np.bool_], V: Float, noise: float, rounds: int) -> tuple[Float, float]:
    """Return V, shape (m, k + 1), and the variance of the noise after some rounds of expectation-maximisation.

    Parameters
    ----------
    X, observed
        As in :func:`_directions`.
    V : array of shape (m, k + 1)
        Where to start: U, and last the mean, which has the score one in all samples.
    noise : float
        Variance of the noise there.
    rounds : int
        How many.
    """
    m, k = V.shape
    entries, total = float(observed.sum()), float(np.square(X).sum())
    for _ in range(rounds):
        moments, products = np.zeros((m, k * k)), np.zeros((m, k))
        for rows in _pieces(len(X)):
            is_there = observed[rows].astype(np.float64)
            z, covariance = _scores(X[rows] - is_there * V[:, -1], observed[rows], V[:, :-1], noise)
            scores = np.hstack([z, np.ones((len(z), 1))])
            second = scores[:, :, None] * scores[:, None, :]
            second[:, :-1, :-1] += covariance
            moments += is_there.T @ second.reshape(len(z), -1)
            products += X[rows].T @ scores
        own = moments.reshape(m, k, k)
        regular = own + 1e-9 * np.eye(k)  # a feature may not be seen at all
        V = np.asarray(np.linalg.solve(regular, products[:, :, None])[:, :, 0], np.float64)
        squares = total - 2.0 * np.vdot(V, products) + np.einsum("jk,jkl,jl", V, own, V)
        before, noise = noise, max(float(squares), LEAST_NOISE * total) / entries
        if abs(noise - before) <= STILL * noise:
            break
    return V, noise


def _scores(X: Float, observed: NDArray[np.bool_], U: Float, noise: float) -> tuple[Float, Float]:
    """Return the means, shape (n, k), and the covariances, shape (n, k, k), of the scores of samples.

    Parameters
    ----------
    X, observed
        As in :func:`_directions`.
    U : array of shape (m, k)
        The directions.
    noise : float
        Variance of the noise.
    """
    k = U.shape[1]
    squares = (U[:, :, None] * U[:, None, :]).reshape(len(U), -1)
    noise = max(noise, np.finfo(np.float64).tiny)
    precision = np.eye(k) + (observed.astype(np.float64) @ squares).reshape(-1, k, k) / noise
    covariance = np.asarray(np.linalg.inv(precision), np.float64)
    return np.asarray((covariance @ (X @ U / noise)[:, :, None])[:, :, 0], np.float64), covariance


def _some(X: Float) -> slice:
    """Return every so many samples of an array of shape (n, m), enough to find directions from."""
    n, m = X.shape
    return slice(None, None, max(1, n // max(ENOUGH_NUMBERS // m, ENOUGH_SAMPLES)))


def _pieces(n: int) -> Iterator[slice]:
    """Yield the rows of n samples, some at a time."""
    for first in range(0, n, ROWS):
        yield slice(first, first + ROWS)
