"""Numbers for the gaps of samples, written where they are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._rows import jit
from dbmd.model.gaps import Gaps

__all__ = ["locate", "put", "put_products"]


def locate(mask: NDArray[np.bool_]) -> Gaps:
    """Return the gaps of samples from a mask, shape (n, m), True where an entry is missing."""
    mask = np.require(mask, np.bool_, ["C", "W"])
    starts, columns = np.empty(len(mask) + 1, np.int64), np.empty(np.count_nonzero(mask) + 1, np.int64)
    _locate(mask.view(np.uint8), starts, columns)
    return Gaps(starts, columns[:-1])


def put(Xt: NDArray[Any], gaps: Gaps, values: NDArray[Any]) -> None:
    """Write a number for each feature, shape (m,), into the gaps of samples, shape (n, m)."""
    _put(Xt, *gaps, np.require(values, Xt.dtype, ["C", "W"]))


def put_products(Xt: NDArray[Any], gaps: Gaps, Ht: NDArray[Any], W: NDArray[Any], centre: NDArray[Any]) -> None:
    """Write w_j'h + centre_j into each gap.

    Parameters
    ----------
    Xt : array of shape (n, m), changed in place
        The samples.
    gaps : Gaps
        Their gaps.
    Ht : array of shape (n, r)
        Their memberships.
    W : array of shape (m, r)
        The basis.
    centre : array of shape (m,)
        What is added.
    """
    _put_products(Xt, *gaps, *(np.require(each, np.float64, ["C", "W"]) for each in (Ht, W, centre)))


@jit
def _put(Xt: Any, starts: Any, columns: Any, values: Any) -> None:
    """Write ``values``, shape (m,), into the gaps of Xt, shape (n, m)."""
    for i in range(len(starts) - 1):
        for g in range(starts[i], starts[i + 1]):
            j = columns[np.uint64(g)]
            Xt[np.uint64(i), np.uint64(j)] = values[np.uint64(j)]


@jit
def _put_products(Xt: Any, starts: Any, columns: Any, Ht: Any, W: Any, centre: Any) -> None:
    """Write w_j'h + centre_j into the gaps of Xt, shape (n, m); Ht is of shape (n, r), W of shape (m, r)."""
    r = Ht.shape[1]
    for i in range(len(starts) - 1):
        for g in range(starts[i], starts[i + 1]):
            j = columns[np.uint64(g)]
            total = centre[np.uint64(j)]
            for k in range(r):
                total += W[np.uint64(j), np.uint64(k)] * Ht[np.uint64(i), np.uint64(k)]
            Xt[np.uint64(i), np.uint64(j)] = total


@jit
def _locate(mask: Any, starts: Any, columns: Any) -> None:
    """Write where a mask, shape (n, m), is not zero to ``starts``, shape (n + 1,), and ``columns``, one longer."""
    n, m = mask.shape
    count = np.int64(0)
    for i in range(n):
        starts[i] = count
        for j in range(m):  # no branches: they would be mispredicted
            columns[np.uint64(count)] = j
            count += mask[i, j]
    starts[n] = count
