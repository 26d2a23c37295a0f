"""A block of samples, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

CHUNK_BYTES = 1_500_000  # fits the second-level cache together with its memberships
MIN_ROWS, MAX_ROWS = 512, 8192


class Chunk(NamedTuple):
    """Some samples of one source.

    Attributes
    ----------
    Xt : array or CSR matrix of shape (rows, m)
        The samples. ``Xt @ W`` and ``Ht.T @ Xt`` is all that is asked of it.
    source : int
        Their source.
    place : slice
        Where they stand in the order of the chunks: rows of the node's Ht.
    rows : slice or array of int
        Where they stand in the block.
    """

    Xt: Any
    source: int
    place: slice
    rows: slice | NDArray[np.intp]


@dataclass(frozen=True)
class Block:
    """Consecutive samples in memory, dense (any memory map, too) or CSR.

    Attributes
    ----------
    Xt : array or CSR matrix of shape (n_i, m)
        The samples.
    sources : array of int of shape (n_i,), or an int
        The source of each sample, or of all.
    first_row : int
        Number of the first sample in the whole data: what random choices are keyed by.
    """

    Xt: Any
    sources: NDArray[np.intp] | int = 0
    first_row: int = 0
    _segments: list[tuple[int, int, int]] = field(init=False, repr=False)
    _order: NDArray[np.intp] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        segments, order = _segments(self.sources, self.Xt.shape[0])
        object.__setattr__(self, "_segments", segments)
        object.__setattr__(self, "_order", order)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.Xt.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self.Xt.dtype

    def chunks(self) -> Iterator[Chunk]:
        """Yield the samples in cache-sized pieces of one source each."""
        cut = _csr_rows if sparse.issparse(self.Xt) else _dense_rows
        size = self._chunk_rows()
        for start, stop, source in self._segments:
            for i in range(start, stop, size):
                place = slice(i, min(i + size, stop))
                rows = self.rows_at(place)
                yield Chunk(cut(self.Xt, rows), source, place, rows)

    def rows_at(self, place: slice) -> slice | NDArray[np.intp]:
        """Return which rows of the block stand at places in the order of the chunks."""
        return place if self._order is None else self._order[place]

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return some samples as a dense array of shape (len(rows), m)."""
        part = self.Xt[rows]
        return part.toarray() if sparse.issparse(part) else np.asarray(part)

    def _chunk_rows(self) -> int:
        n, m = self.shape
        bytes_per_row = (
            self.Xt.nnz / max(n, 1) * (self.dtype.itemsize + 4) if sparse.issparse(self.Xt) else m * self.dtype.itemsize
        )
        return int(np.clip(CHUNK_BYTES / max(bytes_per_row, 1.0), MIN_ROWS, MAX_ROWS))


def squared_norms(Xt: Any) -> NDArray[Any]:
    """Return ||x||^2 for every row of a chunk, shape (rows,)."""
    if sparse.issparse(Xt):
        return np.asarray(Xt.multiply(Xt).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", Xt, Xt)


def _segments(sources: NDArray[np.intp] | int, n: int) -> tuple[list[tuple[int, int, int]], NDArray[np.intp] | None]:
    """Return runs (start, stop, source) of one source each, and the order of rows they refer to (None: as they are)."""
    if isinstance(sources, int):
        return ([(0, n, sources)] if n else []), None
    order = None
    cuts = np.flatnonzero(np.diff(sources)) + 1
    if len(cuts) * MIN_ROWS > n:  # sources alternate: gather the rows of each, chunk by chunk
        order = np.argsort(sources, kind="stable")
        sources = sources[order]
        cuts = np.flatnonzero(np.diff(sources)) + 1
    edges = [0, *cuts.tolist(), n]
    return [(i, j, int(sources[i])) for i, j in pairwise(edges) if j > i], order


def _dense_rows(Xt: Any, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
    return np.ascontiguousarray(Xt[rows])


def _csr_rows(Xt: Any, rows: slice | NDArray[np.intp]) -> Any:
    return consecutive_rows(Xt, rows.start, rows.stop) if isinstance(rows, slice) else Xt[rows]


def consecutive_rows(Xt: Any, start: int, stop: int) -> Any:
    """Return rows start to stop as a view, for CSR too: slicing it would copy the entries in every pass."""
    if not sparse.issparse(Xt):
        return Xt[start:stop]
    first, last = Xt.indptr[start], Xt.indptr[stop]
    return sparse.csr_array(
        (Xt.data[first:last], Xt.indices[first:last], Xt.indptr[start : stop + 1] - first),
        shape=(stop - start, Xt.shape[1]),
    )
