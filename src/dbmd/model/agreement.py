"""Whether two fits found the same components: how the memberships of the same samples correlate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Float = NDArray[np.float64]


def correlations(first: NDArray[Any], second: NDArray[Any], weights: NDArray[Any] | None = None) -> Float:
    """Return the correlation of each component of one fit with each of another, shape (r, k).

    Parameters
    ----------
    first, second : array of shape (n, r) and (n, k)
        Memberships of the same samples by both fits. Samples that either leaves out (NaN) do not count.
    weights : array of shape (n,), optional
        For how many samples each stands; by default for itself.

    Returns
    -------
    array of shape (r, k)
        From -1 to 1; 0 for a component whose memberships are all the same.
    """
    A, B = np.asarray(first, np.float64), np.asarray(second, np.float64)
    seen = ~(np.isnan(A).any(axis=1) | np.isnan(B).any(axis=1))
    w = np.ones(len(A)) if weights is None else np.asarray(weights, np.float64)
    seen &= w > 0.0
    if not seen.any():
        return np.zeros((A.shape[1], B.shape[1]))
    A, B = (_standardised(each[seen], w[seen]) for each in (A, B))
    return np.clip(A.T @ B, -1.0, 1.0)


def _standardised(H: Float, weights: Float) -> Float:
    """Return columns times the root of the weights, with mean 0 and norm 1; of zeros where a column is constant."""
    share = weights / weights.sum()
    spread = H - share @ H
    spread *= np.sqrt(share)[:, None]
    norms = np.linalg.norm(spread, axis=0)
    # Memberships are between 0 and 1: what is as small as their rounding is no difference.
    constant = norms <= 1e-12
    return np.asarray(np.where(constant, 0.0, spread / np.where(constant, 1.0, norms)), np.float64)


def matched(
    first: NDArray[Any], second: NDArray[Any], weights: NDArray[Any] | None = None, *, n_known: int = 0
) -> tuple[NDArray[np.intp], Float]:
    """Match the components of two fits one to one, such that their memberships correlate most in all.

    Parameters
    ----------
    first, second : array of shape (n, r)
        Memberships of the same samples by both fits; rows of NaN do not count.
    weights : array of shape (n,), optional
        For how many samples each stands; by default for itself.
    n_known : int
        The first components are known: each is itself in both fits.

    Returns
    -------
    partner : array of int of shape (r,)
        For each component of the first fit, which one of the second it is.
    correlation : array of shape (r,)
        The correlation of each pair.
    """
    C = correlations(first, second, weights)
    partner = np.arange(len(C))
    _, columns = linear_sum_assignment(C[n_known:, n_known:], maximize=True)
    partner[n_known:] = n_known + columns
    return partner, C[np.arange(len(C)), partner]
