"""The negative log posterior that everything minimises, from statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dbmd.model.statistics import Float, PerSource, Summary


@dataclass(frozen=True)
class Objective:
    """Eq. (opt1), up to constants independent of W, H and sigma, and the scale to judge its changes by.

    sum_c [ ||X_c - W H_c||^2 / (2 sigma_c^2) + m n_c ln sigma_c ] + lam ||W||_1 - sum (alpha0 - 1) ln h

    Attributes
    ----------
    value : float
        All terms.
    scale : float
        Misfit and penalties without m n_c ln sigma_c: positive, and unchanged when X is scaled. A relative
        decrease is relative to this; ``value`` itself may be zero or negative.
    """

    value: float
    scale: float

    def exceeds(self, other: Objective, dtype: np.dtype[Any]) -> bool:
        """Say whether this is higher than the other by more than rounding with data of a type explains."""
        rounding = 1e-6 if dtype == np.float32 else 1e-10
        return self.value - other.value > rounding * other.scale


def objective(per_source: PerSource[Summary], W: Float, sigma2: Float, lam: float) -> Objective:
    """Return the objective of the summaries of all sources, whose ``squares`` are those at W."""
    m = len(W)
    misfit = sum(s.squares / (2.0 * sigma2[c]) for c, s in per_source.items())
    log_noise = sum(0.5 * m * s.n * np.log(sigma2[c]) for c, s in per_source.items())
    log_prior = sum(s.log_prior for s in per_source.values())
    penalty = lam * float(np.abs(W).sum())
    return Objective(
        value=float(misfit + log_noise + penalty - log_prior), scale=float(misfit + penalty + abs(log_prior))
    )


def has_converged(before: Objective, after: Objective, tol: float) -> bool:
    """Say whether the relative decrease of the objective is at most tol."""
    return before.value - after.value <= tol * after.scale
