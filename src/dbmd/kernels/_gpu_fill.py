"""Numbers for the gaps of samples on a device: which of the kernels of ``fill.cu`` to start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._cuda import cupy, launch
from dbmd.kernels._gpu_h_step import REAL, as_rows
from dbmd.model.gaps import Gaps

__all__ = ["gaps_of", "locate", "put", "put_products"]

THREADS, LANES = 256, 8


def locate(mask: Any) -> Gaps:
    """Return the gaps of samples from a mask, shape (n, m), True where an entry is missing."""
    n, m = mask.shape
    places = cupy().flatnonzero(as_rows(mask))
    starts = cupy().searchsorted(places, cupy().arange(n + 1) * m)
    return Gaps(starts.astype(np.int64, copy=False), (places % max(m, 1)).astype(np.int64, copy=False))


def gaps_of(gaps: Any) -> Gaps:
    """Return gaps as they are, or those of a mask, shape (n, m)."""
    return gaps if isinstance(gaps, Gaps) else locate(gaps)


def put(Xt: Any, gaps: Gaps, values: NDArray[Any]) -> None:
    """Write a number for each feature, shape (m,), into the gaps of samples, shape (n, m)."""
    # In two steps: a number is rounded to the type of the samples once.
    rounded = np.asarray(values, Xt.dtype).astype(np.float64)
    _start("put", Xt, gaps, cupy().asarray(rounded))


def put_products(Xt: Any, gaps: Gaps, Ht: Any, W: NDArray[Any], centre: NDArray[Any]) -> None:
    """Write w_j'h + centre_j into each gap.

    Parameters
    ----------
    Xt : array of shape (n, m), changed in place
        The samples.
    gaps : Gaps
        Their gaps.
    Ht : array of shape (n, r)
        Their memberships.
    W : array of shape (m, r), of NumPy
        The basis.
    centre : array of shape (m,), of NumPy
        What is added.
    """
    W_and_centre = cupy().asarray(np.concatenate([np.ravel(W), centre]).astype(np.float64, copy=False))
    r = W.shape[1]
    _start("put_products", Xt, gaps, as_rows(Ht, Xt.dtype), np.int32(r), W_and_centre, W_and_centre[W.size :])


def _start(name: str, Xt: Any, gaps: Gaps, *args: Any) -> None:
    if not Xt.size or not gaps.columns.size:
        return
    row, column = (np.int64(stride // Xt.dtype.itemsize) for stride in Xt.strides)
    blocks = min(-(-len(Xt) * LANES // THREADS), 1 << 14)
    args = (Xt, row, column, gaps.starts, gaps.columns, np.int64(len(Xt)), *args)
    launch("fill", name, blocks, args, THREADS=THREADS, LANES=LANES, REAL=REAL[Xt.dtype])
