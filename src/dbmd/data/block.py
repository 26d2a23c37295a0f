"""A block of samples, read chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dbmd._utils.arrays import is_here, is_sparse, namespace
from dbmd.model.gaps import Gaps
from dbmd.model.low_rank import LowRank

CHUNK_BYTES = 3_000_000  # a chunk stays in cache from one product to the next; smaller ones cost more calls
MIN_ROWS, MAX_ROWS = 512, 16384
WINDOW_BYTES = 64_000_000  # rows of one source are gathered from windows of at most this size
AWAY_BYTES, AWAY_ROWS = 1_000_000_000, 8192  # on a device, chunks are large, and a multiple of so many rows

Rows = slice | NDArray[np.intp]


class Chunk(NamedTuple):
    """Some samples of one source.

    Arrays are of the kind that the kernel of the samples takes (:attr:`Samples.kernel`): of NumPy, or of a device.
    There, ``rows`` and ``class_codes`` may be of NumPy, too.

    Attributes
    ----------
    Xt : array, CSR array or LowRank of shape (rows, m)
        The samples. Only ``Xt @ W``, ``Ht.T @ Xt`` and norms of it are computed.
    source_code : int
        Their source.
    rows : slice or array of int
        Their numbers in the block.
    class_codes : array of int of shape (rows,), optional
        Their known classes, which the fit does not use.
    weights : array of shape (rows,), optional
        For how many samples each stands; by default for itself.
    gaps : array of bool of shape (rows, m), optional
        Which entries are missing; None: none. There ``Xt`` has a number that stands in for them, which may be replaced
        by another: the samples are in a buffer, not in the data.
    dropped : array of bool of shape (rows,), optional
        Which samples are left out because they have gaps; None: none. Their weight is zero.
    places : Gaps, optional
        The same as ``gaps``, row by row, if known.
    """

    Xt: Any
    source_code: int
    rows: Rows
    class_codes: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    gaps: NDArray[np.bool_] | None = None
    dropped: NDArray[np.bool_] | None = None
    places: Gaps | None = None

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The rows, as an array of the kind of the samples."""
        rows, xp = self.rows, namespace(self.Xt)
        return xp.arange(rows.start, rows.stop) if isinstance(rows, slice) else xp.asarray(rows)

    def rows_after(self, first: int) -> Rows:
        """Return the rows, counted from another one than the first of the block."""
        rows = self.rows
        return slice(rows.start - first, rows.stop - first) if isinstance(rows, slice) else rows - first


