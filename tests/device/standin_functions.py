"""The functions of the stand-in for CuPy: what they take, and those that NumPy lacks or has otherwise."""

import functools
from types import SimpleNamespace

import numpy as np

from . import standin_cuda as cuda
from . import standin_sparse as sparse
from .standin_array import SCALARS, _call, _check_arguments, _poison, _wrapped, module_cupy, ndarray


def _function(name, parameters, function):
    @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
    def call(*args, **kwargs):
        _check_arguments(name, parameters, args, kwargs)
        if "out" in parameters and len(args) > parameters.index("out"):
            *args, kwargs["out"] = args
        return _call(function, (*args, *kwargs.values()), *args, **kwargs)

    return call


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


def empty_pinned(shape, dtype=float, order="C"):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, buffer=cuda.alloc_pinned_memory(size), order=order)


def scatter_add(a, slices, value):
    a.scatter_add(slices, value)
