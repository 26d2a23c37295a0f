"""A device: whether there is one, how long it takes, and memory without results of an earlier run."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

POISON = 0xFF  # a float of such bytes is not a number
AHEAD = 5_000_000  # cycles, some milliseconds: longer than the host takes to launch what is timed
SPIN = r"""
extern "C" __global__ void spin(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles);
}
"""


def found() -> bool:
    """Return whether CuPy is installed and sees a device."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no driver, or one that is too old: CuPy has an error of its own for each
        return False


def about() -> dict[str, Any]:
    """Return name, memory and versions of the first device, for the record."""
    import cupy

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    name = properties["name"]
    return {
        "name": name.decode() if isinstance(name, bytes) else str(name),
        "devices": int(runtime.getDeviceCount()),
        "memory_gb": round(properties["totalGlobalMem"] / 2**30),
        "cupy": cupy.__version__,
        "cuda": _dotted(runtime.runtimeGetVersion()),
        "driver": _dotted(runtime.driverGetVersion()),
    }


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def timed(
    action: Callable[[int], object],
    *,
    repeats: int,
    warm_ups: int = 3,
    seconds: float = 0.0,
    before: Callable[[int], object] = lambda turn: None,
    ahead: bool = False,
) -> dict[str, Any]:
    """Return milliseconds between two events of the device, and of the clock on the wall.

    The device is idle when the first event is recorded, and has finished when the second one is: what the host does
    meanwhile counts. With ``ahead`` the device is busy while the host launches what is timed, so that only the device
    counts, as in a pass, where kernels wait for each other; then there is no clock on the wall.

    Parameters
    ----------
    action : callable
        Called with the number of the turn, so that each turn can have data of its own.
    repeats, warm_ups : int
        Turns that count, and turns before them that do not, at least.
    seconds : float
        How long there are turns that do not count, at least: where the host counts, its clock rises for a while.
    before : callable
        Called before each turn; not timed.
    ahead : bool
        Whether only the device counts. What is timed must use the current stream, and no other.

    Returns
    -------
    dict
        ``ms`` and ``wall_ms``, medians (the latter not with ``ahead``); ``low`` and ``high``, the range of four fifths
        of the turns; ``first_ms``, the clock of the first turn, in which sources are compiled; ``warm_ups``;
        ``repeats``.
    """
    import cupy

    device, walls, start = [], [], time.perf_counter()
    first: int | None = None  # that counts
    for turn in itertools.count():
        if first is None and turn >= warm_ups and time.perf_counter() - start >= seconds:
            first = turn
        if first is not None and turn == first + repeats:
            break
        before(turn)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.cuda.Device().synchronize()
        if ahead:
            spin()
        clock = time.perf_counter()
        begin.record()
        action(turn)
        end.record()
        end.synchronize()
        cupy.cuda.Device().synchronize()
        walls.append(1e3 * (time.perf_counter() - clock))
        device.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    wall = {} if ahead else {"wall_ms": statistics.median(walls[first:])}
    return {**spread(device[first:]), **wall, "first_ms": walls[0], "warm_ups": first, "repeats": repeats}


def spin() -> None:
    """Keep the device busy for a few milliseconds."""
    _spin()((1,), (1,), (np.int64(AHEAD),))


@cache
def _spin() -> Any:
    import cupy

    return cupy.RawKernel(SPIN, "spin")


def spread(times: list[float]) -> dict[str, float]:
    """Return the median, and the range of four fifths of the times.

    Examples
    --------
    >>> spread([3.0, 1.0, 2.0, 9.0, 4.0])
    {'ms': 3.0, 'low': 1.0, 'high': 9.0}
    """
    ordered = sorted(times)
    out = len(ordered) // 10
    return {"ms": statistics.median(ordered), "low": ordered[out], "high": ordered[-1 - out]}


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill all memory that CuPy hands out meanwhile with what is not a number.

    Memory that is used again still holds the results of the last run: what a kernel forgets to write would look right.
    """
    import cupy

    pool = cupy.get_default_memory_pool()

    def malloc(size: int) -> Any:
        pointer = pool.malloc(size)
        if size:
            pointer.memset_async(POISON, size)  # on the stream that asks for it, or it would come too late
        return pointer

    cupy.cuda.set_allocator(malloc)
    try:
        yield
    finally:
        cupy.cuda.set_allocator(pool.malloc)


@contextmanager
def little_memory(room: int) -> Iterator[None]:
    """Leave so many bytes of the device free, and take the rest: data that are larger have to be streamed."""
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    free, _ = cupy.cuda.runtime.memGetInfo()
    ballast = cupy.empty(max(free - room, 1), np.uint8)
    try:
        yield
    finally:
        del ballast
        pool.free_all_blocks()
