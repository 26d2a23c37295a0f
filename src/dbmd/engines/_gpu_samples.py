"""Samples on a GPU: kept there, or on their way to it in every pass."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import is_here, is_sparse, to_host
from dbmd.data.block import Block, Chunk, Rows, Samples, Window, consecutive_rows
from dbmd.data.read_ahead import windows_in_order
from dbmd.data.stream import Stream
from dbmd.engines._gpu_device import Device, Slot, put, read, sent, sent_csr, to_device
from dbmd.engines._runs import (
    LEAST_ROWS,
    ROWS,
    Run,
    codes_of,
    csr_rows,
    groups,
    pieces,
    pieces_by_entries,
    regrouped,
    row_ends,
    rows_within,
    runs_of,
)
from dbmd.engines.local import available_threads
from dbmd.kernels._cuda import cupy
from dbmd.model.low_rank import LowRank

CHUNK = 16  # a chunk that is not a view takes at most this part of the memory of a device
WINDOW_BYTES = 128 << 20  # rows that are on their way together
READY = 4  # samples are kept once more if so many times their size are free
REGISTER_BYTES = 1 << 30  # from here on, memory of the host is pinned where it is, which is faster than copying it


class Beside(NamedTuple):
    """What there is one of for each row, in arrays of the device.

    Attributes
    ----------
    numbers : array of int of shape (rows,), optional
        Numbers of the rows in the block; by default those of their positions.
    class_codes : array of int of shape (rows,), optional
        Their known classes.
    weights : array of shape (rows,), optional
        For how many samples each stands.
    """

    numbers: Any = None
    class_codes: Any = None
    weights: Any = None

    @classmethod
    def of(cls, numbers: Any, class_codes: Any, weights: Any, order: NDArray[np.intp] | None) -> Beside:
        """Return arrays of the host or of any device, in an order, on this device; the numbers are in that order."""
        kinds = (np.intp, np.intp, np.float64)
        found = [
            None if array is None else cupy().asarray(to_host(array), kind)
            for array, kind in zip((numbers, class_codes, weights), kinds, strict=True)
        ]
        if order is not None and (class_codes is not None or weights is not None):
            rows = cupy().asarray(order)
            found[1:] = [None if array is None else array[rows] for array in found[1:]]
        return cls(*found)

    def part(self, start: int, stop: int) -> Beside:
        """Return the part of some rows."""
        return Beside(*(None if array is None else array[start:stop] for array in self))


class DeviceWindow(Window):
    """Samples on the device, in runs of one source each.

    Attributes
    ----------
    Xt : array of the device or CSR matrix of the device, shape (rows, m)
        The samples, dense ones as numbers of any type. A CSR matrix has one run.
    runs : list of Run
        Their sources.
    rows : array of the device of shape (rows,), optional
        Their numbers in the block; by default consecutive ones from ``first`` on.
    size : int
        Largest number of rows of a chunk.
    """

    runs: list[Run]
    rows: Any
    size: int

    @classmethod
    def of(cls, Xt: Any, runs: list[Run], first: int, beside: Beside, size: int) -> DeviceWindow:
        """Return a window of samples, the first of which has a number, with what there is beside them."""
        source_code = runs[0].source_code if runs else 0
        window = cls(first, Xt, source_code, beside.class_codes, {}, beside.weights)
        window.runs, window.rows, window.size = runs, beside.numbers, size
        return window

    def chunks(self, dtype: np.dtype[Any], shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples as numbers of a type, minus a shift if given, in chunks of one source each.

        A chunk with a shift is valid only until the next one.
        """
        xp = cupy()
        shift = None if shift is None or is_sparse(self.Xt) else xp.asarray(shift, dtype)
        buffer = None
        for start, stop, source_code in pieces(self.runs, self.size):
            part = slice(start, stop)
            if is_sparse(self.Xt):  # the same object in every pass: the kernel keeps what it finds out about it
                Xt = self.Xt if self.Xt.dtype == dtype else self.Xt.astype(dtype)
            elif shift is None:
                Xt = self.Xt[part].astype(dtype, copy=False)
            else:
                if buffer is None:
                    longest = max(run.stop - run.start for run in self.runs)
                    buffer = xp.empty((min(self.size, longest), self.Xt.shape[1]), dtype)
                Xt = xp.subtract(self.Xt[part], shift, out=buffer[: stop - start], dtype=dtype)
            rows: Rows = slice(self.first + start, self.first + stop) if self.rows is None else self.rows[part]
            yield Chunk(
                Xt,
                source_code,
                rows,
                None if self.class_codes is None else self.class_codes[part],
                None if self.weights is None else self.weights[part],
            )


