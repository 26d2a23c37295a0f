"""What is remembered of samples that came before: statistics that fade."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float, PerSource, Statistics

FORGOTTEN = 1e-9  # samples: a source of which less is left has faded


@dataclass(frozen=True)
class Memory:
    """Statistics of samples that are gone, each with the memberships that it had last.

    Attributes
    ----------
    stats : PerSource[Statistics]
        Of each source of which there is something left.
    origin : array of shape (m,)
        What they are taken about.
    """

    stats: PerSource[Statistics]
    origin: Float

    @classmethod
    def of_nothing(cls, m: int) -> Memory:
        """Return the memory of no samples of m features."""
        return cls(PerSource(), np.zeros(m))

    def faded(self, factor: float) -> Memory:
        """Return the memory in which every sample counts for less by a factor; what is next to nothing is let go."""

        def less(s: Statistics) -> Statistics:
            return Statistics(*(factor * getattr(s, field.name) for field in fields(s)))

        kept = {c: s for c, s in self.stats.items() if factor * s.n > FORGOTTEN}
        return replace(self, stats=PerSource(kept).map(less))

    def about(self, origin: Float) -> Memory:
        """Return the same memory about another origin, shape (m,): the memberships sum to one, so nothing is lost."""
        move = origin - self.origin

        def moved(s: Statistics) -> Statistics:
            XHt = s.XHt - np.outer(move, s.HHt.sum(axis=1))
            # The sum of the samples about an origin is the sum of the columns of XHt.
            sq_norm = s.sq_norm - float(move @ (s.XHt + XHt).sum(axis=1))
            return replace(s, XHt=XHt, sq_norm=max(0.0, sq_norm))

        return Memory(self.stats.map(moved), origin) if move.any() else self

    def reordered(self, order: NDArray[np.intp]) -> Memory:
        """Return the memory with the components in another order."""

        def sorted_by(s: Statistics) -> Statistics:
            return replace(s, XHt=s.XHt[:, order], HHt=s.HHt[np.ix_(order, order)])

        return replace(self, stats=self.stats.map(sorted_by))
