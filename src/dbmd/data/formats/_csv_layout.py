"""The layout of a table in text form, from its first two lines: delimiter, header, names of columns."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from dbmd.data.formats._reader import check_width, first_twice
from dbmd.data.location import Location
from dbmd.errors import DataError

DELIMITERS = ",;\t|"  # and a space, where the first two lines have no other
MOST_LINE = 1 << 26  # bytes of a line
COLUMN_BYTES = 5_000  # that pyarrow needs for a column at least, however few rows there are
ROW_NAMES = "unnamed_0"  # what a first column without a name is called


class Layout(NamedTuple):
    """How a table is written.

    Attributes
    ----------
    delimiter : str
        What separates fields.
    names : list of str
        Names of all columns.
    header_lines : int
        Number of lines before the first row.
    has_row_names : bool
        Whether the first column, which has no name, numbers or names the rows.
    line_bytes : int
        Length of the first line.
    """

    delimiter: str
    names: list[str]
    header_lines: int
    has_row_names: bool
    line_bytes: int


def find_layout(location: Location, stream: Any, header: bool | None, delimiter: str | None, memory: int) -> Layout:
    """Return the layout of a table. Raises a DataError if it cannot be told; an OSError of the stream may pass.

    Parameters
    ----------
    location : Location
        The file, for error messages.
    stream : file
        Its text, from the beginning.
    header : bool, optional
        Whether the first line has the names of the columns; None: to be found out.
    delimiter : str, optional
        What separates fields; None: to be found out.
    memory : int
        Bytes, which limit the number of columns.
    """
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        raise DataError(
            f"The delimiter must be one character of ASCII, no quote or line break. Got {delimiter!r}. "
            "A tab is written $'\\t' in a shell."
        )
    head = _Head(location, stream)
    line, second = head.lines(delimiter or DELIMITERS)
    if delimiter is None:
        delimiter = _delimiter(location, line, second)
        if delimiter not in DELIMITERS:
            line, second = head.lines(delimiter)  # where quotes stand after spaces
    check_width(location, line.count(delimiter) + 1, memory, COLUMN_BYTES)
    names = _fields(line, delimiter)
    if names is None:
        raise DataError(
            f"{location}: line 1 has a field of more than {csv.field_size_limit():,} characters, which is too long "
            "for a name or a number. Is this no csv file, or is the delimiter another (delimiter=)?"
        )
    row = _fields(second, delimiter) or []
    is_short = header is not False and len(row) == len(names) + 1
    if is_short:
        _check_row_names(location, line, names, second, row, header)
    else:
        header = _has_names(location, names) if header is None else header
    header_lines = len(io.StringIO(line, newline="").readlines()) if header or is_short else 0
    names = ["", *names] if is_short else names if header else [str(i) for i in range(len(names))]
    # A table written with its row numbers, or by R with the names of its rows, has no name for that column.
    has_row_names = not names[0].strip()
    names = [name.strip() or f"unnamed_{i}" for i, name in enumerate(names)]
    if (twice := first_twice(names)) is not None:
        raise DataError(f"{location}: column {twice!r} occurs twice in the header. Rename one of them.")
    return Layout(delimiter, names, header_lines, has_row_names, len(line))


def is_number(field: str) -> bool:
    """Return whether text is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _has_names(location: Location, fields: Sequence[str]) -> bool:
    """Return whether the fields of the first line are names: none is a number, or they are 0, 1, 2 and so on."""
    # Which is what pandas calls columns without names.
    if len(fields) > 1 and list(fields) == [str(i) for i in range(len(fields))]:
        return True
    if not any(map(is_number, fields)):
        return True
    if _may_be_names(fields):
        shown = ", ".join(fields[:4]) + (", ..." if len(fields) > 4 else "")
        warnings.warn(
            f"{location}: line 1 ({shown}) is taken for a sample, as it has numbers. If these are the names of the "
            "columns, say so with header=True, if not with header=False.",
            stacklevel=2,
        )
    return False


