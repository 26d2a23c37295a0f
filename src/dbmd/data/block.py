"""A block of samples, read chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
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

    def without(self, origin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what :meth:`chunks` can take off the samples: the origin if they are dense, nothing if sparse."""
        return np.zeros_like(origin) if sparse.issparse(self.Xt) else origin

    def chunks(self, taken: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples, less a vector if one is given, in cache-sized pieces of one source each."""
        if sparse.issparse(self.Xt):
            cut: Callable[..., Any] = _csr_rows
        elif taken is None:
            cut = _dense_rows
        else:
            cut = partial(_dense_rows_without, taken.astype(self.dtype))
        size = self._chunk_rows()
        for start, stop, source in self._segments:
            for i in range(start, stop, size):
                place = slice(i, min(i + size, stop))
                rows = self.rows_at(place)
                yield Chunk(cut(self.Xt, rows), source, place, rows)

    def segments(self) -> Iterator[tuple[slice, int]]:
        """Yield places in the order of the chunks and the source of the samples there, one for each run of a source."""
        return ((slice(start, stop), source) for start, stop, source in self._segments)

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


def _dense_rows_without(taken: NDArray[Any], Xt: Any, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
    return np.subtract(Xt[rows], taken, order="C")


def _csr_rows(Xt: Any, rows: slice | NDArray[np.intp]) -> Any:
    return consecutive_rows(Xt, rows.start, rows.stop) if isinstance(rows, slice) else Xt[rows]


def consecutive_rows(Xt: Any, start: int, stop: int) -> Any:
    """Return rows start to stop as a view, for CSR too: slicing it would copy the entries in every pass."""
    if not sparse.issparse(Xt):
        return Xt[start:stop]
    first, last = Xt.indptr[start], Xt.indptr[stop]
    part = sparse.csr_array((stop - start, Xt.shape[1]), dtype=Xt.dtype)
    # Set one by one: the constructor copies what is a view of something much larger.
    part.data, part.indices = Xt.data[first:last], Xt.indices[first:last]
    part.indptr = Xt.indptr[start : stop + 1] - first
    return part
