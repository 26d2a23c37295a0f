"""A number that identifies data: it does not depend on how they are stored, split or ordered, only on their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import is_here, is_sparse, namespace
from dbmd.data.finite import canonical_nan

MASK = (1 << 64) - 1
_ODD = np.uint64(0x9E3779B97F4A7C15)


def multipliers(m: int) -> NDArray[np.uint64]:
    """Return an odd random 64-bit number for each column, shape (m,)."""
    return np.random.default_rng(0).integers(0, MASK, m, np.uint64, endpoint=True) | np.uint64(1)


def fingerprint(Xt: Any, columns: NDArray[np.uint64], row_hashes: NDArray[np.uint64] | int = 0) -> int:
    """Return the sum of a hash of each row. The fingerprints of parts add up to that of the whole, modulo 2^64.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m), float32 or float64
        The samples. A zero counts for nothing, so that dense and sparse agree. All NaN count the same.
    columns : array of shape (m,)
        From :func:`multipliers`.
    row_hashes : array of shape (n,), or an int
        A hash of what else belongs to each row: the name of its source.
    """
    word = np.uint32 if Xt.dtype.itemsize == 4 else np.uint64
    if is_sparse(Xt) and not is_here(Xt):
        Xt = Xt.get()  # CuPy has no sparse matrices of whole numbers
    if is_sparse(Xt):
        words = (Xt.data + Xt.dtype.type(0)).view(word).astype(np.uint64)
        part = sparse.csr_array((words * columns[Xt.indices], Xt.indices, Xt.indptr), shape=Xt.shape)
        rows = part @ np.ones(Xt.shape[1], np.uint64)
    else:
        columns = namespace(Xt).asarray(columns)
        rows = (canonical_nan(Xt + Xt.dtype.type(0)).view(word) * columns).sum(axis=1, dtype=np.uint64)
    # One more for each row, so that rows of zeros count.
    rows = (rows ^ (rows >> np.uint64(29))) * _ODD + namespace(rows).asarray(row_hashes, np.uint64) + np.uint64(1)
    rows = (rows ^ (rows >> np.uint64(32))) * _ODD
    return int(rows.sum(dtype=np.uint64))
