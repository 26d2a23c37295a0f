"""Samples that stay on a GPU, if there is room for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, is_sparse
from dbmd.data.block import Block, Chunk, Samples, Window, consecutive_rows
from dbmd.engines import _gpu_streams
from dbmd.engines._gpu_device import Device, to_device
from dbmd.engines._gpu_samples import Beside, DeviceSamples, DeviceWindow, arranged, one_run, stored_type
from dbmd.engines._gpu_streams import Streamed, stream
from dbmd.engines._runs import Run, pieces_by_entries, row_ends
from dbmd.kernels._cuda import cupy
from dbmd.model.low_rank import LowRank

CHUNK = 16  # a chunk that is not a view takes at most this part of the memory of a device
READY = 4  # samples are kept once more if so many times their size are free


def on_device(block: Any, device: Device, budget: float) -> Any:
    """Return a block for the device: copied there if that takes no more than the budget, in bytes, else a stream.

    What is no block of samples that a device can take is returned as it is.
    """
    if not isinstance(block, Samples) or (isinstance(block, Block) and isinstance(block.Xt, LowRank)):
        return block
    chunk_bytes = device.memory // CHUNK
    if not isinstance(block, Block):
        return Streamed(block, device, min(_gpu_streams.WINDOW_BYTES, chunk_bytes))
    if not is_here(block.Xt):
        return _given(block, device, chunk_bytes)
    if _bytes_on_device(block) <= budget:
        return _resident(block, device, chunk_bytes)
    return stream(block, device, chunk_bytes)


def bytes_taken(block: Any) -> float:
    """Return how many bytes the samples of a block take that were copied to the device; zero if they were not."""
    is_copy = isinstance(block, Resident) and isinstance(block.host, Block) and is_here(block.host.Xt)
    return _bytes_on_device(block.host) if is_copy else 0.0


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

    def chunks(self, shift: NDArray[np.float64] | None = None) -> Iterator[Chunk]:
        """Yield the samples, minus a shift of shape (m,) if given, in chunks of one source each."""
        if shift is None and not self.is_sparse and self.Xt.dtype == self.dtype:
            return iter(self._views)
        return super().chunks(shift)

    @cached_property
    def _views(self) -> list[Chunk]:
        """The samples as they are, in chunks of one source each. To find them delays the first kernel of a pass."""
        return [*super().chunks()]

    def windows(self) -> Iterator[Window]:
        """Yield the samples: all at once, or one of the matrices after the other."""
        if not self.is_sparse:
            yield DeviceWindow.of(self.Xt, self.runs, 0, self.beside, self.size)
            return
        for run, Xt in zip(self.runs, self.Xt, strict=True):
            yield one_run(Xt, run, self.beside)

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
        host, is_small = self.host, self.is_sparse or self.chunk_bytes <= _gpu_streams.WINDOW_BYTES
        if isinstance(host, Block) and is_here(host.Xt) and is_small:
            return stream(host, self.device, self.chunk_bytes)
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


def _resident(block: Block, device: Device, chunk_bytes: int) -> Resident:
    """Return a block of the host, copied to the device."""
    runs, order, beside = arranged(block)
    Xt, stored = block.Xt, stored_type(block)
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
    runs, order, beside = arranged(block)
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


def _bytes_on_device(block: Block) -> float:
    stored, (n, m) = stored_type(block).itemsize, block.shape
    return float(block.Xt.nnz * (stored + 4) + 4 * n) if is_sparse(block.Xt) else float(n) * m * stored
