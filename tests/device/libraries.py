"""Libraries with arrays on a GPU, as dbmd sees them: what their arrays can do, made of arrays of CuPy."""

import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np


class Tensor:
    """An array that can be shared by DLPack, as those of PyTorch; on the CPU, too."""

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad = array, requires_grad

    shape = property(lambda self: self.array.shape)

    def __dlpack__(self, **how):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    @property
    def __cuda_array_interface__(self):
        if self.requires_grad:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")
        return self.array.__cuda_array_interface__

    def __array__(self, dtype=None, copy=None):
        return self.array.__array__(dtype) if dtype is not None else self.array.__array__()


class DeviceArray:
    """An array that has the CUDA array interface alone, as those of numba."""

    def __init__(self, array):
        self._array = array
        self.shape = array.shape

    @property
    def __cuda_array_interface__(self):
        return self._array.__cuda_array_interface__


class Series:
    """A column of a table, as of cuDF: numbers or text."""

    def __init__(self, values):
        self._values = np.asarray(values)

    def to_numpy(self):
        return self._values

    def to_cupy(self):
        import cupy

        return cupy.asarray(self._values)


class DataFrame:
    """A table as of cuDF, whose columns are stored one by one."""

    def __init__(self, columns):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.loc = None

    columns = property(lambda self: list(self._columns))
    shape = property(lambda self: (len(next(iter(self._columns.values()))), len(self._columns)))

    def __getitem__(self, name):
        return Series(self._columns[name])

    def drop(self, *, columns):
        return DataFrame({name: values for name, values in self._columns.items() if name not in columns})

    def to_cupy(self):
        import cupy

        return cupy.asarray(np.asfortranarray(np.column_stack(list(self._columns.values()))))

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a host NumPy array via __array__ is not allowed.")


@contextmanager
def library(name="tensors"):
    """Put a library of such tensors in ``sys.modules``; yield it."""
    module = ModuleType(name)
    module.Tensor = type("Tensor", (Tensor,), {"__module__": name})

    def from_dlpack(array):
        import cupy

        return module.Tensor(cupy.from_dlpack(array))

    module.from_dlpack = from_dlpack
    sys.modules[name] = module
    try:
        yield module
    finally:
        del sys.modules[name]
