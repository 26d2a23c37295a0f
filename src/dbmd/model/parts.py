"""The parts of a model: what the columns of the matrix that a fit looks for stand for.

A sample of source c is x = W h + d_c + noise. Components W and offsets d_c are found together, as the columns of one
matrix V = [W, D]: an offset is a component in which every sample of its source has the membership one. Some columns may
be fixed: known components, and with brightness a component of zeros, whose membership is what a sample lacks of the
brightness of the brightest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Parts:
    """The columns of V, in this order: known components, free ones, the dark one, offsets.

    Attributes
    ----------
    n_components : int
        Number of components, r, without the dark one.
    n_known : int
        How many of them are known.
    has_dark : bool
        Whether there is a component of zeros, the dark one: with brightness.
    n_offsets : int
        Number of sources, if they have offsets, else 0.
    nonnegative : bool
        Whether components have no negative entries.
    """

    n_components: int
    n_known: int = 0
    has_dark: bool = False
    n_offsets: int = 0
    nonnegative: bool = False

    @property
    def n_patterns(self) -> int:
        """Number of columns of W: the components and the dark one."""
        return self.n_components + self.has_dark

    @property
    def n_columns(self) -> int:
        """Number of columns of V."""
        return self.n_patterns + self.n_offsets

    @property
    def is_free(self) -> NDArray[np.bool_]:
        """Which columns of V are to be found, shape (n_columns,)."""
        column = np.arange(self.n_columns)
        is_dark = self.has_dark & (column == self.n_components)
        return (column >= self.n_known) & ~is_dark

    @property
    def is_component(self) -> NDArray[np.bool_]:
        """Which columns of V are components, which the prior and the sign are about, shape (n_columns,)."""
        return np.arange(self.n_columns) < self.n_components

    def W(self, V: Float) -> Float:
        """Return the components, with the dark one last, shape (m, n_patterns)."""
        return V[:, : self.n_patterns]

    def offset(self, V: Float, source_code: int) -> Float | None:
        """Return the offset of a source, shape (m,); None if there are no offsets."""
        return V[:, self.n_patterns + source_code] if self.n_offsets else None

    def brightness(self, Ht: NDArray[Any]) -> NDArray[Any]:
        """Return the brightness of samples, shape (n,), from their memberships, shape (n, n_patterns)."""
        return 1.0 - Ht[:, -1] if self.has_dark else np.ones(len(Ht), Ht.dtype)

    def shares(self, Ht: NDArray[Any], norms: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return memberships without the dark component, shape (n, r), rows that sum to one.

        Parameters
        ----------
        Ht : array of shape (n, n_patterns)
            Memberships.
        norms : array of shape (r,), optional
            Norms of the components, if memberships are to be multiplied by them.
        """
        if not self.has_dark:
            return Ht
        parts = Ht[:, :-1] if norms is None else Ht[:, :-1] * norms.astype(Ht.dtype)
        total = parts.sum(axis=1, keepdims=True)
        equal = np.full_like(parts, 1.0 / self.n_components)  # a sample without any light may be anything
        return np.divide(parts, total, out=equal, where=total > np.finfo(Ht.dtype).tiny)
