"""Statistics of earlier batches, which count for less with each batch."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float, PerSource, Statistics

FORGOTTEN = 1e-9  # samples: a source that counts for less is dropped


@dataclass(frozen=True)
class PastStatistics:
    """Statistics of samples that are no longer there, each with the last memberships that it had.

    Attributes
    ----------
    stats : PerSource[Statistics]
        Of each source that still counts.
    origin : array of shape (m,)
        The point they are taken about.
    """

    stats: PerSource[Statistics]
    origin: Float

    @classmethod
    def of_nothing(cls, m: int) -> PastStatistics:
        """Return the statistics of no samples of m features."""
        return cls(PerSource(), np.zeros(m))

    def faded(self, factor: float) -> PastStatistics:
        """Return the statistics with every sample weighted by a factor; a source with next to no weight is dropped."""

        def less(s: Statistics) -> Statistics:
            return Statistics(*(factor * getattr(s, field.name) for field in fields(s)))

        kept = {c: s for c, s in self.stats.items() if factor * s.n > FORGOTTEN}
        return replace(self, stats=PerSource(kept).map(less))

    def about(self, origin: Float) -> PastStatistics:
        """Return the same statistics about another origin, shape (m,): exact, because memberships sum to one."""
        move = origin - self.origin
        return PastStatistics(self.stats.map(lambda s: s.less(move)), origin) if move.any() else self

    def reordered(self, components: NDArray[np.intp]) -> PastStatistics:
        """Return the statistics with the components in another order."""

        def sorted_by(s: Statistics) -> Statistics:
            order = np.arange(len(s.HHt))  # with brightness, the dark component stays the last
            order[: len(components)] = components
            return replace(s, XHt=s.XHt[:, order], HHt=s.HHt[np.ix_(order, order)])

        return replace(self, stats=self.stats.map(sorted_by))
