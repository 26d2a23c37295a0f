"""A fit of reduced samples in the few coordinates that they have.

Samples of m features that lie near a space of k dimensions (:mod:`dbmd.model.low_rank`) pull W into that space, unless
something else is asked of its entries. So W can be sought there, in k coordinates instead of m features, which makes
everything of the size of W smaller. Distances are the same; only the number of features is not. It occurs in two
places: the noise level is the mean square over all features, and the objective has m n ln sigma. With k features the
noise level is larger by m / k. The noise in the plane of W, which is the noise excess times the level, stays the same
if the excess is smaller by as much; then the objective is k / m times what it would be, up to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dbmd.model.evidence import Evidence
from dbmd.model.lbfgs import LBFGS
from dbmd.model.low_rank import LowRank
from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Coordinates:
    """The space of reduced samples.

    Attributes
    ----------
    directions : array of shape (m, k)
        Orthonormal columns.
    offset : array of shape (m,)
        Where all coordinates are zero.
    """

    directions: Float
    offset: Float

    @classmethod
    def of(cls, Xt: LowRank) -> Coordinates:
        """Return the space of samples."""
        return cls(Xt.directions, Xt.offset)

    @property
    def factor(self) -> float:
        """Noise levels in coordinates over those in features: m / k."""
        m, k = self.directions.shape
        return m / k

    def of_points(self, W: Float) -> Float:
        """Return points of the space, shape (m, r), in coordinates, shape (k, r)."""
        return self.directions.T @ (W - self.offset[:, None])

    def points(self, W: Float) -> Float:
        """Return points with given coordinates, shape (k, r), as they are, shape (m, r)."""
        return self.directions @ W + self.offset[:, None]

    def evidence(self, evidence: Evidence | None) -> Evidence | None:
        """Return how memberships are integrated out in coordinates."""
        if evidence is None:
            return None
        return replace(evidence, excess=tuple(each / self.factor for each in evidence.excess))

    def steps(self, lbfgs: LBFGS) -> LBFGS:
        """Return the steps and changes of a descent in coordinates as those of W, for other samples."""
        return LBFGS(self._outside(lbfgs.steps), self._outside(lbfgs.changes))

    def _outside(self, arrays: tuple[Float, ...]) -> tuple[Float, ...]:
        """Return differences in coordinates, arrays of shape (k, r), as they are, arrays of shape (m, r)."""
        return tuple(np.hsplit(self.directions @ np.hstack(arrays), len(arrays))) if arrays else ()