class Window(NamedTuple):
    """Consecutive samples, as they are stored.

    Attributes
    ----------
    first : int
        Number of the first of them in the block.
    Xt : array or CSR array of shape (rows, m)
        The samples, numbers of any type.
    source_codes : array of int of shape (rows,), or an int
        The source of each, or of all.
    class_codes : array of int of shape (rows,), optional
        Their known classes.
    extra : dict of str to pyarrow.Array
        Columns to copy to the output.
    weights : array of shape (rows,), optional
        For how many samples each stands; by default for itself.
    """

    first: int
    Xt: Any
    source_codes: NDArray[np.intp] | int = 0
    class_codes: NDArray[np.intp] | None = None
    extra: Mapping[str, Any] = MappingProxyType({})
    weights: NDArray[np.float64] | None = None

    def chunks(self, dtype: np.dtype[Any], shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples as numbers of a type, minus a shift if given, in chunks of one source each.

        With a shift, a chunk is valid only until the next one, which uses the same buffer: allocating and freeing a
        megabyte for each chunk costs more than the subtraction where malloc is set to return memory at once (Dask's
        workers).
        """
        size, xp = chunk_rows(self.Xt, dtype), namespace(self.Xt)
        shift = None if shift is None else xp.asarray(shift, dtype)
        buffer = None
        if shift is not None and xp is np and not is_sparse(self.Xt) and not isinstance(self.Xt, LowRank):
            # In the memory order of the array: columns from a file are contiguous, and BLAS accepts either.
            by_columns = self.Xt.strides[0] < self.Xt.strides[1]
            buffer = np.empty((min(size, len(self.Xt)), len(shift)), dtype, order="F" if by_columns else "C")
        for rows, source_code in _runs(self.source_codes, self.Xt.shape[0]):
            length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
            for i in range(0, length, size):
                j = min(i + size, length)
                part = slice(rows.start + i, rows.start + j) if isinstance(rows, slice) else xp.asarray(rows[i:j])
                yield Chunk(
                    _prepared(self.Xt, part, dtype, shift, buffer),
                    source_code,
                    slice(part.start + self.first, part.stop + self.first)
                    if isinstance(part, slice)
                    else part + self.first,
                    None if self.class_codes is None else xp.asarray(self.class_codes)[part],
                    None if self.weights is None else xp.asarray(self.weights)[part],
                )


class Samples(ABC):
    """Consecutive samples in memory or in files: the block of a node.

    Attributes
    ----------
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    is_sparse : bool
        Whether the chunks are CSR.
    is_contiguous : bool
        Whether chunks are consecutive samples in memory, which need not be gathered.
    first_row : int
        Number of the first sample in the whole data: what random choices are keyed by.
    off : dict of int to float
        For each source the squared distances of its samples from the space that they were projected on, summed; by
        default there are none.
    """

    first_row: int
    off: Mapping[int, float] = MappingProxyType({})

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""

    @property
    @abstractmethod
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""

    @property
    def is_contiguous(self) -> bool:
        """Whether chunks are consecutive samples in memory, which need not be gathered."""
        return False

    @property
    def allows_gaps(self) -> bool:
        """Whether samples may have missing entries; then chunks may have gaps, or samples that are left out."""
        return False

    @property
    def kernel(self) -> str:
        """Name of the kernel that works on arrays of the kind of the chunks (:mod:`dbmd.kernels`)."""
        return "cpu"

    @abstractmethod
    def windows(self) -> Iterator[Window]:
        """Yield the samples in order, as they are stored."""

    def chunks(self, shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples, minus a shift of shape (m,) if given, in chunks of one source each."""
        for window in self.windows():
            yield from self.chunks_of(window, shift)

    def chunks_of(self, window: Window, shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples of one of the windows, minus a shift of shape (m,) if given, in chunks of one source."""
        return window.chunks(self.dtype, shift)

    def dropped(self) -> NDArray[np.bool_] | None:
        """Return which samples are left out because they have gaps, shape (n_i,); None: none."""
        return None

    def shift_for(self, origin: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shift for :meth:`chunks`, shape (m,): the origin if the samples are dense, zeros if sparse."""
        return np.zeros_like(origin) if self.is_sparse else origin


@dataclass(frozen=True)
class Block(Samples):
    """Consecutive samples in memory, dense (any memory map, too) or CSR.

    Attributes
    ----------
    Xt : array, CSR array or LowRank of shape (n_i, m)
        The samples. Narrow types stay as they are; chunks are converted one by one.
    source_codes : array of int of shape (n_i,), or an int
        The source of each sample, or of all.
    first_row : int
        Number of the first sample in the whole data: what random choices are keyed by.
    as_type : dtype, optional
        Type to compute with; by default the least floating-point type that holds the entries.
    class_codes : array of int of shape (n_i,), optional
        The known class of each sample.
    weights : array of shape (n_i,), optional
        For how many samples each stands; by default for itself.
    off : dict of int to float
        For each source the squared distances of its samples from the space that they were projected on, summed.
    """

    Xt: Any
    source_codes: NDArray[np.intp] | int = 0
    first_row: int = 0
    as_type: np.dtype[Any] | None = None
    class_codes: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    off: Mapping[int, float] = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return self.as_type or float_type(self.Xt.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.Xt.shape

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return is_sparse(self.Xt)

    @property
    def is_contiguous(self) -> bool:
        """Whether chunks are consecutive samples in memory, which need not be gathered."""
        return isinstance(self.source_codes, int) and not self.is_sparse

    @property
    def kernel(self) -> str:
        """Name of the kernel for the chunks."""
        return "cpu" if is_here(self.Xt) else "gpu"

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they are stored: all at once, or with several sources, in pieces of bounded size."""
        n = self.shape[0]
        if isinstance(self.source_codes, int) or not is_here(self.Xt):
            yield Window(0, self.Xt, self.source_codes, self.class_codes, weights=self.weights)
            return
        # Of bounded size: gathering the rows of a source from the whole block would read a memory map in random order.
        size = chunk_rows(self.Xt, self.dtype)
        n_sources = int(self.source_codes.max()) + 1 if n else 1
        most = int(WINDOW_BYTES / max(_bytes_per_row(self.Xt, self.dtype), 1.0))
        step = max(size, min(size * n_sources, most))
        for i in range(0, n, step):
            j = min(i + step, n)
            class_codes = None if self.class_codes is None else self.class_codes[i:j]
            weights = None if self.weights is None else self.weights[i:j]
            Xt = consecutive_rows(self.Xt, i, j)
            yield Window(i, Xt, self.source_codes[i:j], class_codes, weights=weights)


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type to compute with: float32 for what fits in it (float16, up to 16-bit integers), else float64."""
    return np.dtype(np.float32 if np.result_type(dtype, np.float32) == np.float32 else np.float64)


def chunk_rows(Xt: Any, dtype: np.dtype[Any]) -> int:
    """Return the number of rows of a chunk."""
    if not is_here(Xt):
        return max(1, int(AWAY_BYTES / max(_bytes_per_row(Xt, dtype), 1.0)) // AWAY_ROWS) * AWAY_ROWS
    return int(np.clip(CHUNK_BYTES / max(_bytes_per_row(Xt, dtype), 1.0), MIN_ROWS, MAX_ROWS))


def _bytes_per_row(Xt: Any, dtype: np.dtype[Any]) -> float:
    n, m = Xt.shape
    if isinstance(Xt, LowRank):
        m = Xt.scores.shape[1]
    return float(Xt.nnz) / max(n, 1) * (dtype.itemsize + 4) if is_sparse(Xt) else m * dtype.itemsize


def _runs(source_codes: NDArray[np.intp] | int, n: int) -> Iterator[tuple[Rows, int]]:
    """Yield rows of one source each: consecutive ones, or gathered if sources alternate often."""
    if isinstance(source_codes, int):
        if n:
            yield slice(0, n), source_codes
        return
    order = None
    cuts = np.flatnonzero(np.diff(source_codes)) + 1
    if len(cuts) * MIN_ROWS > n:
        order = np.argsort(source_codes, kind="stable")
        source_codes = source_codes[order]
        cuts = np.flatnonzero(np.diff(source_codes)) + 1
    for i, j in pairwise([0, *cuts.tolist(), n]):
        if j > i:
            yield slice(i, j) if order is None else order[i:j], int(source_codes[i])


def _prepared(
    Xt: Any, rows: Rows, dtype: np.dtype[Any], shift: NDArray[Any] | None, buffer: NDArray[Any] | None
) -> Any:
    """Return rows of an array as numbers of a type; dense ones minus a shift, in the buffer if there is one."""
    if is_sparse(Xt):
        part = consecutive_rows(Xt, rows.start, rows.stop) if isinstance(rows, slice) else Xt[rows]
        return part if part.dtype == dtype else part.astype(dtype)
    if isinstance(Xt, LowRank):
        return Xt[rows] if shift is None else Xt[rows] - shift
    if not is_here(Xt):
        part = Xt[rows].astype(dtype, copy=False)
        return part if shift is None else part - shift
    if shift is None or buffer is None:
        return np.asarray(Xt[rows], dtype)
    if not isinstance(rows, slice) and Xt.dtype == dtype and buffer.flags.c_contiguous:
        gathered = np.take(Xt, rows, axis=0, out=buffer[: len(rows)], mode="clip")  # "clip" needs no buffer of its own
        gathered -= shift
        return gathered
    part = Xt[rows]
    return np.subtract(part, shift, out=buffer[: len(part)], dtype=dtype)


def canonical(Xt: Any) -> Any:
    """Return a CSR array or matrix whose indices are sorted and distinct in each row; duplicate entries are added.

    Norms, draws and the fingerprint rely on it. A matrix that is not canonical is copied.
    """
    if Xt.has_canonical_format:
        return Xt
    Xt = Xt.copy()
    Xt.sum_duplicates()
    return Xt


def consecutive_rows(Xt: Any, start: int, stop: int) -> Any:
    """Return rows start to stop as a view, also of a CSR array, whose slices would be copies."""
    if not is_sparse(Xt):
        return Xt[start:stop]
    if not is_here(Xt):
        if stop - start == Xt.shape[0]:
            return Xt
        first, last = int(Xt.indptr[start]), int(Xt.indptr[stop])
        parts = Xt.data[first:last], Xt.indices[first:last], Xt.indptr[start : stop + 1] - first
        return type(Xt)(parts, shape=(stop - start, Xt.shape[1]))
    first, last = Xt.indptr[start], Xt.indptr[stop]
    part = sparse.csr_array((stop - start, Xt.shape[1]), dtype=Xt.dtype)
    # Set one by one: the constructor copies a view of a much larger array.
    part.data, part.indices = Xt.data[first:last], Xt.indices[first:last]
    part.indptr = Xt.indptr[start : stop + 1] - first
    return part
