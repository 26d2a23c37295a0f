"""Devices, memory, streams and events without a GPU: what ``cupy.cuda`` is for the stand-in of CuPy.

Memory is counted, so that a limit can be set, and streams are watched: a copy from pinned memory waits until something
waits for it (so that whoever changes the pinned memory too early gets wrong numbers), and an array that is used on a
stream which did not wait for its last use on another raises ``Race``.
"""

import ctypes
import re
import threading
import weakref
from collections import deque
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from . import compiled

MEMORY = 8 << 30  # of each device, unless a test sets another
_local = threading.local()
_lock = threading.RLock()


class Race(AssertionError):
    """Work on one stream uses what another stream may not have finished."""


class OutOfMemoryError(MemoryError):
    """As ``cupy.cuda.memory.OutOfMemoryError``."""

    def __init__(self, size, total, limit=0):
        more = f", limit set to: {limit:,} bytes" if limit else ""
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes{more}).")


class CUDARuntimeError(RuntimeError):
    """As ``cupy.cuda.runtime.CUDARuntimeError``."""

    def __init__(self, status, name):
        self.status = status
        super().__init__(name)


# -- machine -------------------------------------------------------------------------------------------------------


class _Pool:
    """Memory of a device that is in use, or kept for the next allocation, as CuPy's pool does."""

    def __init__(self):
        self.used = self.kept = self.limit = self.peak = 0
        self.n_allocations = 0
        self.fail_at = None  # number of an allocation that fails, for tests


class Machine:
    """The devices. Tests change ``n_devices``, ``memory``, ``driver``, ``can_register`` and ``can_pin``."""

    def __init__(self, n_devices=1, memory=MEMORY):
        self.n_devices, self.memory = n_devices, memory
        self.driver, self.runtime = 13000, 13000
        self.can_register = self.can_pin = True
        self.pools = {}
        self.host_seen = {}
        self.registered = {}
        self.pinned = {}
        self.streams = []
        self.nulls = {}

    def pool(self, device):
        return self.pools.setdefault(device, _Pool())

    def is_pinned(self, array):
        start, size = array.ctypes.data, array.nbytes
        with _lock:
            blocks = [*self.registered.items(), *self.pinned.items()]
        return any(first <= start and start + size <= first + length for first, length in blocks)


machine = Machine()


def current_device():
    return getattr(_local, "device", 0)


class _Use(NamedTuple):
    """When which part of a memory was read or written."""

    stream: "Stream"
    time: int
    low: float
    high: float
    writes: bool


