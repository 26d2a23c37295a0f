"""A stand-in for CuPy on top of NumPy, as strict as CuPy: what works with it works on a device.

It has what dbmd uses of CuPy, and refuses what CuPy refuses: arrays of NumPy among its own, silent conversion to NumPy,
keywords that CuPy's functions lack, arrays of another device. Memory and streams: :mod:`standin_cuda`.

``installed()`` puts it in ``sys.modules`` as ``cupy`` and ``cupyx``.
"""

import functools
import operator
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import standin_cuda as cuda
from . import standin_sparse as sparse

SCALARS = (bool, int, float, complex, np.generic)


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
        assert memptr is None
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
        (stream or cuda.get_current_stream(self._memory.device)).synchronize()
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
        out[...] = self._a
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
        return array, (self.get(),)

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


def _function(name, parameters, function):
    @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
    def call(*args, **kwargs):
        _check_arguments(name, parameters, args, kwargs)
        if "out" in parameters and len(args) > parameters.index("out"):
            *args, kwargs["out"] = args
        # CuPy has other names for some parameters: NumPy gets those by position.
        theirs = [p for p in parameters[len(args) :] if p in kwargs and p in RENAMED]
        for parameter in theirs:
            kwargs[RENAMED[parameter]] = kwargs.pop(parameter)
        return _call(function, (*args, *kwargs.values()), *args, **kwargs)

    return call


RENAMED = {}


def _ufunc(function):
    @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
    def call(*args, **kwargs):
        if function.nin < len(args) <= function.nargs:
            *args, kwargs["out"] = args
        _check_arguments(function.__name__, ("out", "dtype", "casting"), (), kwargs)
        for x in args:
            if not isinstance(x, (ndarray, np.ndarray, *SCALARS)):
                raise TypeError(f"Unsupported type {type(x)}")
        return _call(function, (), *args, **kwargs)

    call.nin = function.nin
    return call


UFUNC_NAMES = """
add subtract multiply divide floor_divide negative positive power remainder fmod absolute fabs rint sign conjugate exp
exp2 log log2 log10 expm1 log1p sqrt square cbrt reciprocal sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh
maximum minimum fmax fmin isfinite isinf isnan floor ceil trunc logical_and logical_or logical_xor logical_not
bitwise_and bitwise_or bitwise_xor invert left_shift right_shift greater greater_equal less less_equal equal not_equal
logaddexp logaddexp2 hypot copysign ldexp nextafter signbit gcd lcm matmul
"""
UFUNCS = {name: _ufunc(getattr(np, name)) for name in UFUNC_NAMES.split()}

