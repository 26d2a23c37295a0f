"""CUDA sources beside this file: compiled by CuPy when they are first used, once for each set of constants."""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.errors import needs

__all__ = ["coming", "cupy", "going", "launch", "stream_beside"]

LITTLE = 48 * 1024  # bytes of shared memory that need not be asked for
BUFFERS = 4  # small arrays that may be on their way to a device at a time
STAGED = 4 << 20  # bytes of an array that goes through a buffer, which is kept for the next one, at most


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


def going(*arrays: NDArray[Any], dtype: Any) -> Any:
    """Start to copy small arrays to the device, through pinned memory.

    Parameters
    ----------
    *arrays : arrays
        They may be changed at once.
    dtype : dtype
        What their entries become.

    Returns
    -------
    array of CuPy of shape (number of all entries,)
        The entries of one array after the other.
    """
    there = cupy().empty(sum(array.size for array in arrays), dtype)
    if there.nbytes > STAGED:
        there.set(np.concatenate([np.ravel(array) for array in arrays]).astype(dtype, copy=False))
        return there
    buffers = _own.buffers[cupy().cuda.runtime.getDevice()]
    buffer = buffers[0]  # the one that was used longest ago
    if buffer is None or len(buffer.memory) < there.nbytes:
        if buffer is not None:
            buffer.wait()
        buffer = buffers[0] = _Buffer(there.nbytes)
    buffers.rotate(-1)
    buffer.send(arrays, there)
    return there


class _OfThread(threading.local):
    """What a thread has for itself: for each device some buffers, as several arrays may be on their way at a time."""

    def __init__(self) -> None:
        self.buffers: defaultdict[int, deque[_Buffer | None]] = defaultdict(lambda: deque([None] * BUFFERS))


_own = _OfThread()


class _Buffer:
    """Pinned memory through which a small array goes to the device, and what says when it is free again."""

    def __init__(self, n_bytes: int) -> None:
        cuda, size = cupy().cuda, max(n_bytes, LITTLE)
        try:
            self.memory = np.frombuffer(cuda.alloc_pinned_memory(size), np.uint8, size)
        except cuda.runtime.CUDARuntimeError:  # the system has none to give
            self.memory = np.empty(size, np.uint8)
        self._copied = cuda.Event(disable_timing=True)

    def wait(self) -> None:
        """Wait until what was in it is on the device."""
        self._copied.synchronize()

    def send(self, arrays: tuple[NDArray[Any], ...], there: Any) -> None:
        """Start to copy arrays to one of the device."""
        self.wait()
        here = self.memory[: there.nbytes].view(there.dtype)
        first = 0
        for array in arrays:
            end = first + array.size
            np.copyto(here[first:end].reshape(array.shape), array, casting="same_kind")
            first = end
        there.set(here)
        self._copied.record()


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
    key = tuple(sorted(constants.items()))
    _kernel(source, name, key, shared, cupy().cuda.runtime.getDevice())(blocks, args)


@lru_cache(maxsize=4096)
def _kernel(
    source: str, name: str, constants: tuple[tuple[str, Any], ...], shared: int, device: int
) -> Callable[[int, tuple[Any, ...]], None]:
    """Return what starts a kernel on a device, with numbers of blocks and arguments; parameters as for :func:`launch`.

    The constants are in the order of their names.
    """
    function, threads = _function(source, name, constants, shared > LITTLE, device), (dict(constants)["THREADS"],)

    def start(blocks: int, args: tuple[Any, ...]) -> None:
        function((blocks,), threads, args, shared_mem=shared)

    return start


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
