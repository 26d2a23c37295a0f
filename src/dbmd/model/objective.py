"""What a fit minimises, from statistics: the negative log evidence J, or the paper's negative log posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dbmd.model.statistics import Float, PerSource, Statistics, Summary


@dataclass(frozen=True)
class Objective:
    """The objective, up to constants independent of W, H and sigma, and the scale that its changes are relative to.

    sum_c [ ||X_c - W H_c||^2 / (2 sigma_c^2) + m n_c ln sigma_c ] + lam ||W||_1 + what the memberships cost

    With the Dirichlet term -sum (alpha0 - 1) ln h for the last it is Eq. (opt1) of the paper; with the cost of
    integrating the memberships out, and the expected squares, it is J (docs/model.md).

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
        """Return whether this is higher than the other by more than rounding explains, with data of a type."""
        rounding = 1e-6 if dtype == np.float32 else 1e-10
        return self.value - other.value > rounding * other.scale

    def gain(self, before: Objective | None) -> float:
        """Return the decrease from ``before`` to this, relative to the scale of this; infinite without ``before``."""
        if before is None:
            return float("inf")
        decrease = before.value - self.value
        return decrease / self.scale if self.scale > 0.0 else (float("inf") if decrease > 0.0 else 0.0)


def objective(
    per_source: PerSource[Summary], W: Float, sigma2: Float, lam: float, offset_cost: float = 0.0
) -> Objective:
    """Return the objective of the summaries of all sources.

    Parameters
    ----------
    per_source : PerSource[Summary]
        At W, with the squares there.
    W : array of shape (m, r)
        The components.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    lam : float
        Weight of the L1 norm.
    offset_cost : float
        What the offsets of the sources add (:mod:`dbmd.model.offsets`).
    """
    m = len(W)
    misfit = sum(s.squares / (2.0 * sigma2[c]) for c, s in per_source.items())
    log_noise = sum(0.5 * m * s.n * np.log(sigma2[c]) for c, s in per_source.items())
    h_cost = sum(s.h_cost for s in per_source.values())
    penalty = lam * float(np.abs(W).sum())
    return Objective(
        value=float(misfit + log_noise + penalty + h_cost + offset_cost),
        scale=float(misfit + penalty + abs(h_cost)),
    )


def explained_variance(stats: PerSource[Statistics], summaries: PerSource[Summary], n_sources: int) -> Float:
    """Return the fraction of the variance about the mean that is explained: of each source, and last of all data.

    The columns of H sum to one, so the sum of all samples is the sum of the columns of X H^T.

    Parameters
    ----------
    stats : PerSource[Statistics]
        About any origin.
    summaries : PerSource[Summary]
        At W.
    n_sources : int
        A source without samples gets NaN.

    Returns
    -------
    array of shape (n_sources + 1,)
    """

    def part(squares: float, sq_norm: float, total: Float, n: float) -> float:
        variance = sq_norm - float(total @ total) / n
        return 1.0 - squares / variance if variance > 0.0 else 1.0

    explained = np.full(n_sources + 1, np.nan)
    for c, s in stats.items():
        explained[c] = part(summaries[c].squares, s.sq_norm, s.XHt.sum(axis=1), s.n)
    explained[-1] = part(
        sum(s.squares for s in summaries.values()),
        sum(s.sq_norm for s in stats.values()),
        np.sum([s.XHt.sum(axis=1) for s in stats.values()], axis=0),
        float(sum(s.n for s in stats.values())),
    )
    return explained
