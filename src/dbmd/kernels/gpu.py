"""The H-step on a GPU, for arrays of CuPy.

Samples are solved and added up as on the CPU (:mod:`dbmd.kernels.cpu`), by sources in CUDA that stand beside this file
(:mod:`dbmd.kernels._cuda`). Everything is queued on the current stream of the current device: only what the host has to
know makes it wait, such as the sums at the end of a pass.
"""

from __future__ import annotations

from typing import Any

from dbmd._utils.arrays import is_here, is_sparse
from dbmd.kernels._cuda import coming, cupy
from dbmd.kernels._gpu_covariance import FaceCovariance, sum_log
from dbmd.kernels._gpu_fill import locate, put, put_products
from dbmd.kernels._gpu_gaps import GapCovariance, solve_h_with_gaps
from dbmd.kernels._gpu_h_step import solve_h
from dbmd.kernels._gpu_pass import Pass
from dbmd.kernels._gpu_products import products
from dbmd.kernels._gpu_sparse import csr
from dbmd.kernels._gpu_sums import Sums

__all__ = [
    "FaceCovariance",
    "GapCovariance",
    "Pass",
    "Sums",
    "asarray",
    "coming",
    "empty",
    "locate",
    "products",
    "put",
    "put_products",
    "solve_h",
    "solve_h_with_gaps",
    "sum_log",
]


def asarray(array: Any, dtype: Any = None) -> Any:
    """Return an array or CSR array of either kind as one of the current device, of a type; as it is if it is one."""
    if not is_sparse(array):
        return cupy().asarray(array, dtype)
    if is_here(array):
        array = csr(array)
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new array on the current device, whose entries may be anything."""
    return cupy().empty(shape, dtype)