@dataclass(frozen=True)
class DeviceSamples(Samples):
    """Samples whose chunks are on a device.

    Attributes
    ----------
    host : Samples
        Where they come from.
    device : Device
        Where they go.
    chunk_bytes : int
        Largest size of a chunk that is not a view.
    """

    host: Samples
    device: Device
    chunk_bytes: int

    @property
    def first_row(self) -> int:  # type: ignore[override]
        """Number of the first sample in the whole data."""
        return self.host.first_row

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.host.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return self.host.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return is_sparse(self.host.Xt) if isinstance(self.host, Block) else self.host.is_sparse

    @property
    def is_contiguous(self) -> bool:
        """Whether chunks are consecutive samples in memory: rows are in the order of their sources."""
        return not self.is_sparse

    @property
    def kernel(self) -> str:
        """Name of the kernel that works on the chunks."""
        return "gpu"

    @property
    def off(self) -> Mapping[int, float]:  # type: ignore[override]
        """For each source the squared distances of its samples from the space that they were projected on, summed."""
        return self.host.off

    @property
    def size(self) -> int:
        """Largest number of rows of a chunk."""
        return rows_within(self.chunk_bytes, self.shape[1] * self.dtype.itemsize)

    def smaller(self) -> DeviceSamples | None:
        """Return the same samples in a form that needs less memory; None if there is none."""
        if self.size <= LEAST_ROWS or self.chunk_bytes <= LEAST_ROWS:
            return None
        rows = min(self.size, max(self.shape[0], 1))
        return replace(self, chunk_bytes=rows * self.shape[1] * self.dtype.itemsize // 4)


class _Ready:
    """Samples that are kept as the last pass took them, and what was subtracted from them."""

    def __init__(self) -> None:
        self.Xt: Any = None
        self.key: bytes | None = None


@dataclass(frozen=True)
class Resident(DeviceSamples):
    """Samples that stay on the device.

    Attributes
    ----------
    Xt : array of the device of shape (n_i, m), or list of CSR matrices of the device
        The samples in the order of their sources, dense ones as numbers of any type; the matrices have the rows of one
        run each, cut into pieces.
    runs : list of Run
        Their sources.
    beside : Beside
        What there is for each of them.
    ready : _Ready, optional
        Where they are kept once more as the last pass took them; None: there is no memory for it.
    """

    Xt: Any
    runs: list[Run]
    beside: Beside
    ready: _Ready | None = None

    def windows(self) -> Iterator[Window]:
        """Yield the samples: all at once, or one of the matrices after the other."""
        if not self.is_sparse:
            yield DeviceWindow.of(self.Xt, self.runs, 0, self.beside, self.size)
            return
        for run, Xt in zip(self.runs, self.Xt, strict=True):
            yield _one_run(Xt, run, self.beside)

    def chunks_of(self, window: Window, shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples, minus a shift of shape (m,) if given, in chunks of one source."""
        Xt = self._ready(shift)
        if Xt is None:
            return window.chunks(self.dtype, shift)
        return DeviceWindow.of(Xt, self.runs, 0, self.beside, self.size).chunks(self.dtype)

    def _ready(self, shift: NDArray[np.float64] | None) -> Any:
        """Return dense samples as a pass takes them, of the same shift as the one before; None if there is no memory.

        A fit takes the same in all passes. To convert or shift them takes as long as to read them three times.
        """
        if self.ready is None or self.is_sparse or (shift is None and self.Xt.dtype == self.dtype):
            return None
        key = None if shift is None else shift.tobytes()
        if self.ready.Xt is None or self.ready.key != key:
            self.ready.Xt = None
            n_bytes = self.Xt.size * self.dtype.itemsize
            if READY * n_bytes > self.device.free():
                return None
            whole = DeviceWindow.of(self.Xt, [Run(0, len(self.Xt), 0)], 0, Beside(), max(len(self.Xt), 1))
            self.ready.Xt, self.ready.key = next((chunk.Xt for chunk in whole.chunks(self.dtype, shift)), self.Xt), key
        return self.ready.Xt

    def smaller(self) -> DeviceSamples | None:
        """Return the same samples in smaller chunks, or, where these are small already, as a stream from the host."""
        if self.ready is not None and self.ready.Xt is not None:
            return replace(self, ready=None)
        host, is_small = self.host, self.is_sparse or self.chunk_bytes <= WINDOW_BYTES
        if isinstance(host, Block) and is_here(host.Xt) and is_small:
            return _stream(host, self.device, self.chunk_bytes)
        return self._cut() if self.is_sparse else super().smaller()

    def _cut(self) -> Resident | None:
        """Return sparse samples in smaller matrices, which share the arrays of these; None if there are no smaller."""
        entries = max((int(Xt.data.size) for Xt in self.Xt), default=0) // 4
        runs, matrices = [], []
        for run, Xt in zip(self.runs, self.Xt, strict=True):
            whole, ends = Run(0, run.stop - run.start, run.source_code), row_ends(_HostEnds(Xt.indptr.get()), None)
            for start, stop, source_code in pieces_by_entries([whole], ends, max(entries, 1)):
                runs.append(Run(run.start + start, run.start + stop, source_code))
                matrices.append(consecutive_rows(Xt, start, stop))
        return replace(self, Xt=matrices, runs=runs) if len(runs) > len(self.runs) else None


def _one_run(Xt: Any, run: Run, beside: Beside) -> DeviceWindow:
    """Return a window of all rows of a run, with its part of what there is for each row."""
    n = run.stop - run.start
    return DeviceWindow.of(Xt, [Run(0, n, run.source_code)], run.start, beside.part(run.start, run.stop), max(n, 1))


@dataclass(frozen=True)
class StreamedBlock(DeviceSamples):
    """Samples in the memory of the host, which go to the device in every pass, in the order of their sources.

    Attributes
    ----------
    Xt : array or CSR array of shape (n_i, m)
        The samples.
    stored : dtype
        Type of the numbers on the device.
    runs : list of Run
        Their sources, in the order in which they go.
    order : array of int of shape (n_i,), optional
        Their numbers in the block; by default as they are.
    beside : Beside
        What there is for each of them, in the order in which they go.
    is_pinned : bool
        Whether the memory of the samples is pinned: then it need not be copied into buffers that are.
    """

    Xt: Any
    stored: np.dtype[Any]
    runs: list[Run]
    order: NDArray[np.intp] | None
    beside: Beside
    is_pinned: bool

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they arrive."""
        return self._sparse_windows() if self.is_sparse else self._dense_windows()

    def _dense_windows(self) -> Iterator[Window]:
        m = self.shape[1]
        row_bytes = m * self.stored.itemsize
        step = min(rows_within(self.chunk_bytes, row_bytes), self.size)
        parts = list(groups(self.runs, step))
        most = max((part[-1].stop - part[0].start for part in parts), default=0) * row_bytes
        slots = self.device.slots(most, 0 if self.is_pinned else most)

        def send(slot: Slot, part: list[Run]) -> Any:
            start, stop = part[0].start, part[-1].stop
            if self.is_pinned:
                host = self.Xt[start:stop]
            else:
                host = slot.on_host((stop - start, m), self.stored)
                self.device.in_parallel(partial(read, self.Xt, self.order, start, host), stop - start, row_bytes)
            Xt = slot.on_device(host.shape, self.stored)
            put(self.device, slot, [(Xt, host)])
            return Xt

        for part, Xt in sent(self.device, slots, parts, send):
            start, stop = part[0].start, part[-1].stop
            runs = [Run(run.start - start, run.stop - start, run.source_code) for run in part]
            yield DeviceWindow.of(Xt, runs, start, self.beside.part(start, stop), self.size)

    def _sparse_windows(self) -> Iterator[Window]:
        Xt, dtype = self.Xt, self.stored
        parts = list(pieces_by_entries(self.runs, row_ends(Xt, self.order), self.chunk_bytes // (dtype.itemsize + 4)))
        for run, there in sent_csr(self.device, ((run, csr_rows(Xt, self.order, run)) for run in parts), dtype):
            yield _one_run(there, run, self.beside)


@dataclass(frozen=True)
class Streamed(DeviceSamples):
    """Samples that are read in every pass, from files or a memory map, in the order in which they are stored there."""

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they arrive: as many at a time as fit, those of a source beside each other."""
        return self._sparse_windows() if self.is_sparse else self._dense_windows()

    def _dense_windows(self) -> Iterator[Window]:
        n, m = self.shape
        row_bytes = m * self.dtype.itemsize
        step = min(rows_within(min(self.chunk_bytes, WINDOW_BYTES), row_bytes), max(n, 1))
        slots = self.device.slots(step * row_bytes, step * row_bytes)

        def send(slot: Slot, part: list[Window]) -> Any:
            rows = sum(window.Xt.shape[0] for window in part)
            host, first = slot.on_host((rows, m), self.dtype), 0
            for window in part:
                own = host[first : first + window.Xt.shape[0]]
                self.device.in_parallel(partial(read, window.Xt, None, 0, own), len(own), row_bytes)
                first += len(own)
            Xt = slot.on_device(host.shape, self.dtype)
            put(self.device, slot, [(Xt, host)])
            return Xt

        for part, Xt in sent(self.device, slots, regrouped(self._read(), step), send):
            yield self._window(part, Xt)

    def _sparse_windows(self) -> Iterator[Window]:
        def parts() -> Iterator[tuple[_Read, Any]]:
            for part in regrouped(self._read(), ROWS):
                Xt = sparse.csr_array(sparse.vstack([window.Xt for window in part], "csr"))
                runs, order = runs_of(codes_of(part), Xt.shape[0])
                for run in runs:
                    yield _Read(part, run, order), csr_rows(Xt, order, run)

        for own, Xt in sent_csr(self.device, parts(), self.dtype):
            yield _one_run(Xt, own.run, _beside(own.part, own.order, always=True))

    def _read(self) -> Iterator[Window]:
        # There is one node for each device: without several threads here, one would decode all files.
        if isinstance(self.host, Stream):
            return windows_in_order(self.host, available_threads())
        return self.host.windows()

    def _window(self, part: list[Window], Xt: Any) -> DeviceWindow:
        runs, order = runs_of(codes_of(part), len(Xt))
        if order is not None:
            Xt = Xt[cupy().asarray(order)]
        return DeviceWindow.of(Xt, runs, part[0].first, _beside(part, order), self.size)


class _Read(NamedTuple):
    """Windows that were read together, and which of their rows are meant, in an order."""

    part: list[Window]
    run: Run
    order: NDArray[np.intp] | None


def _beside(part: list[Window], order: NDArray[np.intp] | None, *, always: bool = False) -> Beside:
    """Return what there is for each row of windows, in an order; the numbers of rows without one only if asked for."""
    first, n = part[0].first, sum(window.Xt.shape[0] for window in part)
    class_codes = [window.class_codes for window in part if window.class_codes is not None]
    weights = [window.weights for window in part if window.weights is not None]
    numbers = np.arange(first, first + n) if order is None and always else None if order is None else first + order
    return Beside.of(
        numbers,
        np.concatenate(class_codes) if class_codes else None,
        np.concatenate(weights) if weights else None,
        order,
    )


def on_device(block: Any, device: Device, budget: float) -> Any:
    """Return a block for the device: copied there if that takes no more than the budget, in bytes, else a stream.

    What is no block of samples that a device can take is returned as it is.
    """
    if not isinstance(block, Samples) or (isinstance(block, Block) and isinstance(block.Xt, LowRank)):
        return block
    chunk_bytes = device.memory // CHUNK
    if not isinstance(block, Block):
        return Streamed(block, device, min(WINDOW_BYTES, chunk_bytes))
    if not is_here(block.Xt):
        return _given(block, device, chunk_bytes)
    if _bytes_on_device(block) <= budget:
        return _resident(block, device, chunk_bytes)
    return _stream(block, device, chunk_bytes)


def _stream(block: Block, device: Device, chunk_bytes: int) -> DeviceSamples:
    """Return a block of the host as a stream: a file that is mapped in the order in which it is stored."""
    chunk_bytes = min(WINDOW_BYTES, chunk_bytes)
    return Streamed(block, device, chunk_bytes) if _is_mapped(block.Xt) else _streamed(block, device, chunk_bytes)


def bytes_taken(block: Any) -> float:
    """Return how many bytes the samples of a block take that were copied to the device; zero if they were not."""
    is_copy = isinstance(block, Resident) and isinstance(block.host, Block) and is_here(block.host.Xt)
    return _bytes_on_device(block.host) if is_copy else 0.0


def _is_mapped(Xt: Any) -> bool:
    """Return whether an array is a file that is mapped into memory, also a view of one."""
    while isinstance(Xt, np.ndarray):
        if isinstance(Xt, np.memmap) or isinstance(Xt.base, mmap.mmap):
            return True
        Xt = Xt.base
    return False


def _stored(block: Block) -> np.dtype[Any]:
    """Return the type of a block's numbers on the device: their own, if it is narrower than what is computed with."""
    own = block.Xt.dtype
    narrow = own.kind in "biuf" and own.itemsize < block.dtype.itemsize and not is_sparse(block.Xt)
    return own.newbyteorder("=") if narrow else block.dtype


def _bytes_on_device(block: Block) -> float:
    stored, (n, m) = _stored(block).itemsize, block.shape
    return float(block.Xt.nnz * (stored + 4) + 4 * n) if is_sparse(block.Xt) else float(n) * m * stored


def _arranged(block: Block) -> tuple[list[Run], NDArray[np.intp] | None, Beside]:
    """Return the runs of a block, the order of its rows, and what there is for each, in that order."""
    codes = block.source_codes if isinstance(block.source_codes, int) else to_host(block.source_codes)
    runs, order = runs_of(codes, block.shape[0])
    return runs, order, Beside.of(order, block.class_codes, block.weights, order)


def _resident(block: Block, device: Device, chunk_bytes: int) -> Resident:
    """Return a block of the host, copied to the device."""
    runs, order, beside = _arranged(block)
    Xt, stored = block.Xt, _stored(block)
    if not is_sparse(Xt):
        there = to_device(device, Xt, order, stored)
        return Resident(block, device, chunk_bytes, there, runs, beside, _Ready())
    from cupyx.scipy.sparse import csr_matrix

    Xt = Xt if order is None else Xt[order]
    data, indices = (to_device(device, a, None, t) for a, t in ((Xt.data, stored), (Xt.indices, np.dtype(np.int32))))
    runs = list(pieces_by_entries(runs, row_ends(Xt, None), chunk_bytes // (stored.itemsize + 4)))
    matrices = []
    for start, stop, _ in runs:
        first, last = int(Xt.indptr[start]), int(Xt.indptr[stop])
        ends = cupy().asarray((Xt.indptr[start : stop + 1] - first).astype(np.int32))
        shape = (stop - start, Xt.shape[1])
        matrices.append(csr_matrix((data[first:last], indices[first:last], ends), shape=shape))
    return Resident(block, device, chunk_bytes, matrices, runs, beside)


def _given(block: Block, device: Device, chunk_bytes: int) -> Resident:
    """Return a block that is on the device already."""
    xp, Xt = cupy(), block.Xt
    runs, order, beside = _arranged(block)
    if not is_sparse(Xt):
        Xt = xp.ascontiguousarray(Xt if order is None else Xt[xp.asarray(order)])
        return Resident(block, device, chunk_bytes, Xt, runs, beside, _Ready())
    Xt = Xt if order is None else Xt[xp.asarray(order)]
    Xt = Xt if Xt.dtype == block.dtype else Xt.astype(block.dtype)
    runs = list(pieces_by_entries(runs, row_ends(_HostEnds(Xt.indptr.get()), None), chunk_bytes // 12))
    matrices = [consecutive_rows(Xt, run.start, run.stop) for run in runs]
    return Resident(block, device, chunk_bytes, matrices, runs, beside)


class _HostEnds(NamedTuple):
    """The row ends of a CSR matrix of the device."""

    indptr: NDArray[np.integer]


def _streamed(block: Block, device: Device, chunk_bytes: int) -> StreamedBlock:
    """Return a block of the host that goes to the device in every pass."""
    runs, order, beside = _arranged(block)
    Xt, stored = block.Xt, _stored(block)
    is_pinned = (
        not is_sparse(Xt)
        and order is None
        and Xt.dtype == stored
        and Xt.flags.c_contiguous
        and Xt.nbytes >= REGISTER_BYTES
        and device.register(Xt)
    )
    return StreamedBlock(block, device, chunk_bytes, Xt, stored, runs, order, beside, is_pinned)
