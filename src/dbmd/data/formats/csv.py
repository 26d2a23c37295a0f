"""csv and tsv, with or without a header, compressed or not, read by pyarrow's streaming reader."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dbmd.data.formats._arrow import number_type, to_batch
from dbmd.data.formats._reader import Batch, Reader, check_width, common_type, damaged, first_twice
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SUFFIXES = tuple(name + packed for name in (".csv", ".tsv") for packed in ("", *CODECS))
DELIMITERS = ",;\t|"
MISSING = set(arrow_csv.ConvertOptions().null_values)  # text for a missing number: empty, NA, NaN, ...
BLOCK_BYTES = 1 << 20  # of text, parsed at a time; the best of 1, 4, 8 and 32 MB
MOST_LINE = 1 << 26  # bytes of a line
COLUMN_BYTES = 5_000  # that pyarrow needs for a column at least, however few rows there are


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
        they are 0, 1, 2 and so on. Without a header, columns are called 0, 1, ...
    delimiter : str, optional
        What separates fields. By default that of comma, semicolon, tab and bar which is most frequent in the first
        line.
    memory : int
        Bytes, which limit the number of columns.
    """
    return Csv(location, header, delimiter, memory)


class Csv(Reader):
    """A table in text form."""

    def __init__(self, location: Location, header: bool | None, delimiter: str | None, memory: int) -> None:
        self.location = location
        if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
            raise DataError(
                f"The delimiter must be one character of ASCII, no quote or line break. Got {delimiter!r}. "
                "A tab is written $'\\t' in a shell."
            )
        line = self._first_line(delimiter or DELIMITERS)
        self.delimiter = delimiter or _most_frequent(DELIMITERS, line.encode())
        check_width(location, line.count(self.delimiter) + 1, memory, COLUMN_BYTES)
        try:
            fields = next(csv.reader(io.StringIO(line, newline=""), delimiter=self.delimiter))
        except csv.Error:
            raise DataError(
                f"{location}: line 1 has a field of more than {csv.field_size_limit():,} characters, which is too long "
                "for a name or a number. Is this no csv file, or is the delimiter another (--delimiter)?"
            ) from None
        # 0, 1, 2 and so on is what pandas calls columns without names.
        numbered = len(fields) > 1 and fields == [str(i) for i in range(len(fields))]
        self.header = numbered or not any(_is_number(field) for field in fields) if header is None else header
        if header is None and not self.header and _may_be_names(fields):
            shown = ", ".join(fields[:4]) + (", ..." if len(fields) > 4 else "")
            warnings.warn(
                f"{location}: line 1 ({shown}) is taken for a sample, as it has numbers. If these are the names of the "
                "columns, say so with --header, if not with --no-header.",
                stacklevel=2,
            )
        self.header_lines = len(io.StringIO(line, newline="").readlines()) if self.header else 0
        self.names = fields if self.header else [str(i) for i in range(len(fields))]
        # A table written with its row numbers has no name for that column.
        self.index = ("unnamed_0",) if not self.names[0].strip() else ()
        self.names = [name.strip() or f"unnamed_{i}" for i, name in enumerate(self.names)]
        if (twice := first_twice(self.names)) is not None:
            raise DataError(f"{location}: column {twice!r} occurs twice in the header. Rename one of them.")
        self.block_bytes = max(BLOCK_BYTES, min(32 * len(line), MOST_LINE))
        with self._reader({}) as reader:
            kinds = {field.name: number_type(field.type) for field in reader.schema}
            empty = {field.name for field in reader.schema if pa.types.is_null(field.type)}
        # The types are those of the first block: 1 there may be followed by 1.5 further down.
        self.columns = {
            name: np.dtype(np.float64) if name in empty or (kind is not None and kind.kind in "iuf") else kind
            for name, kind in kinds.items()
        }

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
                if value not in MISSING and not _is_number(value):
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
        name = self.location.name.lower()
        codec = next((codec for packed, codec in CODECS.items() if name.endswith(packed)), None)
        file = self.location.open()
        return pa.CompressedInputStream(file, codec) if codec else file

    def _first_line(self, delimiters: str) -> str:
        """Return the first line, up to the first line break that is not in quotes."""
        start, end, size = b"", None, 1 << 16
        try:
            with self._stream() as stream:
                while end is None:
                    more = stream.read(size)
                    start += more
                    end = _end_of_line(start, delimiters, is_all=not more)
                    if end is None and (not more or len(start) > MOST_LINE):
                        raise DataError(
                            f"{self.location}: line 1 does not end within {len(start):,} bytes. "
                            "Has it a quote that is never closed, or is this no csv file?"
                        )
                    size = min(len(start), MOST_LINE + 1 - len(start))  # doubled: the search starts again from the top
        except OSError as error:
            raise self._explained(error) from error
        try:
            line = start[:end].decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{self.location}: is not text in UTF-8.") from None
        if not line.strip():
            raise DataError(f"{self.location}: {'line 1' if start.strip() else 'the file'} is empty.")
        return line

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
                "Correct it, or leave the column out with --drop."
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


def _most_frequent(delimiters: str, line: bytes) -> str:
    """Return the delimiter that is most frequent in a line, outside of quotes."""
    bare = b"".join(line[i:j] for i, j in _outside_quotes(line, delimiters))
    return max(delimiters, key=lambda delimiter: bare.count(delimiter.encode()))


def _end_of_line(text: bytes, delimiters: str, *, is_all: bool) -> int | None:
    """Return the position of the first line break that is not in quotes; None if there is none."""
    j = 0
    for i, j in _outside_quotes(text, delimiters):
        if found := re.compile(rb"[\r\n]").search(text, i, j):
            return found.start()
    return len(text) if is_all and j == len(text) else None


def _outside_quotes(text: bytes, delimiters: str) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the text before, between and after fields in quotes, up to a quote that is never closed.

    A quote counts only at the start of a field: ``5" pipe`` is a field like any other.
    """
    in_quotes = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')
    begin = at = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    before = delimiters.encode()
    while (quote := text.find(b'"', at)) >= 0:
        at = quote + 1
        if quote == begin or text[quote - 1] in before:
            yield begin, quote
            field = in_quotes.match(text, quote)
            if field is None:
                return
            begin = at = field.end()
    yield begin, len(text)


def _may_be_names(fields: Sequence[str]) -> bool:
    """Return whether numbers look like names of columns: whole numbers in equal steps; if there are two, years."""
    if not all(re.fullmatch(r"[0-9]{1,9}", field) for field in fields):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(fields)}
    return len(steps) == 1 and steps != {0} and (len(fields) > 2 or all(1900 <= int(field) < 2100 for field in fields))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
