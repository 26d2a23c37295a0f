"""The arrays of kernels that compute in the memory that NumPy uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dbmd._utils.arrays import is_sparse

__all__ = ["asarray", "coming", "empty"]

empty = np.empty


def asarray(array: Any, dtype: Any = None) -> Any:
    """Return an array, dense or CSR, as it is, or as one of another type."""
    if is_sparse(array):
        return array if dtype is None else array.astype(dtype, copy=False)
    return np.asarray(array, dtype)


def coming(array: Any) -> Callable[[], Any]:
    """Return a function that returns an array, which is here already."""
    return lambda: array