class Memory:
    """A piece of the memory of a device, counted as long as an array uses it."""

    def __init__(self, size):
        self.device = current_device()
        self.size = -(-size // 512) * 512
        self.uses = []
        with _lock:
            pool = self.pool = machine.pool(self.device)
            pool.n_allocations += 1
            if pool.fail_at is not None and pool.n_allocations >= pool.fail_at:
                pool.fail_at = None
                self.size = 0
                raise OutOfMemoryError(size, pool.used)
            limit = min(pool.limit or machine.memory, machine.memory)
            if self.size > pool.kept:
                if pool.used + pool.kept + self.size > limit:
                    pool.kept = 0  # CuPy frees what it keeps, and tries again
                if pool.used + pool.kept + self.size > limit:
                    size, self.size = self.size, 0
                    raise OutOfMemoryError(size, pool.used + pool.kept, pool.limit)
            else:
                pool.kept -= self.size
            pool.used += self.size
            pool.peak = max(pool.peak, pool.used)

    def __del__(self):
        if getattr(self, "size", 0):
            with _lock:
                self.pool.used -= self.size
                self.pool.kept += self.size

    def use(self, writes, array=None):
        """Note that the current stream uses it: the part that a contiguous array of NumPy has, or all."""
        stream = get_current_stream()
        stream.catch_up()
        low, high = 0, float("inf")
        if array is not None and array.flags.c_contiguous:
            low, high = array.ctypes.data, array.ctypes.data + array.nbytes
        others = []
        for use in self.uses:
            if use.low >= high or use.high <= low or not (writes or use.writes):
                others.append(use)
                continue
            stream.must_know(use.stream, use.time)
            if use.low < low or use.high > high or not writes:
                others.append(use)
        self.uses = [use for use in others if (use.stream, *use[2:]) != (stream, low, high, writes)]
        self.uses.append(_Use(stream, stream.tick(), low, high, writes))


# -- streams -------------------------------------------------------------------------------------------------------


class Stream:
    """Work in order. Copies from pinned memory wait until something waits for them."""

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.machine, self.device_id = machine, current_device()
        self.is_null, self.non_blocking = null, non_blocking
        self.ptr = 0 if null else id(self)
        self.time = 0
        self.seen = {}
        self._waiting = deque()
        self._lock = threading.RLock()
        with _lock:
            machine.streams.append(self)

    def tick(self):
        self.time += 1
        return self.time

    def must_know(self, other, time):
        if other is self or (not self.non_blocking and not other.non_blocking and (self.is_null or other.is_null)):
            return
        if max(self.seen.get(other, 0), machine.host_seen.get(other, 0)) < time:
            raise Race(f"{self} uses what {other} may not have finished: no event was waited for.")

    def later(self, work):
        self._waiting.append((self.tick(), work))

    def catch_up(self, until=None):
        """Do what waits, up to a time."""
        with self._lock:
            while self._waiting and (until is None or self._waiting[0][0] <= until):
                self._waiting.popleft()[1]()
        if self.is_null and until is None:
            for stream in list(machine.streams):
                if not stream.is_null and not stream.non_blocking and stream.device_id == self.device_id:
                    stream.catch_up()

    def synchronize(self):
        self.catch_up()
        with _lock:
            machine.host_seen[self] = self.time
            for other, time in list(self.seen.items()):
                machine.host_seen[other] = max(machine.host_seen.get(other, 0), time)

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        if event.stream is not None:
            event.stream.catch_up(event.time)
            for other, time in [(event.stream, event.time), *event.seen.items()]:
                self.seen[other] = max(self.seen.get(other, 0), time)

    @property
    def done(self):
        return not self._waiting

    def use(self):
        _local.stream = {**getattr(_local, "stream", {}), self.device_id: self}
        return self

    def __enter__(self):
        assert self.is_null or self.device_id == current_device(), "a stream of another device"
        self._stack().append(get_current_stream())
        return self.use()

    def __exit__(self, *_):
        self._stack().pop().use()

    def _stack(self):
        _local.streams = getattr(_local, "streams", [])
        return _local.streams

    def __repr__(self):
        return f"<Stream {self.ptr} (device {self.device_id})>"


class Event:
    """A point in the work of a stream."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.stream, self.time, self.seen = None, 0, {}

    def record(self, stream=None):
        self.stream = stream or get_current_stream()
        self.time, self.seen = self.stream.time, dict(self.stream.seen)

    def synchronize(self):
        if self.stream is not None:
            self.stream.catch_up(self.time)
            with _lock:
                for other, time in [(self.stream, self.time), *self.seen.items()]:
                    machine.host_seen[other] = max(machine.host_seen.get(other, 0), time)

    @property
    def done(self):
        return self.stream is None or self.stream.done


def null_stream():
    device = current_device()
    with _lock:
        if device not in machine.nulls:
            machine.nulls[device] = Stream(null=True)
        return machine.nulls[device]


def get_current_stream(device_id=None):
    device = current_device() if device_id is None else device_id
    stream = getattr(_local, "stream", {}).get(device)
    return stream if stream is not None and stream.machine is machine else null_stream()


class _Null:
    def __get__(self, instance, owner):
        return null_stream()


Stream.null = _Null()


class Device:
    """As ``cupy.cuda.Device``."""

    def __init__(self, device=None):
        self.id = current_device() if device is None else int(device)

    def __int__(self):
        return self.id

    def __index__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"<CUDA Device {self.id}>"

    def use(self):
        if not 0 <= self.id < machine.n_devices:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
        _local.device = self.id

    def __enter__(self):
        _local.devices = getattr(_local, "devices", [])
        _local.devices.append(current_device())
        self.use()
        return self

    def __exit__(self, *_):
        _local.device = _local.devices.pop()

    def synchronize(self):
        for stream in list(machine.streams):
            if stream.device_id == self.id:
                stream.synchronize()

    @property
    def mem_info(self):
        with self:
            return _mem_info()

    @property
    def compute_capability(self):
        return "90"

    @property
    def attributes(self):
        return {"MultiProcessorCount": 4, "MaxSharedMemoryPerBlockOptin": 232448, "MaxThreadsPerBlock": 1024}


# -- the runtime ---------------------------------------------------------------------------------------------------


def _mem_info():
    pool = machine.pool(current_device())
    return max(machine.memory - pool.used - pool.kept, 0), machine.memory


def _device_count():
    if machine.n_devices == 0:
        raise CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected")
    if machine.driver < machine.runtime // 1000 * 1000:
        raise CUDARuntimeError(
            35, "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
        )
    return machine.n_devices


def _host_register(ptr, size, flags=0):
    if not machine.can_register:
        raise CUDARuntimeError(801, "cudaErrorNotSupported: operation not supported")
    with _lock:
        if any(ptr < first + length and first < ptr + size for first, length in machine.registered.items()):
            raise CUDARuntimeError(712, "cudaErrorHostMemoryAlreadyRegistered: part or all of the memory is already")
        machine.registered[ptr] = size


def _host_unregister(ptr):
    with _lock:
        if machine.registered.pop(ptr, None) is None:
            raise CUDARuntimeError(713, "cudaErrorHostMemoryNotRegistered: pointer does not correspond to any")


def _memcpy_async(dst, src, size, kind, stream):
    assert kind == 1, "only from the host to the device"
    stream = next(each for each in machine.streams if each.ptr == stream)
    stream.later(lambda: ctypes.memmove(dst, src, size))


def _properties(device):
    return {
        "name": b"Stand-in",
        "totalGlobalMem": machine.memory,
        "multiProcessorCount": 4,
        "major": 9,
        "minor": 0,
        "warpSize": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiProcessor": 2048,
        "sharedMemPerBlock": 49152,
        "sharedMemPerBlockOptin": 232448,
        "sharedMemPerMultiprocessor": 233472,
        "l2CacheSize": 50 << 20,
        "integrated": 0,
    }


runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=_device_count,
    getDevice=current_device,
    setDevice=lambda device: Device(device).use(),
    memGetInfo=_mem_info,
    driverGetVersion=lambda: machine.driver,
    runtimeGetVersion=lambda: machine.runtime,
    getDeviceProperties=_properties,
    deviceGetAttribute=lambda attribute, device: {16: 4, 75: 9, 97: 232448}[attribute],
    memcpyAsync=_memcpy_async,
    memcpyHostToDevice=1,
    hostRegister=_host_register,
    hostUnregister=_host_unregister,
    deviceSynchronize=lambda: Device().synchronize(),
    cudaDevAttrMultiProcessorCount=16,
    cudaDevAttrMaxSharedMemoryPerBlockOptin=97,
    hostRegisterDefault=0,
    hostRegisterReadOnly=8,
    is_hip=False,
)


class PinnedMemoryPointer:
    """Pinned memory of the host; has the buffer protocol through ``numpy.frombuffer``."""

    def __new__(cls, size):
        array = np.full(size, 0xA5, np.uint8)
        with _lock:
            machine.pinned[array.ctypes.data] = size
        weakref.finalize(array, machine.pinned.pop, array.ctypes.data, None)
        buffer = (ctypes.c_uint8 * size).from_buffer(array)
        buffer.mem = array
        return buffer


def alloc_pinned_memory(size):
    if not machine.can_pin:
        raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
    return PinnedMemoryPointer(max(int(size), 1))


class MemoryPool:
    """As ``cupy.cuda.MemoryPool``, of the current device."""

    @property
    def _pool(self):
        return machine.pool(current_device())

    def free_all_blocks(self, stream=None):
        with _lock:
            self._pool.kept = 0

    def used_bytes(self):
        return self._pool.used

    def free_bytes(self):
        return self._pool.kept

    def total_bytes(self):
        return self._pool.used + self._pool.kept

    def set_limit(self, size=None, fraction=None):
        self._pool.limit = int(fraction * machine.memory) if size is None else size

    def get_limit(self):
        return self._pool.limit


class PinnedMemoryPool:
    """As ``cupy.cuda.PinnedMemoryPool``."""

    def free_all_blocks(self):
        pass

    def n_free_blocks(self):
        return 0


# -- sources of our own --------------------------------------------------------------------------------------------

_running = threading.RLock()  # compiled kernels keep their indices in global variables


class Function:
    """A kernel, built by the C++ compiler."""

    max_dynamic_shared_size_bytes = 49152

    def __init__(self, library, name, only_reads):
        self._function, self._only_reads = compiled.Function(library, name), only_reads

    def __call__(self, grid, block, args, *, shared_mem=0, stream=None):
        from .standin_array import ndarray

        assert len(grid) <= 3, "grid"
        assert shared_mem <= self.max_dynamic_shared_size_bytes, "not enough shared memory was asked for"
        passed = []
        for arg, only_reads in zip(args, self._only_reads, strict=True):
            if isinstance(arg, ndarray):
                arg._check_device()
                arg._memory.use(not only_reads, arg._a)
                passed.append(arg._a)
            elif isinstance(arg, np.ndarray) and arg.ndim:
                raise TypeError(f"Unsupported type {type(arg)}")
            else:
                passed.append(arg)
        with _running:
            self._function(grid, block, tuple(passed), shared_mem)


class RawModule:
    """As ``cupy.RawModule``."""

    def __init__(self, *, code=None, options=(), backend="nvrtc", name_expressions=None, **_):
        self._library, self._code = compiled.library(code, tuple(options)), code

    def get_function(self, name):
        return Function(self._library, name, self._only_reads(name))

    def _only_reads(self, name):
        """Return which arguments a kernel only reads: those that are declared as const."""
        found = re.search(rf'extern "C" __global__[^{{]*?\b{name}\((.*?)\) *{{', self._code, re.DOTALL)
        parameters = re.sub(r"//[^\n]*", "", found[1])
        return [parameter.split()[0] == "const" for parameter in parameters.split(",")]


def RawKernel(code, name, options=(), backend="nvrtc", **_):
    """As ``cupy.RawKernel``."""
    return RawModule(code=code, options=options).get_function(name)
