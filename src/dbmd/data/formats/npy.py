"""NumPy's own format, memory-mapped if the file is on this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from dbmd._utils.npy import read_header
from dbmd.data.formats._array_shape import array_shape
from dbmd.data.formats._reader import Batch, NumberedColumns, Reader, batch_rows
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".npy",)


def open_file(location: Location, *, transpose: bool = False, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open an array of shape (n, m), or (height, width, m), in C or Fortran order. Its columns are called 0, 1, ...

    Transposed, it is of shape (m, n), or (m, height, width).
    """
    return Npy(location, memory, transpose=transpose)


class Npy(Reader):
    """An array in a file of its own."""

    seekable_rows = None

    def __init__(self, location: Location, memory: int, *, transpose: bool) -> None:
        self.location, self.is_transposed = location, transpose
        with location.open() as file:
            self.stored_shape, is_fortran, self.dtype = read_header(file)
            self.offset, size = file.tell(), file.size()
        shape = self.stored_shape
        self.n_rows, self.n_columns, self.map_shape = array_shape(
            location, shape, self.dtype, memory, transpose=transpose
        )
        if size < self.offset + math.prod(shape) * self.dtype.itemsize:
            raise DataError(
                f"{location}: is cut short. An array of shape {shape} and type {self.dtype} takes "
                f"{self.offset + math.prod(shape) * self.dtype.itemsize} bytes, the file has {size}."
            )
        self.shape = self.n_rows, self.n_columns
        # Transposing changes only what the numbers in the file are taken for; but in Fortran order, the pixels of a
        # picture follow each other column by column.
        self.by_lines = is_fortran and self.map_shape is not None
        self.is_fortran = is_fortran != transpose
        if self.by_lines and location.local is None:
            raise DataError(
                f"{location}: is a picture in Fortran order, which is read from a file on this machine only. Save it "
                "in C order: numpy.save(path, numpy.ascontiguousarray(array))."
            )
        self.columns = NumberedColumns(self.n_columns, self.dtype)
        self.decodes = location.local is None or self.by_lines

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield views of the memory map, or pieces of a remote file."""
        import pyarrow as pa

        stop = self.shape[0] if stop is None else stop
        wanted = [int(name) for name in features]
        everything = wanted == list(range(self.n_columns))
        step = batch_rows(self.dtype, self.n_columns)
        for i in range(start, stop, step):
            rows = self._rows(i, min(i + step, stop))
            Xt = rows if everything else rows[:, wanted]
            yield Batch(Xt, {name: pa.array(_native(rows[:, int(name)])) for name in others})

    def _map(self, shape: tuple[int, ...], order: Literal["F", "C"] | None = None) -> Any:
        order = order or ("F" if self.is_fortran else "C")
        return np.memmap(self.location.path, self.dtype, "r", self.offset, shape, order).view(np.ndarray)

    def _pixels(self, start: int, stop: int) -> Any:
        """Return pixels of a picture in Fortran order: from some lines of it, which are copied."""
        assert self.map_shape is not None
        cube, width = self._map(self.stored_shape, "F"), self.map_shape[1]
        cube = np.moveaxis(cube, 0, 2) if self.is_transposed else cube
        first, last = start // width, -(-stop // width)
        lines = cube[first:last].reshape((last - first) * width, self.n_columns)
        return lines[start - first * width : stop - first * width]

    def _rows(self, start: int, stop: int) -> Any:
        if self.location.local is not None:
            # Mapped again for every piece, so that pages that were read do not count as memory of this process.
            return self._pixels(start, stop) if self.by_lines else self._map(self.shape)[start:stop]
        size, rows = self.dtype.itemsize, stop - start
        with self.location.open() as file:
            if not self.is_fortran:
                file.seek(self.offset + start * self.n_columns * size)
                return self._numbers(file, rows * self.n_columns).reshape(rows, self.n_columns)
            out = np.empty((rows, self.n_columns), self.dtype, order="F")
            for j in range(self.n_columns):
                file.seek(self.offset + (j * self.shape[0] + start) * size)
                out[:, j] = self._numbers(file, rows)
            return out

    def _numbers(self, file: Any, count: int) -> Any:
        data = file.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            raise DataError(f"{self.location}: cannot be read (it ends too early).")
        return np.frombuffer(data, self.dtype)


def _native(column: Any) -> Any:
    """Return a column as a contiguous array in the byte order of this machine, which Arrow requires."""
    return np.ascontiguousarray(column, column.dtype.newbyteorder("="))