def _check_row_names(
    location: Location, line: str, names: Sequence[str], second: str, row: Sequence[str], header: bool | None
) -> None:
    """Raise a DataError if a header that is one field short may be something else than one that R wrote.

    R's ``write.table`` writes the names of the rows as a first column, for which there is no name in the header.
    """
    what = f"{location}: line 2 has {len(row)} fields where there should be {len(names)}, as in line 1."
    if not row[-1]:
        raise DataError(
            f"{what} Its last field is empty: remove the delimiters at the ends of lines, or, if the first column has "
            'the names of the rows, begin line 1 with a delimiter, or with "".'
        )
    has_names = line.startswith('"') or not any(map(is_number, names))
    # A comma may be a decimal mark, and a name in the header may have been lost: rows that are numbered begin with 1.
    has_row_names = second.startswith('"') or not is_number(row[0]) or (row[0] == "1" and len(names) > 1)
    if not header and not (has_names and has_row_names):
        raise DataError(
            f"{what} If the first column has the names of the rows, and line 1 those of all other columns, as R writes "
            "tables, say so with header=True."
        )


class _Head:
    """The beginning of a file, read as far as it is needed.

    Parameters
    ----------
    location : Location
        The file, for error messages.
    stream : file
        Its text.
    """

    def __init__(self, location: Location, stream: Any) -> None:
        self._location, self._stream, self._text, self._is_all = location, stream, b"", False

    def lines(self, delimiters: str) -> tuple[str, str]:
        """Return the first line, and the next that is not empty, or "" if there is none that can be read."""
        end = self._end(0, delimiters, MOST_LINE)
        if end is None:
            raise DataError(
                f"{self._location}: line 1 does not end within {len(self._text):,} bytes. "
                "Has it a quote that is never closed, or is this no csv file?"
            )
        try:
            line = self._text[:end].decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError(f"{self._location}: is not text in UTF-8.") from None
        if not line.strip():
            raise DataError(f"{self._location}: {'line 1' if self._text.strip() else 'the file'} is empty.")
        start = end
        while self._text[start : start + 1] in (b"\r", b"\n") or (start == len(self._text) and self._read(1 << 16)):
            start += start < len(self._text) and self._text[start] in b"\r\n"
        # As long as a row of the same columns can be; if it is longer, or not text, reading says so.
        stop = self._end(start, delimiters, min(MOST_LINE, (1 << 16) + 64 * len(line)))
        try:
            return line, self._text[start:stop].decode() if stop is not None else ""
        except UnicodeDecodeError:
            return line, ""

    def _end(self, start: int, delimiters: str, most: int) -> int | None:
        """Return where the line that begins at start ends; None if not within so many bytes."""
        while True:
            if len(self._text) > start or self._is_all:
                end = _end_of_line(self._text[start:], delimiters, is_all=self._is_all)
                if end is not None:
                    return start + end
            if self._is_all or len(self._text) - start > most:
                return None
            # Doubled: the search starts again from the top.
            self._read(min(max(len(self._text), 1 << 16), MOST_LINE + 1 + start - len(self._text)))

    def _read(self, size: int) -> bool:
        """Read up to so many bytes more, and return whether there were any."""
        more = b"" if self._is_all else self._stream.read(size)
        self._text, self._is_all = self._text + more, not more
        return bool(more)


def _delimiter(location: Location, line: str, second: str) -> str:
    """Return what separates fields: the most frequent of some in line 1, or a space where only that fits line 2."""
    found = _most_frequent(DELIMITERS, line.encode())
    one, two = (len(_fields(each, found) or ()) for each in (line, second))
    if two > 1 or not second:
        return found
    if one == 1:  # one name, below which R may have written two fields
        other = next((each for each in DELIMITERS if len(_fields(second, each) or ()) == 2), None)
        if other is not None:
            return other
    names, row = (_fields(each, " ") or [] for each in (line, second))
    if len(row) > 1 and len(row) - len(names) in (0, 1) and all(row):
        return " "
    one, words = len(line.split()), second.split()
    if len(words) > 1 and len(words) - one in (0, 1) and all(map(is_number, words[1:])):
        raise DataError(
            f"{location}: line 2 has several spaces between its fields. There must be one delimiter between two "
            "fields: write a comma or a tab there."
        )
    return found


def _fields(line: str, delimiter: str) -> list[str] | None:
    """Return the fields of a line; None if one of them is too long."""
    try:
        return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return None


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
