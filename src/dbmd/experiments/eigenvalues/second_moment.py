"""E[h h'] of the memberships h of one sample, for both distributions: H H' / n tends to it."""

from __future__ import annotations

from math import comb

import numpy as np

from dbmd.model.statistics import Float


def dirichlet(r: int, alpha0: float) -> Float:
    """Return (I + alpha0 11') / (r (r alpha0 + 1)), shape (r, r)."""
    return (np.eye(r) + alpha0) / (r * (r * alpha0 + 1.0))


def bernoulli(r: int, p: float) -> Float:
    """Return E[h h'], shape (r, r), for components that are present with probability p and share a sample equally.

    Components are alike but for the last, which has all samples in which none is present.
    """
    own = p * _mean_inverse_square(1, r - 1, p)
    shared = p**2 * _mean_inverse_square(2, r - 2, p)
    moment = np.full((r, r), shared)
    np.fill_diagonal(moment, own)
    moment[-1, -1] += empty(r, p)
    return moment


def empty(r: int, p: float) -> float:
    """Return the probability that no component is present."""
    return float((1.0 - p) ** r)


def _mean_inverse_square(present: int, others: int, p: float) -> float:
    """Return E[1 / (present + K)^2] for a binomial number K of the others."""
    return sum(comb(others, k) * p**k * (1.0 - p) ** (others - k) / (present + k) ** 2 for k in range(others + 1))
