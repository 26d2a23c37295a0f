"""Arrays in the memory of a GPU, of whatever library: recognised, taken as arrays of CuPy, and handed back.

Libraries are recognised by what their arrays can do, and never imported here but for CuPy: an array that is passed has
loaded its own.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, is_sparse
from dbmd.errors import needs

CUDA = (2, 13)  # what DLPack calls the memory of a GPU, and memory that a GPU and the CPU share


def has_device() -> bool:
    """Return whether this process can use a GPU."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver, one that is too old: each has an error of its own
        return False


def is_on_device(data: Any) -> bool:
    """Return whether data are an array, a sparse matrix or a table in the memory of a GPU."""
    if hasattr(data, "nnz") and hasattr(data, "data"):
        data = data.data  # the numbers of a sparse matrix
    # First: of an array that is part of a gradient, PyTorch refuses the other.
    if hasattr(data, "__dlpack_device__"):
        with suppress(Exception):  # an array that is spread over several devices is on none
            return bool(data.__dlpack_device__()[0] in CUDA)
        return False
    return hasattr(data, "__cuda_array_interface__") or hasattr(data, "to_cupy")


def as_device_array(data: Any) -> Any:
    """Return data in the memory of a GPU as an array of CuPy or a CSR matrix of cupyx: a view where that is possible.

    When it returns, everything that the library of the data had to compute first is done.

    Parameters
    ----------
    data : array, sparse matrix or table
        Anything that :func:`is_on_device`. What is not stored row by row is copied.

    Raises
    ------
    TypeError
        If the entries are not numbers, or the library does not let its array be shared.
    """
    with needs("engine 'gpu'", "cupy", "gpu"):
        import cupy
    found = _csr(data) if hasattr(data, "nnz") else _dense(data, cupy)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"The data must be numbers of a type that NumPy has. Got {found.dtype}.")
    with device_of(found):
        found = found if is_sparse(found) else cupy.ascontiguousarray(found)
        cupy.cuda.get_current_stream().synchronize()
    return found


def _csr(data: Any) -> Any:
    """Return a sparse matrix as a CSR matrix that shares the arrays of one.

    It is another object, for kernels keep what they find out about a matrix with it, and the caller may change his own.
    """
    with device_of(data.data):
        found = data if getattr(data, "format", None) == "csr" else data.tocsr()
        stored = int(found.indptr[-1])  # there may be room for more behind them
        return type(found)((found.data[:stored], found.indices[:stored], found.indptr), shape=found.shape)


def _dense(data: Any, cupy: Any) -> Any:
    """Return an array or a table as an array of CuPy that shares its memory, if it can be shared."""
    if isinstance(data, cupy.ndarray):
        if type(data) is cupy.ndarray:
            return data
        return cupy.ndarray(data.shape, data.dtype, data.data, data.strides)  # of a subclass, as AnnData has for views
    try:
        if hasattr(data, "to_cupy"):  # cuDF: columns, which have to be put side by side
            return data.to_cupy()
        return cupy.from_dlpack(data) if hasattr(data, "__dlpack__") else cupy.asarray(data)
    except Exception as error:  # each library has errors of its own
        raise TypeError(
            f"An array of {type(data).__module__.partition('.')[0]} cannot be taken as one of CuPy: {error}"
        ) from error


def brought_here(values: Any) -> Any:
    """Return an array or a column of a table in the memory of a GPU as an array of NumPy; anything else as it is."""
    if not is_on_device(values):
        return values
    # A column of cuDF may hold text, which CuPy has not.
    return np.asarray(values.to_numpy()) if hasattr(values, "to_numpy") else as_device_array(values).get()


def device_of(array: Any) -> AbstractContextManager[Any]:
    """Return a context in which CuPy uses the device that an array is on; it does nothing for an array that is here."""
    if array is None or is_here(array):
        return nullcontext()
    found: AbstractContextManager[Any] = (array.data if is_sparse(array) else array).device
    return found


def beside(values: NDArray[Any], data: Any) -> Any:
    """Return an array of NumPy in the memory that data are in, as an array of their library."""
    if not is_on_device(data):
        return values
    with needs("engine 'gpu'", "cupy", "gpu"):
        import cupy
    with device_of(as_device_array(data)):
        return as_given(cupy.asarray(values), data)


def as_given(found: Any, data: Any) -> Any:
    """Return an array of CuPy as one of the library that data are of, if it takes arrays by DLPack; else as it is.

    Parameters
    ----------
    found : array of CuPy, or anything else, which is returned as it is
        A result.
    data : array, sparse matrix or table
        What it was computed from.
    """
    library = sys.modules.get(type(data).__module__.partition(".")[0])
    take = getattr(library, "from_dlpack", None)
    is_array = hasattr(data, "__dlpack__")  # tables are not, though their library may take arrays
    if take is None or not is_array or not is_on_device(found) or isinstance(found, type(data)):
        return found
    return take(found)