# What CuPy's functions take; NumPy's take more.
FUNCTIONS = {
    "all": "a axis out keepdims",
    "allclose": "a b rtol atol equal_nan",
    "any": "a axis out keepdims",
    "append": "arr values axis",
    "argmax": "a axis dtype out keepdims",
    "argmin": "a axis dtype out keepdims",
    "argpartition": "a kth axis",
    "argsort": "a axis kind",
    "argwhere": "a",
    "array_equal": "a1 a2 equal_nan",
    "array_split": "ary indices_or_sections axis",
    "atleast_1d": "*arys",
    "atleast_2d": "*arys",
    "average": "a axis weights returned keepdims",
    "bincount": "x weights minlength",
    "broadcast_arrays": "*args",
    "broadcast_to": "array shape",
    "clip": "a a_min a_max out",
    "column_stack": "tup",
    "compress": "condition a axis out",
    "concatenate": "tup axis out dtype casting",
    "copyto": "dst src casting where",
    "count_nonzero": "a axis",
    "cumprod": "a axis dtype out",
    "cumsum": "a axis dtype out",
    "diag": "v k",
    "diagonal": "a offset axis1 axis2",
    "diff": "a n axis prepend append",
    "digitize": "x bins right",
    "dot": "a b out",
    "einsum": "*operands",
    "expand_dims": "a axis",
    "fill_diagonal": "a val wrap",
    "flatnonzero": "a",
    "flip": "a axis",
    "full_like": "a fill_value dtype order subok shape",
    "histogram": "x bins range density weights",
    "hstack": "tup dtype casting",
    "inner": "a b",
    "interp": "x xp fp left right period",
    "isclose": "a b rtol atol equal_nan",
    "isin": "element test_elements assume_unique invert",
    "kron": "a b",
    "lexsort": "keys",
    "max": "a axis out keepdims",
    "mean": "a axis dtype out keepdims",
    "median": "a axis out overwrite_input keepdims",
    "meshgrid": "*xi",
    "min": "a axis out keepdims",
    "moveaxis": "a source destination",
    "nan_to_num": "x copy nan posinf neginf",
    "nanmax": "a axis out keepdims",
    "nanmean": "a axis dtype out keepdims",
    "nanmin": "a axis out keepdims",
    "nanstd": "a axis dtype out ddof keepdims",
    "nansum": "a axis dtype out keepdims",
    "nanvar": "a axis dtype out ddof keepdims",
    "ndim": "a",
    "nonzero": "a",
    "ones_like": "a dtype order subok shape",
    "outer": "a b out",
    "partition": "a kth axis",
    "percentile": "a q axis out overwrite_input method keepdims",
    "prod": "a axis dtype out keepdims",
    "ptp": "a axis out keepdims",
    "quantile": "a q axis out overwrite_input method keepdims",
    "ravel": "a order",
    "repeat": "a repeats axis",
    "reshape": "a newshape order",
    "roll": "a shift axis",
    "round": "a decimals out",
    "searchsorted": "a v side sorter",
    "shape": "a",
    "size": "a axis",
    "sort": "a axis kind",
    "split": "ary indices_or_sections axis",
    "squeeze": "a axis",
    "stack": "tup axis out dtype casting",
    "std": "a axis dtype out ddof keepdims",
    "sum": "a axis dtype out keepdims",
    "swapaxes": "a axis1 axis2",
    "take": "a indices axis out",
    "take_along_axis": "a indices axis",
    "tensordot": "a b axes",
    "tile": "A reps",
    "trace": "a offset axis1 axis2 dtype out",
    "transpose": "a axes",
    "tril": "m k",
    "triu": "m k",
    "unique": "ar return_index return_inverse return_counts axis",
    "var": "a axis dtype out ddof keepdims",
    "vdot": "a b",
    "vstack": "tup dtype casting",
    "where": "condition x y",
    "zeros_like": "a dtype order subok shape",
}
LINALG = {
    "cholesky": "a",
    "det": "a",
    "eigh": "a UPLO",
    "eigvalsh": "a UPLO",
    "inv": "a",
    "lstsq": "a b rcond",
    "norm": "x ord axis keepdims",
    "pinv": "a rcond",
    "qr": "a mode",
    "slogdet": "a",
    "solve": "a b",
    "svd": "a full_matrices compute_uv",
}
CREATION = {
    "arange": "start stop step dtype",
    "eye": "N M k dtype order",
    "full": "shape fill_value dtype order",
    "identity": "n dtype",
    "linspace": "start stop num endpoint retstep dtype axis",
    "ones": "shape dtype order",
    "zeros": "shape dtype order",
}
TYPES = """
bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 intp
"""


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    """Return an array of the device with a copy of anything."""
    if hasattr(obj, "__cuda_array_interface__") and not isinstance(obj, ndarray):
        obj = obj.__cuda_array_interface__["owner"]
    if isinstance(obj, ndarray):
        here = obj._memory.device == cuda.current_device()
        if not copy and here and (dtype is None or obj.dtype == dtype) and obj.ndim >= ndmin:
            wanted = {"C": obj.flags.c_contiguous, "F": obj.flags.f_contiguous}.get(order or "K", True)
            if wanted:
                return obj
        obj._memory.use(False)
        return _wrapped(np.array(obj._a, dtype, order=order, ndmin=ndmin), ())
    if isinstance(obj, (list, tuple)) and any(isinstance(part, ndarray) for part in obj):
        return array(module_cupy.stack(list(obj)), dtype, order=order)
    made = np.array(obj, dtype, order=order or "K", ndmin=ndmin)
    if made.dtype.kind not in "biufc":
        raise ValueError(f"Unsupported dtype {made.dtype}")
    return _wrapped(made, ())


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    """Return an array of the device: the same one, or a copy."""
    return array(a, dtype, copy=bool(copy), order=order or "K", blocking=blocking)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    """Return an array of NumPy."""
    return a.get(stream=stream, order=order, out=out) if isinstance(a, (ndarray, sparse.csr_matrix)) else np.asarray(a)


def empty(shape, dtype=float, order="C"):
    """Return a new array."""
    return ndarray(shape, dtype, order=order)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    """Return a new array."""
    new = _wrapped(np.empty_like(prototype._a, dtype, order, shape=shape), ())
    _poison(new._a)
    return new


def ascontiguousarray(a, dtype=None):
    """Return an array in the order of C."""
    return array(a, dtype, copy=False, order="C")


def asfortranarray(a, dtype=None):
    """Return an array in the order of Fortran."""
    return array(a, dtype, copy=False, order="F")


def get_array_module(*args):
    """Return this module if an argument is of the device, else NumPy."""
    return module_cupy if any(isinstance(a, (ndarray, sparse.csr_matrix)) for a in args) else np


def from_dlpack(x):
    """Return an array of the device that shares the memory of one of another library, which is made of the stand-in."""
    if isinstance(x, ndarray):
        return x
    host = SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=lambda: (1, 0))
    with cuda.Device(x.__dlpack_device__()[1]):
        return _wrapped(np.from_dlpack(host), ())


def result_type(*arrays_and_dtypes):
    """As NumPy."""
    return np.result_type(*(x.dtype if isinstance(x, ndarray) else x for x in arrays_and_dtypes))


