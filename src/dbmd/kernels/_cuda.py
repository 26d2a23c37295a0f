"""CUDA sources beside this file: compiled by CuPy when they are first used, once for each set of constants."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.errors import needs

__all__ = ["coming", "cupy", "launch", "stream_beside"]

LITTLE = 48 * 1024  # bytes of shared memory that need not be asked for


@cache
def cupy() -> Any:
    """Return CuPy; raise an ImportError that says how to install it if it is not there."""
    with needs("engine 'gpu'", "cupy", "gpu"):
        import cupy
    return cupy


def coming(array: Any) -> Callable[[], NDArray[Any]]:
    """Start to copy an array of the device to pinned memory; return a function that waits for it."""
    cuda, dtype = cupy().cuda, array.dtype
    try:
        memory = cuda.alloc_pinned_memory(array.nbytes)
    except cuda.runtime.CUDARuntimeError:  # the system has none to give
        found: NDArray[Any] = array.get()
        return lambda: found
    here: NDArray[Any] = np.frombuffer(memory, dtype, array.size).reshape(array.shape)
    array.get(out=here, blocking=False)
    stream = cuda.get_current_stream()

    def arrived() -> NDArray[Any]:
        stream.synchronize()
        return here

    return arrived


def stream_beside() -> Any:
    """Return a stream of the current device beside the current one, whose kernels go first."""
    cuda = cupy().cuda
    return _stream(cuda.runtime.getDevice(), cuda.get_current_stream().ptr)


@lru_cache(maxsize=32)
def _stream(device: int, current: int) -> Any:
    return cupy().cuda.Stream(non_blocking=True, priority=-1)


def launch(
    source: str,
    name: str,
    blocks: int,
    args: tuple[Any, ...],
    *,
    shared: int = 0,
    **constants: Any,
) -> None:
    """Start a kernel on the current device and stream.

    Parameters
    ----------
    source : str
        Name of the file, without ``.cu``.
    name : str
        Name of the kernel.
    blocks : int
        Number of blocks of ``constants["THREADS"]`` threads.
    args : tuple
        Device arrays, and NumPy scalars of the types that the kernel has.
    shared : int
        Bytes of dynamic shared memory of a block.
    **constants
        Macros. Each set of them is compiled by itself.
    """
    device = cupy().cuda.runtime.getDevice()
    function = _function(source, name, tuple(sorted(constants.items())), shared > LITTLE, device)
    function((blocks,), (constants["THREADS"],), args, shared_mem=shared)


@cache
def _function(source: str, name: str, constants: tuple[tuple[str, Any], ...], is_large: bool, device: int) -> Any:
    """Return a kernel for a device: what is asked for there holds for that one only."""
    function = _module(source, constants).get_function(name)
    if is_large:  # more than any kernel may use has to be asked for: all that there is, for launches of any size
        function.max_dynamic_shared_size_bytes = cupy().cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"]
    return function


@cache
def _module(source: str, constants: tuple[tuple[str, Any], ...]) -> Any:
    here = Path(__file__).parent
    code = (here / "_prelude.cuh").read_text() + (here / f"{source}.cu").read_text()
    # Put in place by hand: so what CuPy compiled before is not taken for it when an included file changes.
    code = re.sub(r'#include "(\w+\.cuh)"', lambda found: (here / found[1]).read_text(), code)
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in constants))
    return cupy().RawModule(code=code, options=options)
