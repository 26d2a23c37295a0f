"""Products of CSR matrices on a GPU: with W, and with memberships.

For the latter a matrix is kept once more, sorted by columns. Sorting takes much longer than a product; it is done once,
and the result is kept with the matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dbmd.errors import needs
from dbmd.kernels._cuda import cupy, launch

__all__ = ["SEGMENT", "ByColumns", "by_columns", "csr", "sparse_products", "sparse_sums"]

THREADS, LANES, MOST_COLUMNS = 256, 32, 64
SEGMENT = 4096  # samples, at most 65,536


class ByColumns(NamedTuple):
    """The entries of a CSR matrix, those of a column in each SEGMENT rows beside each other.

    Attributes
    ----------
    data : array of shape (nnz,)
        The entries.
    rows : array of uint16 of shape (nnz,)
        Their rows in the segment.
    starts : array of int64 of shape (segments * m + 1,)
        Where each column of each segment begins.
    """

    data: Any
    rows: Any
    starts: Any


def csr(array: Any) -> Any:
    """Return a CSR array of SciPy as a CSR matrix of the current device, with indices of the same type."""
    with needs("engine 'gpu'", "cupyx", "gpu"):
        from cupyx.scipy.sparse import csr_matrix
    return csr_matrix(array)


def sparse_products(Xt: Any, W: Any, offset: Any, Bt: Any) -> None:
    """Write Xt W - offset into Bt, shape (n, r), for a CSR matrix; see :func:`dbmd.kernels._gpu_products.products`."""
    n, r = Bt.shape
    indices, index = _indices(Xt)
    for first, count, cols in _column_blocks(r):
        part = W
        if cols != r:  # rows of the kernel's have so many numbers
            part = cupy().zeros((len(W), cols), W.dtype)
            part[:, :count] = W[:, first : first + count]
        sizes = np.int32(r), np.int32(first), np.int32(count)
        args = (Xt.data, *indices, np.int64(n), part, *sizes, offset, Bt)
        _launch("sparse_products", n * LANES, args, W.dtype, cols, index)


def sparse_sums(Xt: Any, Ht: Any, weights: Any, norms: bool, first: int, count: int, parts: Any) -> None:
    """Write X H^T of some segments of a CSR matrix into ``parts``.

    Parameters
    ----------
    Xt : CSR matrix of CuPy of shape (n, m)
        All samples.
    Ht : array of shape (n, r)
        Their memberships.
    weights : array of shape (n,), or NONE
        Their weights.
    norms : bool
        Whether there are two more columns: sums of the samples, and of their squares.
    first, count : int
        The segments.
    parts : array of shape (count, r or r + 2, m)
        The sums of each segment.
    """
    m, r = Xt.shape[1], Ht.shape[1]
    columns = by_columns(Xt)
    start = first * SEGMENT
    rows = min(Xt.shape[0] - start, count * SEGMENT)
    own = weights if isinstance(weights, np.int64) else weights[start : start + rows]
    for begin, width, cols in _blocks_of_sums(r, norms):
        padded = cupy().empty((rows, cols), Ht.dtype)
        sizes = np.int64(rows), np.int32(r), np.int32(begin), np.int32(r + norms)
        _launch("weighted", padded.size, (Ht[start : start + rows], own, *sizes, padded), Ht.dtype, cols)
        squares = r - begin if norms and begin <= r < begin + width else -1
        starts = columns.starts[first * m : (first + count) * m + 1]
        which = (np.int32(x) for x in (parts.shape[1], begin, width, squares))
        args = (columns.data, columns.rows, starts, np.int32(count), np.int32(m), padded, *which, parts)
        _launch("sparse_sums", count * m * LANES, args, Ht.dtype, cols)


def by_columns(Xt: Any) -> ByColumns:
    """Return a CSR matrix of CuPy sorted by columns; the matrix keeps it, and must not be changed afterwards."""
    found: ByColumns | None = getattr(Xt, "_by_columns", None)
    if found is None:
        found = Xt._by_columns = _sorted(Xt)
    return found


def _sorted(Xt: Any) -> ByColumns:
    if not Xt.has_canonical_format:
        Xt = Xt.copy()
        Xt.sum_duplicates()
    xp, (n, m) = cupy(), Xt.shape
    indices, index = _indices(Xt)
    n_bounds = -(-n // SEGMENT) * m + 1
    keys = xp.empty(Xt.data.shape, np.int32 if n_bounds < 2**31 else np.int64)
    rows = xp.empty(Xt.data.shape, np.uint16)
    args = (*indices, np.int64(n), np.int32(m), keys, rows)
    _launch("keys", n * LANES, args, Xt.dtype, 4, index, KEY="int" if keys.dtype == np.int32 else "long long")
    order = xp.argsort(keys, kind="stable")  # rows are in order
    starts = xp.searchsorted(keys[order], xp.arange(n_bounds, dtype=keys.dtype)).astype(np.int64, copy=False)
    return ByColumns(Xt.data[order], rows[order], starts)


def _indices(Xt: Any) -> tuple[tuple[Any, Any], str]:
    """Return the indices and the bounds of rows of a CSR matrix, and the name of their type in C."""
    if Xt.indices.dtype == Xt.indptr.dtype == np.int32:
        return (Xt.indices, Xt.indptr), "int"
    return (Xt.indices.astype(np.int64, copy=False), Xt.indptr.astype(np.int64, copy=False)), "long long"


def _column_blocks(n_columns: int) -> list[tuple[int, int, int]]:
    """Return for each launch the first column, their number, and the next multiple of four."""
    width = -(-n_columns // -(-n_columns // MOST_COLUMNS))
    blocks = [(first, min(width, n_columns - first)) for first in range(0, n_columns, width)]
    return [(first, count, -(-count // 4) * 4) for first, count in blocks]


def _blocks_of_sums(r: int, norms: bool) -> list[tuple[int, int, int]]:
    """Return the same as for r columns; with norms there is one more, for which no block becomes wider.

    The order in which a block adds depends on its width, and sums must not depend on whether norms were asked for.
    """
    blocks = _column_blocks(r)
    first, count, cols = blocks[-1]
    if norms and count < cols:
        blocks[-1] = (first, count + 1, cols)
    elif norms:
        blocks.append((r, 1, 4))
    return blocks


def _launch(
    name: str, threads: int, args: tuple[Any, ...], dtype: Any, cols: int, index: str = "int", KEY: str = "int"
) -> None:
    constants: dict[str, Any] = {
        "REAL": "float" if dtype == np.float32 else "double",
        "COLS": cols,
        "INDEX": index,
        "KEY": KEY,
    }
    blocks = max(1, min(-(-threads // THREADS), 2**20))
    launch("sparse", name, blocks, args, SEGMENT=SEGMENT, LANES=LANES, THREADS=THREADS, **constants)