def can_cast(from_, to, casting="safe"):
    """As NumPy."""
    return np.can_cast(from_.dtype if isinstance(from_, ndarray) else from_, to, casting)


def may_share_memory(a, b, max_work=None):
    """As NumPy."""
    return isinstance(a, ndarray) and isinstance(b, ndarray) and bool(np.may_share_memory(a._a, b._a))


def _empty_pinned(shape, dtype=float, order="C"):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, buffer=cuda.alloc_pinned_memory(size), order=order)


def _scatter_add(a, slices, value):
    a.scatter_add(slices, value)


# -- the modules ---------------------------------------------------------------------------------------------------


def _module(name, **members):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(members)
    return module


def _numpy_function(name):
    def call(*args, **kwargs):
        return getattr(np, name)(*args, **kwargs)

    return call


_cuda = _module(
    "cupy.cuda",
    Device=cuda.Device,
    Stream=cuda.Stream,
    Event=cuda.Event,
    MemoryPool=cuda.MemoryPool,
    PinnedMemoryPool=cuda.PinnedMemoryPool,
    OutOfMemoryError=cuda.OutOfMemoryError,
    alloc_pinned_memory=cuda.alloc_pinned_memory,
    get_current_stream=cuda.get_current_stream,
    get_elapsed_time=lambda start, end: 1.0,
    is_available=lambda: cuda.machine.n_devices > 0,
    runtime=cuda.runtime,
    memory=SimpleNamespace(OutOfMemoryError=cuda.OutOfMemoryError),
    stream=SimpleNamespace(get_current_stream=cuda.get_current_stream, Stream=cuda.Stream),
)
_linalg = _module("cupy.linalg", LinAlgError=np.linalg.LinAlgError)
module_cupy = _module(
    "cupy",
    __version__="14.2.0",
    ndarray=ndarray,
    RawModule=cuda.RawModule,
    RawKernel=cuda.RawKernel,
    newaxis=None,
    pi=np.pi,
    inf=np.inf,
    nan=np.nan,
    dtype=np.dtype,
    finfo=np.finfo,
    iinfo=np.iinfo,
    errstate=np.errstate,
    array=array,
    asarray=asarray,
    asanyarray=asarray,
    asnumpy=asnumpy,
    empty=empty,
    empty_like=empty_like,
    copy=lambda a, order="K": a.copy(order),
    ascontiguousarray=ascontiguousarray,
    asfortranarray=asfortranarray,
    get_array_module=get_array_module,
    from_dlpack=from_dlpack,
    result_type=result_type,
    can_cast=can_cast,
    may_share_memory=may_share_memory,
    shares_memory=may_share_memory,
    cuda=_cuda,
    linalg=_linalg,
    get_default_memory_pool=cuda.MemoryPool,
    get_default_pinned_memory_pool=cuda.PinnedMemoryPool,
    is_available=lambda: cuda.machine.n_devices > 0,
    **UFUNCS,
)
for _names, _there, _theirs in [
    (FUNCTIONS, module_cupy, np),
    (LINALG, _linalg, np.linalg),
    (CREATION, module_cupy, np),
]:
    for _name, _parameters in _names.items():
        setattr(_there, _name, _function(_name, tuple(_parameters.split()), getattr(_theirs, _name)))
for _name in TYPES.split():
    setattr(module_cupy, _name, getattr(np, _name))
for _alias, _name in {
    "abs": "absolute",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "bitwise_not": "invert",
    "conj": "conjugate",
    "mod": "remainder",
    "true_divide": "divide",
}.items():
    setattr(module_cupy, _alias, getattr(module_cupy, _name))
sparse.bind(module_cupy, ndarray, _unwrapped, _wrapped)
_sparse = _module(
    "cupyx.scipy.sparse",
    csr_matrix=sparse.csr_matrix,
    issparse=lambda x: isinstance(x, sparse.csr_matrix),
    isspmatrix_csr=lambda x: isinstance(x, sparse.csr_matrix),
)
_scipy = _module("cupyx.scipy", sparse=_sparse)
module_cupyx = _module("cupyx", scipy=_scipy, empty_pinned=_empty_pinned, scatter_add=_scatter_add)
MODULES = {
    "cupy": module_cupy,
    "cupy.cuda": _cuda,
    "cupy.cuda.runtime": cuda.runtime,
    "cupy.cuda.memory": _cuda.memory,
    "cupy.linalg": _linalg,
    "cupyx": module_cupyx,
    "cupyx.scipy": _scipy,
    "cupyx.scipy.sparse": _sparse,
}


@contextmanager
def installed(n_devices=1, memory=cuda.MEMORY):
    """Put the stand-in in the place of CuPy; yield it. ``cuda.machine`` is a new machine in the meantime."""
    before = {name: sys.modules.get(name) for name in MODULES}
    sys.modules.update(MODULES)
    old = cuda.machine
    cuda.machine = cuda.Machine(n_devices, memory)
    try:
        yield module_cupy
    finally:
        cuda.machine = old
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
