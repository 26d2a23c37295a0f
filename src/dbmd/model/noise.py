"""The noise step: sigma_c^2 given W and H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float, PerSource, Statistics, Summary, middle

EPS = float(np.finfo(np.float64).eps)  # of the sums, whatever the type of the data


@dataclass(frozen=True)
class Noise:
    """How the noise levels follow from the residuals.

    The prior of sigma_c^2 is flat above a floor, so the noise step is the clipped mean square: the exact minimiser
    of the objective on [floor, inf). Below the floor, residuals may be rounding. It is relative to the mean square of
    the data about their mean, hence free of scale and offset. Where W is much larger than the data, it is rounded by
    more, and the floor is higher.

    Attributes
    ----------
    kind : "source", "shared" or float
        A level for each source, one for all, or a fixed sigma^2.
    n_sources : int
        Number of sources.
    floor : float
        The least level, found from the data.
    eps : float
        Relative rounding of the type of the data, which is also that of the final W.
    """

    kind: Literal["source", "shared"] | float
    n_sources: int
    floor: float
    eps: float = EPS

    @classmethod
    def for_data(
        cls,
        kind: Literal["source", "shared"] | float,
        n_sources: int,
        stats: PerSource[Statistics],
        origin: Float,
        dtype: np.dtype[Any],
    ) -> Noise:
        """Return the noise step for data, with a floor by the mean square of their entries and by their type.

        Parameters
        ----------
        kind : "source", "shared" or float
            A level for each source, one for all, or a fixed sigma^2.
        n_sources : int
            Number of sources.
        stats : PerSource[Statistics]
            Of all samples, about an origin.
        origin : array of shape (m,)
            The origin.
        dtype : dtype
            Of the data.
        """
        mean, n = middle(stats), sum(s.n for s in stats.values())
        square = sum(s.sq_norm for s in stats.values())
        # A negative difference is rounding.
        mean_square = max(square - n * float(mean @ mean), 1e-12 * square) / (n * len(mean))
        eps = float(np.finfo(dtype).eps)
        # Far from zero, the rounding of the numbers is larger than their differences suggest.
        rounding = eps**2 * float(np.mean(np.square(origin + mean)))
        return cls(kind, n_sources, max(least_level(dtype) * mean_square, rounding) or least_level(dtype), eps)

    def is_near_zero(self, origin: Float, dtype: np.dtype[Any]) -> bool:
        """Return whether sums over samples may be taken about zero instead of about an origin amidst them.

        The sums grow with |origin|^2. In float32 they must not be larger than those about the origin; in float64 two of
        sixteen digits may be lost. This saves subtracting the origin from each sample.
        """
        largest = 1.0 if dtype == np.float32 else 1e4
        return bool(origin @ origin <= largest * len(origin) * self.floor / least_level(dtype))

    def is_above_rounding(self, per_source: PerSource[Summary], W: Float) -> bool:
        """Return whether the mean square of all residuals is above the floor, and cannot be rounding alone."""
        return self._pooled(per_source, len(W)) > self._floor_at(W)

    def levels(self, per_source: PerSource[Summary], W: Float) -> Float:
        """Return sigma^2, shape (n_sources,): ||X_c - W H_c||^2 / (m n_c) at the common W (docs/paper.md, point 3)."""
        m = len(W)
        if not isinstance(self.kind, str):
            return np.full(self.n_sources, float(self.kind))
        sigma2 = np.full(self.n_sources, self._pooled(per_source, m))  # a source without samples gets the pooled level
        if self.kind == "source":
            for c, s in per_source.items():
                sigma2[c] = s.squares / (m * s.n)
        return np.maximum(sigma2, self._floor_at(W))

    def levels_from_peaks(self, at_peaks: Float, per_source: PerSource[Summary], W: Float) -> Float:
        """Return sigma^2, shape (n_sources,), after one pass at the levels that the squares at the peaks gave.

        Expected squares exceed those at the peaks by an amount that grows in proportion to the level: this gives the
        level at which they agree.

        Parameters
        ----------
        at_peaks : array of shape (n_sources,)
            The levels from the squares at the peaks.
        per_source : PerSource[Summary]
            With the squares expected at these levels.
        W : array of shape (m, r)
            The basis.
        """
        expected = self.levels(per_source, W)
        if not isinstance(self.kind, str):
            return expected
        return at_peaks / np.maximum(2.0 - expected / at_peaks, 0.1)

    def is_at_floor(self, sigma2: Float, W: Float) -> NDArray[np.bool_]:
        """Return which levels are as low as they can be with W, shape (n_sources,); none if they were given."""
        return np.full(len(sigma2), isinstance(self.kind, str)) & (sigma2 <= 1.001 * self._floor_at(W))

    def _floor_at(self, W: Float) -> float:
        """Return the least level above rounding with W, shape (m, r)."""
        # Squared residuals and the gradients of memberships are differences of numbers of the size of the simplex.
        entries, simplex = (_largest_mean_square(V) for V in (W, W - W.mean(axis=1, keepdims=True)))
        return max(self.floor, self.eps**2 * entries, 100.0 * EPS * simplex)

    def _pooled(self, per_source: PerSource[Summary], m: int) -> float:
        return sum(s.squares for s in per_source.values()) / (m * sum(s.n for s in per_source.values()))


def _largest_mean_square(W: Float) -> float:
    """Return the largest mean square of a column of W, shape (m, r)."""
    return float(np.einsum("jk,jk->k", W, W).max()) / len(W)


def least_level(dtype: np.dtype[Any]) -> float:
    """Return the least noise level for data of a type, relative to their mean square."""
    return max(1e-8, 100.0 * float(np.finfo(dtype).eps))
