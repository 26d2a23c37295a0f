"""csv and tsv, with or without a header, compressed or not, read by pyarrow's streaming reader."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dbmd.data import compression
from dbmd.data.compression import open_decompressed
from dbmd.data.formats._arrow import number_type, to_batch
from dbmd.data.formats._csv_layout import MOST_LINE, ROW_NAMES, find_layout, is_number
from dbmd.data.formats._reader import Batch, Reader, common_type, damaged
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = tuple(name + packed for name in (".csv", ".tsv", ".txt") for packed in ("", *compression.SUFFIXES))
MISSING = set(arrow_csv.ConvertOptions().null_values)  # text for a missing number: empty, NA, NaN, ...
BLOCK_BYTES = 1 << 20  # of text, parsed at a time; the best of 1, 4, 8 and 32 MB


def open_file(
    location: Location,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    memory: int = DEFAULT_MEMORY,
    **hints: Any,
) -> Reader:
    """Open a table in text form.

    Parameters
    ----------
    location : Location
        The file.
    header : bool, optional
        Whether the first line has the names of the columns. By default it has if none of its fields is a number, or if
        they are 0, 1, 2 and so on. Without a header, columns are called 0, 1, ... A header that is one field shorter
        than the rows, as R writes it, has no name for the first column, which has the names of the rows.
    delimiter : str, optional
        What separates fields. By default that of comma, semicolon, tab and bar which is most frequent in the first
        line, or a space if it has none of them.
    memory : int
        Bytes, which limit the number of columns.
    """
    return Csv(location, header, delimiter, memory)


class Csv(Reader):
    """A table in text form."""

    def __init__(self, location: Location, header: bool | None, delimiter: str | None, memory: int) -> None:
        self.location = location
        try:
            with self._stream() as stream:
                layout = find_layout(location, stream, header, delimiter, memory)
        except OSError as error:
            raise self._explained(error) from error
        self.delimiter, self.names, self.header_lines, has_row_names, line_bytes = layout
        self.index = (ROW_NAMES,) if has_row_names else ()
        self.block_bytes = max(BLOCK_BYTES, min(32 * line_bytes, MOST_LINE))
        with self._reader({}) as reader:
            kinds = {field.name: number_type(field.type) for field in reader.schema}
            empty = {field.name for field in reader.schema if pa.types.is_null(field.type)}
        # The types are those of the first block: 1 there may be followed by 1.5 further down.
        self.columns = {
            name: np.dtype(np.float64) if name in empty or (kind is not None and kind.kind in "iuf") else kind
            for name, kind in kinds.items()
        }
        if has_row_names and self.columns[ROW_NAMES] is None:  # names, not numbers
            self.row_names = ROW_NAMES

    def where(self, row: int) -> str:
        """Return the line of a row. Empty lines and line breaks in quotes are counted."""
        before, is_quoted = -1, False
        # If a damaged stream ends before the row, count as if each line were a row.
        with suppress(OSError), io.BufferedReader(self._stream()) as lines:
            number, begins = 1, True
            while piece := lines.readline(BLOCK_BYTES):  # a line, or a part of a very long one
                is_row = number > self.header_lines
                if begins and is_row and not is_quoted and piece.strip(b"\r\n"):
                    before += 1
                    if before == row:
                        return f"line {number}"
                is_quoted ^= is_row and piece.count(b'"') % 2 == 1
                begins = piece.endswith(b"\n")
                number += begins
        return f"line {row + 1 + self.header_lines}"

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of the whole file; columns in others that are not features are read as text."""
        types = {name: pa.bool_() if self.columns[name] == np.bool_ else pa.float64() for name in features}
        types = dict.fromkeys(others, pa.string()) | types
        dtype = common_type([self.columns[name] for name in features])
        with self._reader(types, list(dict.fromkeys((*features, *others)))) as reader:
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except (pa.ArrowInvalid, OSError) as error:
                    raise self._explained(error) from error
                if batch.num_rows:
                    yield to_batch(batch, features, others, dtype)

    def not_a_number(self, name: str) -> str:
        """Return the first value of a column that is not a number, and its line."""
        # As bytes: what is not text in UTF-8 is not a number either.
        with self._reader({name: pa.binary()}, [name]) as reader:
            for row, value in enumerate(reader.read_next_batch().column(0).to_pylist()):
                value = value.decode(errors="backslashreplace")
                if value not in MISSING and not is_number(value):
                    return f"{value!r} in {self.where(row)}"
        return ""

    def _reader(self, types: dict[str, Any], wanted: Sequence[str] | None = None) -> Any:
        read = arrow_csv.ReadOptions(
            # With one thread, errors have a line number; more are no faster here.
            use_threads=False,
            block_size=self.block_bytes,
            column_names=self.names,
            skip_rows=self.header_lines,
        )
        parse = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        # Text is not interpreted: a source may be called NA.
        convert = arrow_csv.ConvertOptions(column_types=types, include_columns=wanted, strings_can_be_null=False)
        try:
            return arrow_csv.open_csv(self._stream(), read, parse, convert)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._explained(error) from error

    def _stream(self) -> Any:
        return open_decompressed(self.location)

    def _explained(self, error: BaseException) -> DataError:
        """Return an error of pyarrow as a DataError with the line, the column and a remedy."""
        text = str(error).split("\n")[0]
        line = re.search(r"Row #(\d+)", text)
        where = f"{self.location}: {self.where(int(line[1]) - self.header_lines - 1)}" if line else str(self.location)
        if fields := re.search(r"Expected (\d+) columns, got (\d+)", text):
            return DataError(f"{where} has {fields[2]} fields where there should be {fields[1]}, as in line 1.")
        if value := re.search(r"column #(\d+):.*invalid value '(.*)'", text):
            name = self.names[int(value[1])] if int(value[1]) < len(self.names) else value[1]
            return DataError(
                f"{where}, column {name!r} has {value[2]!r} where there should be a number. "
                "Correct it, or leave the column out with drop=."
            )
        if "invalid UTF8" in text:
            return DataError(f"{where} is not text in UTF-8.")
        if "Could not skip initial" in text:
            return DataError(f"{self.location}: has no rows.")
        if "straddling" in text:
            return DataError(
                f"{self.location}: has a row of more than {self.block_bytes:,} bytes. "
                "Has it a quote that is never closed, or is this no csv file?"
            )
        return damaged(self.location, "csv", error)
