"""A GPU with its streams, and rows on their way to it: through pinned memory, while it works on those before them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbmd.data.prefetch import prefetch
from dbmd.engines.local import available_threads
from dbmd.kernels._cuda import cupy

PINNED_BYTES = 32 << 20  # of a buffer for samples that are copied once
PIECE_BYTES = 2 << 20  # what a thread copies at a time, at least
KEPT = 64  # at the end CuPy keeps up to this part of the memory, for the next fit: allocating takes longer than a pass

_TO_DEVICE = 1  # cudaMemcpyHostToDevice
_SHARE = 64  # memory up to so many times as large as what is needed of it is pinned

T = TypeVar("T")
S = TypeVar("S", bound="Slot")


class Device:
    """A device with streams of its own, and the buffers through which rows go there.

    Parameters
    ----------
    number : int
        Which of those that are visible.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._cuda = cupy().cuda
        with self._cuda.Device(number):
            self.compute = self._cuda.Stream(non_blocking=True)
            self.copy = self._cuda.Stream(non_blocking=True)
            # What the caller has under way on his own stream may be our input.
            self.compute.wait_event(self._cuda.get_current_stream().record())
            self.memory = int(self._cuda.runtime.memGetInfo()[1])
        self._thread = ThreadPoolExecutor(1, f"dbmd-gpu-{number}")
        self._slots: list[Slot] = []
        self._helpers = ThreadPoolExecutor(available_threads(), "dbmd-copy")
        self._pinned: list[int] = []
        self._is_closed = False

    def start(self, work: Callable[[], T]) -> Any:
        """Return a future of what the device's thread returns."""
        return self._thread.submit(self.run, work)

    def run(self, work: Callable[[], T]) -> T:
        """Return what work returns, which is done in this thread, on the device and its stream."""
        with self._cuda.Device(self.number), self.compute:
            try:
                return work()
            finally:
                self.compute.synchronize()

    def free(self) -> int:
        """Return how many bytes may be taken now."""
        pool = cupy().get_default_memory_pool()
        free = int(self._cuda.runtime.memGetInfo()[0]) + pool.free_bytes()
        if pool.get_limit():
            free = min(free, pool.get_limit() - pool.used_bytes())
        return free

    def used(self) -> int:
        """Return how many bytes are in use."""
        return int(cupy().get_default_memory_pool().used_bytes())

    @property
    def out_of_memory(self) -> type[Exception]:
        """What is raised if there is not enough memory, by CuPy or by an allocator that it was given, as cuDF does."""
        return MemoryError

    def release(self) -> None:
        """Give back what is not used any more, after all that is under way: a pass that failed may have left some."""
        self._cuda.Device(self.number).synchronize()
        self._slots.clear()
        cupy().get_default_memory_pool().free_all_blocks()

    def slots(self, n_bytes: int, pinned: int) -> list[Slot]:
        """Return two buffers on the device, and two of pinned memory beside them, of at least so many bytes."""
        if not self._slots or self._slots[0].array.nbytes < n_bytes:
            self.compute.synchronize()
            self._slots.clear()
            self._slots.extend(Slot(n_bytes, self.compute) for _ in range(2))
        for slot in self._slots:
            if slot.host.nbytes < pinned:
                slot.copied.synchronize()
                slot.host = _pinned(pinned)
        return self._slots

    def in_threads(self, work: Callable[[int], None], n: int) -> None:
        """Call work(0) to work(n - 1), each in a thread."""
        list(self._helpers.map(work, range(n)))

    def in_parallel(self, work: Callable[[int, int], None], n: int, row_bytes: int) -> None:
        """Call work(start, stop) for parts of n rows, in threads."""
        step = max(1, PIECE_BYTES // max(row_bytes, 1), -(-n // available_threads()))
        if step >= n:
            work(0, n)
        else:
            edges = [*range(0, n, step), n]
            list(self._helpers.map(work, edges[:-1], edges[1:]))

    def register(self, array: NDArray[Any]) -> bool:
        """Pin memory where it is, until the end; return whether that could be done."""
        whole = array
        # Of an array that several nodes have parts of, all is pinned: parts may share a page.
        while (
            isinstance(whole.base, np.ndarray)
            and whole.base.flags.c_contiguous
            and _SHARE * array.nbytes >= whole.base.nbytes
        ):
            whole = whole.base
        if not _registered.begin(whole, self._cuda.runtime):
            return False
        self._pinned.append(whole.ctypes.data)
        return True

    def close(self, *, wait: bool) -> None:
        """Give back the memory and end the threads, after what they are doing; without ``wait``, return at once."""
        if not self._is_closed:
            self._is_closed = True
            if not wait:
                self._thread.submit(self._tidy)
            self._thread.shutdown(wait=wait)
            if wait:
                with suppress(self._cuda.runtime.CUDARuntimeError):  # an error of the device has been told already
                    self._tidy()

    def _tidy(self) -> None:
        self._helpers.shutdown()
        with self._cuda.Device(self.number):
            try:
                self.compute.synchronize()
                self.copy.synchronize()
            finally:
                while self._pinned:
                    _registered.end(self._pinned.pop(), self._cuda.runtime)
                self._slots.clear()
            if KEPT * cupy().get_default_memory_pool().free_bytes() > self.memory:
                self.release()


class _Registered:
    """Memory of the host that is pinned where it is, by all engines of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[int, int] = {}

    def begin(self, array: NDArray[Any], runtime: Any) -> bool:
        """Pin the memory of an array, unless it is already; return whether that could be done."""
        address = array.ctypes.data
        with self._lock:
            if address not in self._users:
                try:
                    runtime.hostRegister(address, array.nbytes, 0)
                except runtime.CUDARuntimeError:
                    return False
            self._users[address] = self._users.get(address, 0) + 1
        return True

    def end(self, address: int, runtime: Any) -> None:
        """Let go of memory, if this was its last user."""
        with self._lock:
            self._users[address] -= 1
            if not self._users[address]:
                del self._users[address]
                with suppress(runtime.CUDARuntimeError):
                    runtime.hostUnregister(address)


_registered = _Registered()


class Slot:
    """A buffer on the device, one of pinned memory beside it, and what has to be waited for before they are filled."""

    def __init__(self, n_bytes: int, compute: Any) -> None:
        cuda = cupy().cuda
        self.array = cupy().empty(n_bytes, np.uint8)
        self.host: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.copied, self.used = cuda.Event(disable_timing=True), cuda.Event(disable_timing=True)
        self.used.record(compute)  # the memory may have been something else just now

    def on_device(self, shape: tuple[int, ...], dtype: np.dtype[Any], first: int = 0) -> Any:
        """Return the buffer of the device, from a byte on, as an array."""
        return self.array[first : first + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)

    def on_host(self, shape: tuple[int, ...], dtype: np.dtype[Any], first: int = 0) -> NDArray[Any]:
        """Return the buffer of pinned memory, from a byte on, as an array."""
        return self.host[first : first + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)


def _pinned(n_bytes: int) -> NDArray[np.uint8]:
    """Return pinned memory; where the system has none to give, any memory, from which copies are slower."""
    cuda = cupy().cuda
    try:
        return np.frombuffer(cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)
    except cuda.runtime.CUDARuntimeError:
        return np.empty(n_bytes, np.uint8)


def read(
    Xt: NDArray[Any], order: NDArray[np.intp] | None, first: int, out: NDArray[Any], start: int, stop: int
) -> None:
    """Copy rows first + start to first + stop, in an order, to their places in ``out``."""
    if order is None:
        np.copyto(out[start:stop], Xt[first + start : first + stop], casting="unsafe")
        return
    rows = order[first + start : first + stop]
    if Xt.dtype == out.dtype:
        np.take(Xt, rows, axis=0, out=out[start:stop], mode="clip")  # "clip" needs no buffer of its own
    else:
        np.copyto(out[start:stop], Xt[rows], casting="unsafe")


def put(device: Device, slot: Slot, pairs: Iterable[tuple[Any, NDArray[Any]]]) -> None:
    """Copy arrays of pinned memory to the device, when the buffer is free there."""
    device.copy.wait_event(slot.used)
    for there, here in pairs:
        if here.size:
            there.set(here, stream=device.copy)
    slot.copied.record(device.copy)


def sent(
    device: Device, slots: Sequence[S], parts: Iterable[T], send: Callable[[S, T], Any]
) -> Iterator[tuple[T, Any]]:
    """Yield parts with what ``send`` makes of them in one of the buffers, each while the consumer uses the one before.

    A thread fills the buffers in turn: at most one part is ahead of the one in use. What is yielded is valid until the
    next part is asked for.
    """
    cuda = cupy().cuda

    def work() -> Iterator[tuple[S, T, Any]]:
        with cuda.Device(device.number), device.copy:
            try:
                for number, part in enumerate(parts):
                    slot = slots[number % len(slots)]
                    slot.copied.synchronize()  # its pinned memory is read no more
                    yield slot, part, send(slot, part)
                    del part
            finally:
                device.copy.synchronize()

    compute = cuda.get_current_stream()
    for slot, part, Xt in prefetch(work()):
        compute.wait_event(slot.copied)
        try:
            yield part, Xt
        finally:
            slot.used.record(compute)


def sent_csr(device: Device, parts: Iterator[tuple[T, Any]], dtype: np.dtype[Any]) -> Iterator[tuple[T, Any]]:
    """Yield CSR arrays of the host as matrices of the device, each with what it came with, as :func:`sent` does."""
    from cupyx.scipy.sparse import csr_matrix

    def send(slot: _CsrSlot, part: tuple[T, Any]) -> Any:
        return slot.put(part[1], dtype)

    for (key, _), (arrays, shape) in sent(device, [_CsrSlot(device) for _ in range(2)], parts, send):
        yield key, csr_matrix(arrays, shape=shape)


class _CsrSlot(Slot):
    """A buffer for the three arrays of a CSR matrix, which grows."""

    def __init__(self, device: Device) -> None:
        super().__init__(1, device.compute)
        self._device = device

    def put(self, Xt: Any, dtype: np.dtype[Any]) -> tuple[tuple[Any, Any, Any], tuple[int, int]]:
        """Send a CSR array; return its three arrays on the device, and its shape."""
        n, m = Xt.shape
        count = int(Xt.indptr[-1])
        index = np.dtype(np.int32)
        whole = [((count,), dtype), ((count,), index), ((n + 1,), index)]
        starts = np.cumsum([0, *(-(-size[0] * kind.itemsize // 512) * 512 for size, kind in whole)]).tolist()
        if self.array.nbytes < starts[-1]:
            self.used.synchronize()
            self.array = cupy().empty(starts[-1] + starts[-1] // 4, np.uint8)
        if self.host.nbytes < starts[-1]:
            self.host = _pinned(starts[-1] + starts[-1] // 4)
        pairs = []
        for values, (shape, kind), first in zip((Xt.data, Xt.indices, Xt.indptr), whole, starts[:-1], strict=True):
            here = self.on_host(shape, kind, first)
            self._device.in_parallel(partial(read, values, None, 0, here), shape[0], kind.itemsize)
            pairs.append((self.on_device(shape, kind, first), here))
        put(self._device, self, pairs)
        data, indices, indptr = (there for there, _ in pairs)
        return (data, indices, indptr), (n, m)


def to_device(device: Device, Xt: NDArray[Any], order: NDArray[np.intp] | None, stored: np.dtype[Any]) -> Any:
    """Return an array of the host on the device, its rows in an order, as numbers of a type."""
    n, row_bytes = len(Xt), int(np.prod(Xt.shape[1:])) * stored.itemsize
    there = cupy().empty(Xt.shape, stored)
    if n * row_bytes <= PIECE_BYTES:
        there.set(np.ascontiguousarray(Xt if order is None else Xt[order], stored))
    elif order is None and Xt.dtype == stored and Xt.flags.c_contiguous:
        _copy_bytes(device, Xt.ctypes.data, there.data.ptr, Xt.nbytes)
    else:
        _copy_rows(device, Xt, order, there)
    return there


def _copy_bytes(device: Device, here: int, there: int, n_bytes: int) -> None:
    """Copy memory of the host to the device: threads take piece after piece, each with pinned memory of its own.

    Parameters
    ----------
    device : Device
        The device.
    here, there : int
        Addresses.
    n_bytes : int
        How much.
    """
    cuda = cupy().cuda
    n_threads = min(available_threads(), -(-n_bytes // PIECE_BYTES))
    pinned = _pinned(2 * n_threads * PIECE_BYTES)
    device.copy.wait_event(device.compute.record())  # the memory may have been something else just now
    starts = iter(range(0, n_bytes, PIECE_BYTES))  # taking the next one is atomic

    def work(thread: int) -> None:
        buffers = [pinned.ctypes.data + (2 * thread + i) * PIECE_BYTES for i in range(2)]
        with cuda.Device(device.number):
            events = [cuda.Event(disable_timing=True) for _ in buffers]
            for turn, start in enumerate(starts):
                buffer, event = buffers[turn % 2], events[turn % 2]
                event.synchronize()  # what was in the buffer is on the device
                size = min(PIECE_BYTES, n_bytes - start)
                ctypes.memmove(buffer, here + start, size)
                cuda.runtime.memcpyAsync(there + start, buffer, size, _TO_DEVICE, device.copy.ptr)
                event.record(device.copy)

    try:
        device.in_threads(work, n_threads)
    finally:
        device.copy.synchronize()


def _copy_rows(device: Device, Xt: NDArray[Any], order: NDArray[np.intp] | None, there: Any) -> None:
    """Copy rows to the device that have to be gathered or converted."""
    n, row_bytes = len(Xt), there.nbytes // len(Xt)
    step = max(1, PINNED_BYTES // max(row_bytes, 1))
    slots = [Slot(1, device.compute) for _ in range(2)]
    for slot in slots:
        slot.host = _pinned(min(step, n) * row_bytes)

    def send(slot: Slot, start: int) -> None:
        host = slot.on_host((min(step, n - start), *Xt.shape[1:]), there.dtype)
        device.in_parallel(partial(read, Xt, order, start, host), len(host), row_bytes)
        put(device, slot, [(there[start : start + len(host)], host)])

    for _ in sent(device, slots, range(0, n, step), send):
        pass
