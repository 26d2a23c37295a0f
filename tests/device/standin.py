"""A stand-in for CuPy on top of NumPy, as strict as CuPy: what works with it works on a device.

It has what dbmd uses of CuPy, and refuses what CuPy refuses: arrays of NumPy among its own, silent conversion to NumPy,
keywords that CuPy's functions lack, arrays of another device. Arrays: :mod:`standin_array`; functions:
:mod:`standin_functions`; memory and streams: :mod:`standin_cuda`. Here they become modules.

``installed()`` puts it in ``sys.modules`` as ``cupy`` and ``cupyx``.
"""

import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np

from . import standin_cuda as cuda
from . import standin_functions as functions
from . import standin_sparse as sparse
from .found import clear_caches
from .standin_array import _unwrapped, _wrapped, module_cupy, ndarray


def _module(name, **members):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    vars(module).update(members)
    return module


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
module_cupy.__spec__ = ModuleSpec("cupy", None)
vars(module_cupy).update(
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
    array=functions.array,
    asarray=functions.asarray,
    asanyarray=functions.asarray,
    asnumpy=functions.asnumpy,
    empty=functions.empty,
    empty_like=functions.empty_like,
    copy=lambda a, order="K": a.copy(order),
    ascontiguousarray=functions.ascontiguousarray,
    asfortranarray=functions.asfortranarray,
    get_array_module=functions.get_array_module,
    from_dlpack=functions.from_dlpack,
    result_type=functions.result_type,
    can_cast=functions.can_cast,
    may_share_memory=functions.may_share_memory,
    shares_memory=functions.may_share_memory,
    cuda=_cuda,
    linalg=_linalg,
    get_default_memory_pool=cuda.MemoryPool,
    get_default_pinned_memory_pool=cuda.PinnedMemoryPool,
    is_available=lambda: cuda.machine.n_devices > 0,
    **functions.UFUNCS,
)
for _names, _there, _theirs in [
    (functions.FUNCTIONS, module_cupy, np),
    (functions.LINALG, _linalg, np.linalg),
    (functions.CREATION, module_cupy, np),
]:
    for _name, _parameters in _names.items():
        setattr(_there, _name, functions._function(_name, tuple(_parameters.split()), getattr(_theirs, _name)))
for _name in functions.TYPES.split():
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
module_cupyx = _module("cupyx", scipy=_scipy, empty_pinned=functions.empty_pinned, scatter_add=functions.scatter_add)
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
    clear_caches()
    try:
        yield module_cupy
    finally:
        cuda.machine = old
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
