"""Parquet: a file; a folder of files, hive-partitioned or not, is several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dbmd.data.formats._arrow import in_one_piece, number_type, to_batch, with_column
from dbmd.data.formats._reader import Batch, Reader, batch_rows, check_width, common_type, first_twice
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".parquet", ".pq", ".parq")
GROUP_BYTES = 64_000_000  # row groups up to this size are decoded whole, twice as fast as piece by piece
COLUMNS_BYTES = 8_000_000  # of the columns of such a row group that are decoded together


def open_file(location: Location, *, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open a Parquet file; the folders ``name=value`` of its path are columns, too."""
    return Parquet(location, memory)


class Parquet(Reader):
    """A Parquet file."""

    def __init__(self, location: Location, memory: int) -> None:
        self.location = location
        with location.open() as file:
            parquet = pq.ParquetFile(file)
            schema, metadata = parquet.schema_arrow, parquet.metadata
            names = schema.names
        check_width(location, len(names), memory)
        if (twice := first_twice(names)) is not None:
            raise DataError(f"{location}: column {twice!r} occurs twice. Rename one of them.")
        self.constants = {name: _constant(value) for name, value in location.constants.items()}
        self.columns = {name: number_type(schema.field(name).type) for name in names}
        self.columns |= {name: number_type(kind) for name, (_, kind) in self.constants.items()}
        # Where pandas stores the index of a table.
        self.index = tuple(name for name in schema.names if re.fullmatch(r"__index_level_\d+__", name))
        self.n_rows = metadata.num_rows
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        edges = np.concatenate([[0], np.cumsum(sizes, dtype=int)])
        self.groups = edges[:-1].tolist()
        self.seekable_rows = self.groups or [0]

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches, decoded row group by row group."""
        stop = int(self.n_rows or 0) if stop is None else stop
        dtype = common_type([self.columns[name] for name in features])
        groups = [i for i, first in enumerate(self.groups) if start <= first < stop]
        with self.location.open() as file:
            # Buffered: otherwise a column of a row group is read in one piece, however large it is.
            parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16)
            for group in groups:
                # The decoded size: runs of equal values take almost no space in the file.
                size = parquet.metadata.row_group(group).num_rows * len(features) * dtype.itemsize
                decode = self._decode_whole if size <= GROUP_BYTES else self._decode_pieces
                yield from decode(parquet, group, features, others, dtype)

    def _decode_whole(
        self, parquet: Any, group: int, features: Sequence[str], others: Sequence[str], dtype: np.dtype[Any]
    ) -> Iterator[Batch]:
        """Decode a row group, some columns at a time: decoders need several times the memory of their output."""
        rows = parquet.metadata.row_group(group).num_rows
        Xt = np.empty((rows, len(features)), dtype, order="F")
        step = max(1, COLUMNS_BYTES // max(1, rows * dtype.itemsize))
        for first in range(0, len(features), step):
            names = features[first : first + step]
            table = self._with_constants(parquet.read_row_group(group, self._stored(names), use_threads=False), names)
            for j, name in enumerate(names, first):
                Xt = with_column(Xt, j, table.column(name))
        table = parquet.read_row_group(group, self._stored(others), use_threads=False)
        table = self._with_constants(table, others, as_text=True)
        yield Batch(Xt, {name: in_one_piece(table.column(name)) for name in others})

    def _decode_pieces(
        self, parquet: Any, group: int, features: Sequence[str], others: Sequence[str], dtype: np.dtype[Any]
    ) -> Iterator[Batch]:
        """Decode some rows of a large row group at a time."""
        columns = self._stored([*features, *others])
        rows = batch_rows(dtype, len(features))
        for batch in parquet.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            table = self._with_constants(pa.Table.from_batches([batch]), features)
            named = [name for name in others if name not in features]
            yield to_batch(self._with_constants(table, named, as_text=True), features, others, dtype)

    def _stored(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name not in self.constants]

    def _with_constants(self, table: Any, names: Sequence[str], *, as_text: bool = False) -> Any:
        """Append the columns that are in names of folders: as numbers, or as text for sources and the like."""
        for name in dict.fromkeys(names):
            if name in self.constants:
                value, kind = self.constants[name]
                scalar = pa.scalar(self.location.constants[name]) if as_text else pa.scalar(value, kind)
                table = table.append_column(name, pa.repeat(scalar, table.num_rows))
        return table


def _constant(value: str) -> tuple[Any, Any]:
    """Return the value in the name of a folder and its type: a number if it is 10 or 2.5, text if 01, 1_0 or 1e3."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value):  # as many digits as int64 holds
        return int(value), pa.int64()
    if re.fullmatch(r"-?\d+\.\d+", value):
        return float(value), pa.float64()
    return value, pa.string()
