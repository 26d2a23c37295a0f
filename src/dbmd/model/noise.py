"""The noise step: sigma_c^2 given W and H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dbmd.model.statistics import Float, PerSource, Statistics, Summary


@dataclass(frozen=True)
class Noise:
    """How the noise levels follow from the residuals.

    The prior of sigma_c^2 is flat above a floor, so the noise step is the clipped mean square: the exact minimiser
    of the objective on [floor, inf). The floor is relative to the mean square of the data about their origin, hence
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
        """Choose the floor by the mean square of the entries of X about the origin and by their type."""
        entries = sum(s.n * len(s.XHt) for s in stats.values())
        mean_square = sum(s.sq_norm for s in stats.values()) / entries
        relative = max(1e-8, 100.0 * float(np.finfo(dtype).eps))
        return cls(kind, n_sources, relative * (mean_square or 1.0))

    def levels(self, per_source: PerSource[Summary], m: int) -> Float:
        """Return sigma^2, shape (n_sources,): ||X_c - W H_c||^2 / (m n_c), with the consensus W (errata 3)."""
        if not isinstance(self.kind, str):
            return np.full(self.n_sources, float(self.kind))
        pooled = sum(s.squares for s in per_source.values()) / (m * sum(s.n for s in per_source.values()))
        sigma2 = np.full(self.n_sources, pooled)  # a source without samples gets the pooled level
        if self.kind == "source":
            for c, s in per_source.items():
                sigma2[c] = s.squares / (m * s.n)
        return np.maximum(sigma2, self.floor)
