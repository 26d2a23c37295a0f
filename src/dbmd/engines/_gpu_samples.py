"""Samples on a GPU, in runs of one source each: what kept and streamed ones have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_sparse, to_host
from dbmd.data.block import Block, Chunk, Rows, Samples, Window
from dbmd.engines._gpu_device import Device
from dbmd.engines._runs import LEAST_ROWS, Run, pieces, rows_within, runs_of
from dbmd.kernels._cuda import cupy


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
            if start == 0 and stop == self.Xt.shape[0] and shift is None and self.Xt.dtype == dtype:
                Xt = self.Xt  # each step here delays the first kernel of a pass
            elif is_sparse(self.Xt):  # the same object in every pass: the kernel keeps what it finds out about it
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


def one_run(Xt: Any, run: Run, beside: Beside) -> DeviceWindow:
    """Return a window of all rows of a run, with its part of what there is for each row."""
    n = run.stop - run.start
    return DeviceWindow.of(Xt, [Run(0, n, run.source_code)], run.start, beside.part(run.start, run.stop), max(n, 1))


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


def arranged(block: Block) -> tuple[list[Run], NDArray[np.intp] | None, Beside]:
    """Return the runs of a block, the order of its rows, and what there is for each, in that order."""
    codes = block.source_codes if isinstance(block.source_codes, int) else to_host(block.source_codes)
    runs, order = runs_of(codes, block.shape[0])
    return runs, order, Beside.of(order, block.class_codes, block.weights, order)


def stored_type(block: Block) -> np.dtype[Any]:
    """Return the type of a block's numbers on the device: their own, if it is narrower than what is computed with."""
    own = block.Xt.dtype
    narrow = own.kind in "biuf" and own.itemsize < block.dtype.itemsize and not is_sparse(block.Xt)
    return own.newbyteorder("=") if narrow else block.dtype
