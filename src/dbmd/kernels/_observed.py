"""Gram matrices of W over the observed features of a sample with gaps.

They are computed from whichever features are fewer, the observed ones O or the gaps G: W_O'W_O = Q - W_G'W_G.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._rows import LANES, add_gram_tile, inlined, jit, padded

__all__ = ["in_rows", "largest", "observed_gram"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end
LITTLE = 1e-3  # fraction of Q below which a difference from Q would have lost too many digits


def in_rows(matrix: NDArray[Any], n_rows: int | None = None) -> NDArray[np.float64]:
    """Return the rows of a matrix, shape (k, r), one after the other, each padded with zeros to a multiple of LANES.

    Rows of zeros are added up to ``n_rows``.
    """
    k, r = matrix.shape
    rows = np.zeros((n_rows or k, int(padded(r))))
    rows[:k, :r] = matrix
    return rows.ravel()


@inlined
def observed_gram(Q: Any, W: Any, columns: Any, first: Any, last: Any, most: Any, others: Any, out: Any) -> Any:
    """Write the Gram matrix of W over the observed features of a sample to the upper triangle of ``out``.

    Parameters
    ----------
    Q, W : array of shape (width * width,) and (m * width,)
        Gram matrix over all features, and the basis, rows of ``width = padded(r)`` numbers one after the other.
    columns : array of int
        Those from ``first`` to ``last`` are the missing features, in order.
    first, last : int
        Where the gaps of the sample begin and end.
    most : float
        The largest entry of the diagonal of Q.
    others : array of int of shape (m,), changed in place
        Workspace.
    out : array of shape (width * width,), changed in place
        The result.

    Returns
    -------
    float
        The largest entry of its diagonal.
    """
    width = len(W) // len(others)
    if 2 * (last - first) <= len(others):
        for k in range(0, width, LANES):
            for c in range(k, width, LANES):
                add_gram_tile(out, Q, -1.0, W, columns, first, last, width, k, c)
        rest = largest(out, width)
        if rest >= LITTLE * most:
            return rest
    count = _complement(columns, first, last, others)
    for k in range(width * width):
        out[k] = 0.0
    for k in range(0, width, LANES):
        for c in range(k, width, LANES):
            add_gram_tile(out, out, 1.0, W, others, 0, count, width, k, c)
    return largest(out, width)


@inlined
def largest(matrix: Any, width: Any) -> Any:
    """Return the largest entry of the diagonal of a matrix of shape (width * width,)."""
    largest = 0.0
    for k in range(width):
        largest = max(largest, matrix[at(k * width + k)])
    return largest


@jit
def _complement(columns: Any, first: Any, last: Any, others: Any) -> Any:
    """Write the features that are not among the missing ones to ``others``, shape (m,); return their number."""
    count = 0
    for j in range(len(others)):
        if first < last and columns[first] == j:
            first += 1
        else:
            others[count] = j
            count += 1
    return count
