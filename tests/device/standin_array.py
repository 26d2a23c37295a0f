"""Arrays of the stand-in for CuPy, and what goes between them and those of NumPy."""

import ctypes
import functools
import operator
from types import ModuleType, SimpleNamespace

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import standin_cuda as cuda

SCALARS = (bool, int, float, complex, np.generic)
module_cupy = ModuleType("cupy")  # standin.py fills it


def _root(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class _Pointer(SimpleNamespace):
    """Where an array begins: ``array.data``."""


class ndarray(NDArrayOperatorsMixin):
    """An array of a device: one of NumPy that does not mix with others."""

    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if memptr is not None:  # an array of this memory, which its owner keeps
            strides = strides or np.empty(shape, dtype).strides
            extent = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + np.dtype(dtype).itemsize
            there = (ctypes.c_char * extent).from_address(memptr.ptr)
            self._take(np.ndarray(shape, dtype, there, strides=strides), memptr.mem)
            return
        assert strides is None
        self._take(np.empty(shape, dtype, order=order or "C"), None)
        _poison(self._a)

    def _take(self, array, memory):
        self._a = array
        self._memory = memory or cuda.Memory(array.nbytes)
        return self

    def _check_device(self):
        if self._memory.device != cuda.current_device():
            raise ValueError(
                f"The device where the array resides ({self._memory.device}) is different from the current device "
                f"({cuda.current_device()}). Peer access is unavailable between these devices."
            )

    # -- what it is

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    itemsize = property(lambda self: self._a.itemsize)
    strides = property(lambda self: self._a.strides)
    T = property(lambda self: _wrapped(self._a.T, (self,)))

    @shape.setter
    def shape(self, shape):
        self._a.shape = shape

    @property
    def base(self):
        return None if self._a.base is None else self

    @property
    def flags(self):
        flags = self._a.flags
        return SimpleNamespace(c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=flags.owndata)

    @property
    def device(self):
        return cuda.Device(self._memory.device)

    @property
    def data(self):
        return _Pointer(ptr=self._a.ctypes.data, device_id=self._memory.device, device=self.device, mem=self._memory)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "stream": 1,
            "version": 3,
            "strides": None if self._a.flags.c_contiguous else self.strides,
            "data": (self._a.ctypes.data if self.size else 0, False),
            "owner": self,  # the stand-in finds the array by it
        }

    def __dlpack__(self, **_):
        return self._a.__dlpack__()

    def __dlpack_device__(self):
        return (2, self._memory.device)

    # -- to NumPy and back

    def __array__(self, *_, **__):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
            "explicitly."
        )

    def get(self, stream=None, order="C", out=None, blocking=True):
        self._memory.use(False)
        stream = stream or cuda.get_current_stream(self._memory.device)
        if blocking or out is None or stream.is_null or not cuda.machine.is_pinned(out):
            stream.synchronize()
        if out is None:
            return np.array(self._a, order=order)
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
        if self.dtype != out.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if self.shape != out.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
        if not (out.flags.c_contiguous or out.flags.f_contiguous):
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")
        if blocking or stream.is_null or not cuda.machine.is_pinned(out):
            out[...] = self._a
        else:
            _poison(out)
            stream.later(functools.partial(np.copyto, out, self._a.copy()))
        return out

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not (self._a.flags.c_contiguous or self._a.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        stream = stream or cuda.get_current_stream(self._memory.device)
        with self.device, stream:
            self._memory.use(True)
        if not stream.is_null and cuda.machine.is_pinned(arr):
            _poison(self._a)
            stream.later(functools.partial(np.copyto, self._a, arr))
        else:
            self._a[...] = arr

    def item(self, *args):
        return self.get().item(*args)

    def tolist(self):
        return self.get().tolist()

    def __bool__(self):
        return bool(self.get())

    def __int__(self):
        return int(self.get())

    def __float__(self):
        return float(self.get())

    def __index__(self):
        return operator.index(self.get())

    def __repr__(self):
        return repr(self.get())

    def __format__(self, spec):
        return format(self.get(), spec)

    def __reduce__(self):
        return module_cupy.array, (self.get(),)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __len__(self):
        return len(self._a)

    def __iter__(self):
        return (self[i] for i in range(len(self._a)))

    # -- entries

    def __getitem__(self, index):
        return self._viewed(self._a[_index(index)])

    def _viewed(self, result):
        """Return a view, which is no work of a stream, or a copy, which is."""
        viewed = _wrapped(result, (self,))
        if viewed._memory is not self._memory:
            self._check_device()
            self._memory.use(False)
        return viewed

    def __setitem__(self, index, value):
        self._memory.use(True)
        self._check_device()
        self._a[_index(index)] = _unwrapped(value)

    # -- NumPy's dispatch

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        from .standin_functions import UFUNCS

        if ufunc.__name__ not in UFUNCS:
            return NotImplemented
        if method != "__call__":
            raise NotImplementedError(f"`cupy_{ufunc.__name__}.{method}` is not supported yet")
        if not all(isinstance(x, (ndarray, np.ndarray, *SCALARS)) for x in (*inputs, *(out or ()))):
            return NotImplemented
        if out is not None:
            kwargs["out"] = out[0]
        return UFUNCS[ufunc.__name__](*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        try:
            module = functools.reduce(getattr, func.__module__.split(".")[1:], module_cupy)
            function = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if not all(issubclass(t, (ndarray, np.ndarray)) for t in types):
            return NotImplemented
        return function(*args, **kwargs)

    # -- methods that are not functions of the same name

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return _call(self._a.astype, (self,), dtype, order=order, copy=copy)

    def copy(self, order="C"):
        """Return a copy on the current device, as CuPy does."""
        self._memory.use(False)
        return _wrapped(self._a.copy(order=order), ())

    def dot(self, b, out=None):
        return module_cupy.dot(self, b, out)

    def fill(self, value):
        self._memory.use(True)
        self._a.fill(_unwrapped(value))

    def flatten(self, order="C"):
        return _call(self._a.flatten, (self,), order)

    def nonzero(self):
        return module_cupy.nonzero(self)

    def reshape(self, *shape, order="C"):
        return self._viewed(self._a.reshape(*shape, order=order))

    def transpose(self, *axes):
        return self._viewed(self._a.transpose(*axes))

    def sort(self, axis=-1):
        self._memory.use(True)
        self._a.sort(axis)

    def view(self, dtype=None):
        return self._viewed(self._a.view(*([] if dtype is None else [dtype])))

    def scatter_add(self, slices, value):
        self._memory.use(True)
        np.add.at(self._a, _index(slices), _unwrapped(value))


ndarray.__module__ = "cupy"


def _method(name, *parameters):
    def method(self, *args, **kwargs):
        _check_arguments(name, ("self", *parameters), (self, *args), kwargs)
        return getattr(module_cupy, name)(self, *args, **kwargs)

    return method


for _name, _parameters in {
    "all": "axis out keepdims",
    "any": "axis out keepdims",
    "argmax": "axis out dtype keepdims",
    "argmin": "axis out dtype keepdims",
    "argpartition": "kth axis",
    "argsort": "axis",
    "clip": "min max out",
    "compress": "condition axis out",
    "cumprod": "axis dtype out",
    "cumsum": "axis dtype out",
    "diagonal": "offset axis1 axis2",
    "max": "axis out keepdims",
    "mean": "axis dtype out keepdims",
    "min": "axis out keepdims",
    "prod": "axis dtype out keepdims",
    "ravel": "order",
    "repeat": "repeats axis",
    "round": "decimals out",
    "searchsorted": "v side sorter",
    "squeeze": "axis",
    "std": "axis dtype out ddof keepdims",
    "sum": "axis dtype out keepdims",
    "swapaxes": "axis1 axis2",
    "take": "indices axis out",
    "trace": "offset axis1 axis2 dtype out",
    "var": "axis dtype out ddof keepdims",
}.items():
    setattr(ndarray, _name, _method(_name, *_parameters.split()))


# -- between the two kinds of array --------------------------------------------------------------------------------


def _poison(array):
    """Fill new memory with what nobody can take for a result."""
    if array.dtype.kind in "fc":
        array.fill(np.nan)
    elif array.dtype.kind in "iu":
        array.fill(np.iinfo(array.dtype).max - 7)


def _unwrapped(value, writes=False):
    """Return the array of NumPy in an argument of a function; refuse other arrays of NumPy."""
    if isinstance(value, ndarray):
        value._check_device()
        value._memory.use(writes)
        return value._a
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)([_unwrapped(part) for part in value])
    return value


def _index(index):
    """Return an index for NumPy. CuPy takes arrays of NumPy there."""
    if isinstance(index, tuple):
        return tuple(_index(part) for part in index)
    return index if isinstance(index, np.ndarray) else _unwrapped(index)


def _wrapped(result, inputs):
    """Return a result of NumPy as an array of the device; a view shares the memory of the array it is of."""
    if isinstance(result, (tuple, list)):
        parts = [_wrapped(part, inputs) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, np.generic):
        result = np.array(result)
    if not isinstance(result, np.ndarray):
        return result
    root = _root(result)
    for given in inputs:
        if isinstance(given, (list, tuple)):
            inputs = (*inputs, *given)
    memory = next((x._memory for x in inputs if isinstance(x, ndarray) and _root(x._a) is root), None)
    wrapped = ndarray.__new__(ndarray)._take(result, memory)
    if memory is None:
        wrapped._memory.use(True)
    return wrapped


def _check_arguments(name, parameters, args, kwargs):
    starred = any(parameter.startswith("*") for parameter in parameters)
    unknown = [key for key in kwargs if key not in parameters and not starred]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    if len(args) > len(parameters) and not starred:
        raise TypeError(f"{name}() takes {len(parameters)} positional arguments but {len(args)} were given")


def _call(function, inputs, *args, out=None, **kwargs):
    for x in inputs:
        _unwrapped(x)
    args = [_unwrapped(arg) for arg in args]
    kwargs = {key: _unwrapped(value) for key, value in kwargs.items()}
    if out is None:
        return _wrapped(function(*args, **kwargs), inputs)
    if not isinstance(out, ndarray):
        raise TypeError("Unsupported type for out: " + str(type(out)))
    function(*args, out=_unwrapped(out, writes=True), **kwargs)
    return out
