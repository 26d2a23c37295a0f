"""Arrays of NumPy, and arrays that look like them but live elsewhere: which kind one is, and how to bring it here."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def namespace(array: Any) -> ModuleType:
    """Return the module with the functions for an array, dense or CSR: numpy, or that of arrays elsewhere."""
    if hasattr(array, "indptr"):
        array = array.data
    top = sys.modules[type(array).__module__.partition(".")[0]]
    return top if hasattr(top, "ndarray") else np


def is_here(array: Any) -> bool:
    """Return whether an array, dense or CSR, is in the memory that NumPy uses."""
    return namespace(array) is np


def to_host(array: Any) -> Any:
    """Return an array as one of NumPy, or a CSR array as one of SciPy: itself if it is one, else a copy."""
    if is_sparse(array):
        return array if is_here(array) else sparse.csr_array(array.get())
    return np.asarray(array) if is_here(array) else array.get()


def dense_here(array: Any) -> NDArray[np.float64]:
    """Return an array of any kind as a dense one of NumPy, in float64."""
    found = to_host(array)
    return np.asarray(found.toarray() if is_sparse(found) else found, np.float64)


def is_sparse(array: Any) -> bool:
    """Return whether an array is a CSR array or matrix, of either kind."""
    return hasattr(array, "indptr")


def with_data(Xt: Any, data: Any) -> Any:
    """Return a CSR array of other numbers in the places of those of another one; their indices are not copied."""
    if not is_here(Xt):
        return type(Xt)((data, Xt.indices[: len(data)], Xt.indptr), shape=Xt.shape)
    new = sparse.csr_array(Xt.shape, dtype=data.dtype)
    # Set one by one: the constructor checks and may copy.
    new.data, new.indices, new.indptr = data, Xt.indices[: len(data)], Xt.indptr
    return new


def rows_here(rows: Any) -> slice | NDArray[np.intp]:
    """Return numbers of rows, a slice or an array of either kind, for an array of NumPy."""
    return rows if isinstance(rows, slice) else to_host(rows)
