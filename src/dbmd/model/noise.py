"""The noise step: sigma_c^2 given W and H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dbmd.model.statistics import Float, PerSource, Statistics, Summary, middle


@dataclass(frozen=True)
class Noise:
    """How the noise levels follow from the residuals.

    The prior of sigma_c^2 is flat above a floor, so the noise step is the clipped mean square: the exact minimiser
    of the objective on [floor, inf). The floor is relative to the mean square of the data about their mean, hence
    free of scale and offset; below it a residual cannot be told from rounding.

    Attributes
    ----------
    kind : "source", "shared" or float
        A level for each source, one for all, or a fixed sigma^2.
    n_sources : int
        Number of sources.
    floor : float
        The least level.
    """

    kind: Literal["source", "shared"] | float
    n_sources: int
    floor: float

    @classmethod
    def for_data(
        cls,
        kind: Literal["source", "shared"] | float,
        n_sources: int,
        stats: PerSource[Statistics],
        dtype: np.dtype[Any],
    ) -> Noise:
        """Choose the floor by the mean square of the entries of X about their mean and by their type."""
        mean, n = middle(stats), sum(s.n for s in stats.values())
        square = sum(s.sq_norm for s in stats.values())
        # What the difference lacks to be positive is rounding.
        mean_square = max(square - n * float(mean @ mean), 1e-12 * square) / (n * len(mean))
        return cls(kind, n_sources, least_level(dtype) * (mean_square or 1.0))

    def is_near_zero(self, origin: Float, dtype: np.dtype[Any]) -> bool:
        """Say whether samples lose nothing by being summed up about zero instead of about an origin amidst them.

        The sums grow with |origin|^2. In float32 they must not outgrow those about the origin; in float64 two digits of
        sixteen may go. For that, a trip of each sample through the cache is saved.
        """
        largest = 1.0 if dtype == np.float32 else 1e4
        return bool(origin @ origin <= largest * len(origin) * self.floor / least_level(dtype))

    def can_be_told(self, per_source: PerSource[Summary], m: int) -> bool:
        """Say whether the mean square of all residuals is above the floor, and not perhaps rounding."""
        return self._pooled(per_source, m) > self.floor

    def levels(self, per_source: PerSource[Summary], m: int) -> Float:
        """Return sigma^2, shape (n_sources,): ||X_c - W H_c||^2 / (m n_c), with the consensus W (errata 3)."""
        if not isinstance(self.kind, str):
            return np.full(self.n_sources, float(self.kind))
        sigma2 = np.full(self.n_sources, self._pooled(per_source, m))  # a source without samples gets the pooled level
        if self.kind == "source":
            for c, s in per_source.items():
                sigma2[c] = s.squares / (m * s.n)
        return np.maximum(sigma2, self.floor)

    def _pooled(self, per_source: PerSource[Summary], m: int) -> float:
        return sum(s.squares for s in per_source.values()) / (m * sum(s.n for s in per_source.values()))


def least_level(dtype: np.dtype[Any]) -> float:
    """Return the least noise level for data of a type, relative to their mean square."""
    return max(1e-8, 100.0 * float(np.finfo(dtype).eps))
