"""Missing entries of a sample on the driver, filled so that its clusters and its noise look as if nothing were missing.

Only the start sees them: passes over samples treat gaps exactly (:mod:`dbmd.h_step`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.reduce import MORE
from dbmd.model.statistics import Float

MOST_ROUNDS = 20  # of fill and fit
PRECISION = 1e-6  # of the fill, relative to the first: the error shrinks by the fraction of gaps in each round
FIRST_ROUNDS = 4  # of subspace iteration before the first fit
LEAST_FREE = 0.5  # fraction of the entries that is counted as free at least when noise is estimated from residuals


def completed(Xt: NDArray[Any], source_codes: NDArray[np.intp], r: int, seed: int) -> Float:
    """Return samples with their gaps filled by the leading principal directions of all, plus noise.

    Directions and fill are found in turns. Along each direction scores are shrunk to what can be told from noise
    (Gavish and Donoho 2017), else the fill would follow the noise of the observed entries. There are r + 10 directions,
    as for wide samples, because noise that is not white varies together in many features. To the fill, noise is added
    of the same size as in observed entries. Without it, gaps would be less noisy than the rest.

    Parameters
    ----------
    Xt : array of shape (n, m)
        Samples, NaN where an entry is missing.
    source_codes : array of int of shape (n,)
        Their sources.
    r, seed : int
        Components, seed of the noise.

    Returns
    -------
    array of shape (n, m)
        The samples, observed entries as they are.
    """
    n, m = Xt.shape
    gaps, rng = np.isnan(Xt), np.random.default_rng(seed)
    observed = ~gaps
    counts = observed.sum(axis=0)
    mean = np.where(observed, Xt, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(counts, 1)
    filled = np.where(gaps, mean, Xt).astype(np.float64, copy=False)
    k = max(1, min(r + MORE, (min(n, m) + 1) // 2))
    ratio = m / (n * observed.mean())
    basis, kept, residual = rng.standard_normal((m, k)), np.ones(k), np.zeros_like(filled)
    rounds = int(np.ceil(np.log(PRECISION) / np.log(np.clip(gaps.mean(), 1e-3, 0.999))))
    for number in range(min(1 + rounds, MOST_ROUNDS)):
        mean = filled.mean(axis=0)
        centred = filled - mean
        for _ in range(FIRST_ROUNDS if number == 0 else 1):
            basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
        scores = centred @ basis
        variances, axes = np.linalg.eigh(scores.T @ scores / n)
        basis, scores = basis @ axes, scores @ axes
        residual = np.where(gaps, 0.0, centred - (scores * kept) @ basis.T)
        free = max(1.0 - kept.sum() * (1.0 / m + 1.0 / n), LEAST_FREE)
        noise = float(np.square(residual).sum() / counts.sum() / free)
        kept = _kept(variances, noise, ratio)
        filled = np.where(gaps, mean + (scores * kept) @ basis.T, Xt)
    squares = np.bincount(source_codes, np.square(residual).sum(axis=1)) / free
    levels = np.sqrt(squares / np.maximum(np.bincount(source_codes, observed.sum(axis=1)), 1.0))
    return np.asarray(filled + gaps * levels[source_codes, None] * rng.standard_normal(filled.shape))


def _kept(variances: Float, noise: float, ratio: float) -> Float:
    """Return the fraction of the scores along each direction that is not noise, shape (k,).

    Parameters
    ----------
    variances : array of shape (k,)
        Along the directions.
    noise : float
        Variance of the noise in each entry.
    ratio : float
        Number of features over number of samples.
    """
    # Noise alone has variances up to noise * (1 + sqrt(ratio))^2 along its leading directions.
    above = np.square(variances - noise * (1.0 + ratio)) - 4.0 * ratio * noise**2
    is_above = variances > noise * (1.0 + np.sqrt(ratio)) ** 2
    return np.sqrt(np.where(is_above, above, 0.0)) / np.maximum(variances, np.finfo(np.float64).tiny)
