"""The synthetic data of the paper: a banded basis, and memberships of two kinds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def banded_basis(r: int, *, height: float = 1.5, length: int = 20, coherence: int = 2) -> Float:
    """Return W, shape (m, r): each column a band of ones times ``height``, which overlaps the next one.

    The paper's l is ``length``, its coh is ``coherence``, and m = l + (r - 1)(l - coh).

    Examples
    --------
    >>> from dbmd.data.synthetic import banded_basis
    >>> banded_basis(10).shape
    (182, 10)
    """
    step = length - coherence
    W = np.zeros((length + (r - 1) * step, r))
    for k in range(r):
        W[k * step : k * step + length, k] = height
    return W


def bernoulli_memberships(rng: np.random.Generator, r: int, n: int, p: float) -> Float:
    """Return H, shape (r, n): each component present with probability p, those that are present in equal parts.

    A sample in which none is present gets the last one, as in the paper.
    """
    H = (rng.random((r, n)) < p).astype(float)
    H[-1, H.sum(axis=0) == 0.0] = 1.0
    return np.asarray(H / H.sum(axis=0))


def dirichlet_memberships(rng: np.random.Generator, r: int, n: int, alpha0: float = 1.0) -> Float:
    """Return H, shape (r, n): columns from the Dirichlet distribution with concentration ``alpha0``."""
    return rng.dirichlet(np.full(r, alpha0), n).T


def observe(rng: np.random.Generator, W: Float, H: Float, sigma: float) -> Float:
    """Return X = W H + noise of standard deviation sigma, shape (m, n)."""
    X: Float = W @ H
    X += sigma * rng.normal(size=X.shape)
    return X
