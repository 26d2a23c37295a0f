"""Sums over samples and their memberships on the CPU, by products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.low_rank import LowRank
from dbmd.model.statistics import Float, SampleSums

__all__ = ["Sums", "products"]

SHORT_SUM = 128  # samples


def products(Xt: Any, W: NDArray[Any], offset: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return Xt W - offset, shape (n, r), of the type of W; Xt is an array, CSR array or LowRank of shape (n, m)."""
    Bt: NDArray[Any] = Xt @ W
    if offset is not None:
        Bt -= offset
    return Bt


class Sums:
    """Sums over samples and their memberships, in float64 whatever the type of the samples.

    Parameters
    ----------
    m, r : int
        Features, memberships.
    dtype : dtype
        Of the samples.
    """

    def __init__(self, m: int, r: int, dtype: Any) -> None:
        self._XHt, self._HHt, self._sizes = np.zeros((m, r)), np.zeros((r, r)), np.zeros(r)
        self._totals, self._squares, self._n = np.zeros(m), np.zeros(m), 0.0

    def add(
        self, Xt: Any, Ht: NDArray[Any], weights: NDArray[np.float64] | None = None, *, norms: bool = False
    ) -> None:
        """Add samples.

        Parameters
        ----------
        Xt : array, CSR array or LowRank of shape (n, m)
            The samples.
        Ht : array of shape (n, r)
            Their memberships.
        weights : array of shape (n,), optional
            How often each counts; by default once.
        norms : bool
            Whether the sums of the samples and of their squares are needed as well.
        """
        H = Ht.astype(np.float64, copy=False)
        count = np.ones(len(H)) if weights is None else weights.astype(np.float64, copy=False)
        counted = H if weights is None else H * count[:, None]
        self._XHt += _XHt(Xt, counted.astype(Ht.dtype, copy=False))
        self._HHt += H.T @ counted
        self._sizes += count @ H  # five times as fast as a sum over rows
        self._n += float(count.sum())
        if norms:
            totals, squares = _norms(Xt, count)
            self._totals += totals
            self._squares += squares

    def send(self) -> None:
        """Do nothing: the sums are here."""

    def total(self) -> SampleSums:
        """Return the sums over the samples so far."""
        return SampleSums(self._XHt, self._HHt, self._sizes, self._n, self._totals, self._squares)


def _norms(Xt: Any, count: Float) -> tuple[Float, Float]:
    """Return the sums of samples and of their squares, shapes (m,), each counted so often, shape (n,), in float64."""
    if isinstance(Xt, np.ndarray):
        X = Xt.astype(np.float64, copy=False)
        totals = count @ X
        return totals, count @ np.square(X, out=None if X is Xt else X)
    totals, m = np.asarray(count[None] @ Xt)[0], Xt.shape[1]
    if isinstance(Xt, LowRank):  # of which only the norms are known
        return totals, np.full(m, float(count @ Xt.squared_norms()) / m)
    values = np.square(Xt.data[: Xt.indptr[-1]].astype(np.float64)) * np.repeat(count, np.diff(Xt.indptr))
    return totals, np.bincount(Xt.indices[: len(values)], values, m).astype(np.float64)


def _XHt(Xt: Any, Ht: NDArray[Any]) -> Float:
    """Return X H^T, shape (m, r), float64, in the order of products that is twice as fast for the layout of X."""
    if not isinstance(Xt, np.ndarray):
        return np.asarray((Ht.T @ Xt).T, np.float64)
    by_columns = Xt.strides[0] < Xt.strides[1]
    if Xt.dtype == np.float64:
        return Xt.T @ Ht if by_columns else (Ht.T @ Xt).T
    # Long sums in float32 lose digits: BLAS computes short ones only, which are added in float64.
    whole = len(Xt) - len(Xt) % SHORT_SUM
    total = np.asarray(Xt[whole:].T @ Ht[whole:], np.float64)
    if whole:
        X_parts = Xt[:whole].T.reshape(Xt.shape[1], -1, SHORT_SUM).transpose(1, 0, 2)
        Ht_parts = Ht[:whole].reshape(-1, SHORT_SUM, Ht.shape[1])
        if by_columns:
            total += (X_parts @ Ht_parts).sum(axis=0, dtype=np.float64)
        else:
            total += (Ht_parts.transpose(0, 2, 1) @ X_parts.transpose(0, 2, 1)).sum(axis=0, dtype=np.float64).T
    return total
