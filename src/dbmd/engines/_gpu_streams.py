"""Samples that go to a GPU in every pass: from the memory of the host, from files, or from files that are mapped."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import is_sparse
from dbmd.data.block import Block, Window
from dbmd.data.read_ahead import windows_in_order
from dbmd.data.stream import Stream
from dbmd.engines._gpu_device import Device, Slot, put, read, sent, sent_csr
from dbmd.engines._gpu_samples import Beside, DeviceSamples, DeviceWindow, arranged, one_run, stored_type
from dbmd.engines._runs import (
    ROWS,
    Run,
    codes_of,
    csr_rows,
    groups,
    pieces_by_entries,
    regrouped,
    row_ends,
    rows_within,
    runs_of,
)
from dbmd.engines.local import available_threads
from dbmd.kernels._cuda import cupy

WINDOW_BYTES = 128 << 20  # rows that are on their way together
REGISTER_BYTES = 1 << 30  # from here on, memory of the host is pinned where it is, which is faster than copying it


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
            yield one_run(there, run, self.beside)


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
            yield one_run(Xt, own.run, _beside(own.part, own.order, always=True))

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


def stream(block: Block, device: Device, chunk_bytes: int) -> DeviceSamples:
    """Return a block of the host as a stream: a file that is mapped in the order in which it is stored."""
    chunk_bytes = min(WINDOW_BYTES, chunk_bytes)
    return Streamed(block, device, chunk_bytes) if _is_mapped(block.Xt) else _streamed(block, device, chunk_bytes)


def _is_mapped(Xt: Any) -> bool:
    """Return whether an array is a file that is mapped into memory, also a view of one."""
    while isinstance(Xt, np.ndarray):
        if isinstance(Xt, np.memmap) or isinstance(Xt.base, mmap.mmap):
            return True
        Xt = Xt.base
    return False


def _streamed(block: Block, device: Device, chunk_bytes: int) -> StreamedBlock:
    """Return a block of the host that goes to the device in every pass."""
    runs, order, beside = arranged(block)
    Xt, stored = block.Xt, stored_type(block)
    is_pinned = (
        not is_sparse(Xt)
        and order is None
        and Xt.dtype == stored
        and Xt.flags.c_contiguous
        and Xt.nbytes >= REGISTER_BYTES
        and device.register(Xt)
    )
    return StreamedBlock(block, device, chunk_bytes, Xt, stored, runs, order, beside, is_pinned)
