"""Samples near a space of few dimensions: their coordinates in it, and their distances from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float


@dataclass(frozen=True)
class LowRank:
    """An array of shape (n, m) whose row i is offset + directions @ scores[i] + a residual orthogonal to directions.

    Only the size of the residual is known, and only norms depend on it. They take it as orthogonal to the offset, too,
    which is true once a vector of the space of the samples was subtracted. Products cost as much as those of an
    array of shape (n, k). It replaces an array where ``Xt @ W``, ``Ht.T @ Xt``, ``Xt - vector`` and norms are all that
    is needed. Everything is computed in float64; ``Xt @ W`` is then converted to the type of W.

    Attributes
    ----------
    scores : array of shape (n, k)
        Coordinates.
    directions : array of shape (m, k)
        Orthonormal columns.
    offset : array of shape (m,)
        Where all scores are zero.
    off : array of shape (n,)
        Squared distance of each sample from that space.
    """

    scores: Float
    directions: Float
    offset: Float
    off: Float

    __array_ufunc__ = None  # array @ LowRank calls __rmatmul__ below

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return len(self.scores), len(self.directions)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self.scores.dtype

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Any) -> LowRank:
        return replace(self, scores=self.scores[rows], off=self.off[rows])

    def __sub__(self, vector: Float) -> LowRank:
        return replace(self, offset=self.offset - vector)

    def __matmul__(self, W: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.scores @ (self.directions.T @ W) + self.offset @ W, W.dtype)

    def __rmatmul__(self, H: NDArray[Any]) -> Float:
        return (H @ self.scores) @ self.directions.T + np.outer(H.sum(axis=1, dtype=np.float64), self.offset)

    def squared_norms(self) -> Float:
        """Return ||x||^2 for every row, shape (n,)."""
        along = self.directions.T @ self.offset
        rest = self.offset @ self.offset - along @ along
        return np.asarray(np.square(self.scores + along).sum(axis=1) + self.off + max(rest, 0.0))
