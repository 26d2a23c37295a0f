"""The prior of the offsets of sources: d_c ~ N(0, t^2 I), where t^2 is estimated.

Given W and the memberships, the offset of a source has the posterior N(d_c, v_c I) with
v_c = 1 / (n_c / sigma_c^2 + 1 / t^2). Offsets are integrated out, as the memberships are: the squares of a source are
expected to be larger by m n_c v_c, and the objective has the term

    sum_c ||d_c||^2 / (2 t^2) + m/2 sum_c ln(t^2 / v_c).

The logarithm is concave in 1 / sigma_c^2 and 1 / t^2. So its tangent at their present values bounds it, and the steps
for sigma and t^2 that minimise the bound do not raise the objective.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dbmd.model.statistics import Float, PerSource, Statistics, Summary

LEAST = 1e-9  # of the variance of the offsets, relative to that of their estimates


class OffsetStep(NamedTuple):
    """The outcome of a step for the prior of the offsets.

    Attributes
    ----------
    prior : OffsetPrior
        With the new variance.
    summaries : PerSource[Summary]
        With the squares that are expected given the posterior of the offsets.
    cost : float
        What the offsets add to the objective.
    """

    prior: OffsetPrior
    summaries: PerSource[Summary]
    cost: float


@dataclass(frozen=True)
class OffsetPrior:
    """The prior of the offsets.

    Attributes
    ----------
    variance : float
        t^2, in squared units of the data.
    n : tuple of float
        Number of samples of each source in the whole data, or sum of their weights.
    """

    variance: float
    n: tuple[float, ...]

    @classmethod
    def of(cls, D: Float, stats: PerSource[Statistics], sigma2: Float) -> OffsetPrior:
        """Return the prior at a start: offsets D, shape (m, n_sources), statistics and noise levels of all samples."""
        n = tuple(stats[c].n if c in stats else 0.0 for c in range(D.shape[1]))
        prior = cls(float(np.square(D).mean()), n)
        return replace(prior, variance=max(prior.variance, prior._least(sigma2)))

    @property
    def ridge(self) -> Float:
        """Precision of the prior for each sample of a source, shape (n_sources,): 1 / (t^2 n_c)."""
        n = np.array(self.n)
        return np.divide(1.0 / self.variance, n, out=np.zeros(len(n)), where=n > 0.0)

    def update(self, D: Float, summaries: PerSource[Summary], sigma2: Float) -> OffsetStep:
        """Return the step for t^2.

        Parameters
        ----------
        D : array of shape (m, n_sources)
            The offsets.
        summaries : PerSource[Summary]
            At the offsets, with their squares as if offsets were known.
        sigma2 : array of shape (n_sources,)
            The noise levels that the offsets were found with.
        """
        m = len(D)
        n, t2 = np.array(self.n), self.variance
        is_there = n > 0.0
        v = 1.0 / (n / sigma2 + 1.0 / t2)
        squares = np.square(D).sum(axis=0)
        new = max(float((squares / m + v)[is_there].mean()), self._least(sigma2))
        bound = np.log(new / v) + v * (1.0 / new - 1.0 / t2)
        cost = float((squares / (2.0 * new) + 0.5 * m * bound)[is_there].sum())
        expected = {
            c: replace(s, squares=s.squares + m * s.n * v[c], h_cost=s.h_cost - 0.5 * m * s.n * v[c] / sigma2[c])
            for c, s in summaries.items()
        }
        return OffsetStep(replace(self, variance=new), PerSource(expected), cost)

    def _least(self, sigma2: Float) -> float:
        n = np.array(self.n)
        return LEAST * float((sigma2[n > 0.0] / n[n > 0.0]).min())


def ridge_of(prior: OffsetPrior | None) -> Float | None:
    """Return the ridge of a prior, shape (n_sources,); None if there are no offsets."""
    return None if prior is None else prior.ridge
