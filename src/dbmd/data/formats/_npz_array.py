"""Archives of ``numpy.savez`` that hold a single array."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from dbmd._utils.npy import read_header
from dbmd.data.formats._array_shape import array_shape
from dbmd.data.formats._held import Held, check_size
from dbmd.data.formats._reader import Batch, NumberedColumns, Reader, batch_rows
from dbmd.data.location import Location
from dbmd.errors import DataError

WHY = "An array in an archive that is transposed or in Fortran order is held: save it with numpy.save, as .npy"


def open_array(location: Location, archive: zipfile.ZipFile, member: str, memory: int, *, transpose: bool) -> Reader:
    """Return a reader of an array of shape (n, m), or (height, width, m); see :func:`.npy.open_file`."""
    with archive.open(member) as stream:
        shape, is_fortran, dtype = read_header(stream)
    n, m, map_shape = array_shape(location, shape, dtype, memory, transpose=transpose)
    size = math.prod(shape) * dtype.itemsize
    if archive.getinfo(member).file_size < size:
        raise DataError(
            f"{location}: is cut short. An array of shape {shape} and type {dtype} takes {size} bytes, "
            f"{member} has {archive.getinfo(member).file_size}."
        )
    reader: Streamed | Whole = Whole() if is_fortran or transpose else Streamed()
    dtype = dtype.newbyteorder("=") if isinstance(reader, Whole) else dtype
    reader.location, reader.member, reader.dtype = location, member, dtype
    reader.n_rows, reader.map_shape, reader.columns = n, map_shape, NumberedColumns(m, dtype)
    reader.is_transposed = transpose
    if isinstance(reader, Whole):
        check_size(location, size, memory, WHY)
    return reader


class Streamed(Reader):
    """An array in C order in an archive: its rows are a stream, read from the top."""

    member: str
    dtype: np.dtype[Any]

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of the whole array."""
        import pyarrow as pa

        wanted, m = [int(name) for name in features], len(self.columns)
        everything, step = wanted == list(range(m)), batch_rows(self.dtype, m)
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(self.location.open())))
            stream = stack.enter_context(archive.open(self.member))
            read_header(stream)
            for i in range(0, int(self.n_rows or 0), step):
                rows = min(step, int(self.n_rows or 0) - i)
                data = stream.read(rows * m * self.dtype.itemsize)
                if len(data) < rows * m * self.dtype.itemsize:
                    raise EOFError("it ends too early")
                Xt = np.frombuffer(data, self.dtype).reshape(rows, m)
                native = self.dtype.newbyteorder("=")
                columns = {name: pa.array(np.ascontiguousarray(Xt[:, int(name)], native)) for name in others}
                yield Batch(Xt if everything else Xt[:, wanted], columns)


class Whole(Held):
    """An array in an archive whose rows do not stand one after the other."""

    member: str

    def _load(self) -> Any:
        with self.location.open() as file, zipfile.ZipFile(file) as archive, archive.open(self.member) as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
        array = np.moveaxis(array, 0, -1) if self.is_transposed else array
        return array.reshape(int(self.n_rows or 0), len(self.columns)).astype(self.dtype, copy=False)
