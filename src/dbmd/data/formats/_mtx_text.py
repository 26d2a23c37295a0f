"""The text of Matrix Market files: a banner, comments, the size, and a line for each entry.

SciPy's reader crashes on some malformed files, and truncates fractions where integers are announced. Here, pyarrow's
reader of csv parses the entries, a block of them at a time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from scipy import sparse

from dbmd.data.compression import open_decompressed
from dbmd.data.formats._held import narrowed
from dbmd.data.location import Location
from dbmd.errors import DataError

FIELDS = {"real": pa.float64(), "double": pa.float64(), "integer": pa.int64(), "unsigned-integer": pa.uint64()}
FIELDS |= {"pattern": None}
SYMMETRIES = ("general", "symmetric", "skew-symmetric")
BLOCK_BYTES = 1 << 20
MOST_LINE = 1 << 16  # bytes of a line before the entries


class Head(NamedTuple):
    """What a file says before its entries.

    Attributes
    ----------
    rows, columns, entries : int
        Size of the matrix, and number of the entries that are stored.
    is_sparse : bool
        Whether only some entries are there, with their row and column.
    field, symmetry : str
        Type of the entries; which of them are not stored, since they follow from others.
    lines : int
        Number of the lines before the entries.
    """

    rows: int
    columns: int
    entries: int
    is_sparse: bool
    field: str
    symmetry: str
    lines: int


def read_head(location: Location) -> Head:
    """Return what a file says before its entries."""
    with io.BufferedReader(open_decompressed(location)) as stream:
        return _head(location, stream)


def read_matrix(location: Location) -> Any:
    """Return the matrix of a file, shape (rows, columns), as an array or a CSR array. Whole numbers are narrow."""
    with io.BufferedReader(open_decompressed(location)) as stream:
        head = _head(location, stream)
        blocks = list(_blocks(location, stream, head))
    return _sparse(head, blocks) if head.is_sparse else _dense(head, blocks)


def _head(location: Location, stream: Any) -> Head:
    """Return what a file says before its entries, and leave the stream at the first of them."""
    banner = stream.readline(MOST_LINE).decode("latin-1").lower().split()
    kinds = {"coordinate": True, "array": False}
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"] or banner[2] not in kinds:
        raise DataError(
            f"{location}: must begin with '%%MatrixMarket matrix', then coordinate or array, a type and a symmetry."
        )
    is_sparse, field, symmetry = kinds[banner[2]], banner[3], banner[4]
    if field not in FIELDS or symmetry not in SYMMETRIES or (field == "pattern" and not is_sparse):
        raise DataError(
            f"{location}: must hold real numbers of a matrix that is {', '.join(SYMMETRIES[:-1])} or {SYMMETRIES[-1]}. "
            f"Got {field} and {symmetry}."
        )
    lines, size, is_whole = 1, b"%", True
    while size and (not size.strip() or size.startswith(b"%")):
        piece = stream.readline(MOST_LINE)
        size, lines = (piece, lines + 1) if is_whole else (size, lines)  # a long comment comes in pieces
        is_whole = not piece or piece.endswith(b"\n")
    numbers = [int(each) for each in re.findall(rb"(?<!\S)\d{1,18}(?!\S)", size)]
    if len(numbers) != len(size.split()) or len(numbers) != (3 if is_sparse else 2):
        what = "rows, columns and entries" if is_sparse else "rows and columns"
        raise DataError(f"{location}: line {lines} must have the numbers of {what}.")
    rows, columns, *entries = numbers
    if symmetry != "general" and rows != columns:
        raise DataError(f"{location}: a matrix that is {symmetry} must be square. Got {rows:,} x {columns:,}.")
    stored = rows * columns
    if symmetry != "general":
        stored = rows * (rows + 1) // 2 if symmetry == "symmetric" else rows * (rows - 1) // 2
    return Head(rows, columns, entries[0] if is_sparse else stored, is_sparse, field, symmetry, lines)


def _blocks(location: Location, stream: Any, head: Head) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield entries: rows and columns from 0, if the matrix is sparse, and values, each of shape (some,)."""
    kind = FIELDS[head.field]
    types = {"row": pa.int64(), "column": pa.int64()} if head.is_sparse else {}
    types |= {} if kind is None else {"value": kind}
    count = 0
    try:
        reader = arrow_csv.open_csv(
            _with_single_spaces(stream),
            arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=list(types)),
            arrow_csv.ParseOptions(delimiter=" ", quote_char=False),
            arrow_csv.ConvertOptions(column_types=types, null_values=[]),
        )
        for batch in reader:
            where = [batch.column(name).to_numpy() for name in ("row", "column") if head.is_sparse]
            for numbers, most in zip(where, (head.rows, head.columns), strict=False):
                wrong = np.flatnonzero((numbers < 1) | (numbers > most))
                if len(wrong):
                    line = head.lines + 1 + count + int(wrong[0])
                    raise DataError(f"{location}: line {line} has an entry outside of {_size(head)}.")
            count += batch.num_rows
            values = np.ones(batch.num_rows, np.int8) if kind is None else batch.column("value").to_numpy()
            yield *(_index(each, head) for each in where), narrowed(values)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise _explained(location, head, error) from error
    if count != head.entries:
        raise DataError(
            f"{location}: says that it has {head.entries:,} entries, and {count:,} are there. Copy or write it anew."
        )


def _with_single_spaces(stream: Any) -> Any:
    """Return a stream whose fields are separated by one space, which is what most files have anyway."""
    first = stream.peek(MOST_LINE).lstrip().partition(b"\n")[0].rstrip(b"\r")
    return stream if b" ".join(first.split()) == first else io.BufferedReader(_SingleSpaces(stream), BLOCK_BYTES)


class _SingleSpaces(io.RawIOBase):
    """A stream of lines without spaces at their ends, and with one space between fields."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream, self._left = stream, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to as many bytes as the buffer holds, and return how many; 0 at the end."""
        while not self._left and (text := self._stream.read(BLOCK_BYTES)):
            if not text.endswith(b"\n"):
                text += self._stream.readline(BLOCK_BYTES)  # whole lines, as far as they are lines of a matrix
            self._left = re.sub(rb"^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", text), flags=re.MULTILINE)
        data, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _index(numbers: NDArray[np.int64], head: Head) -> NDArray[Any]:
    return (numbers - 1).astype(np.int32 if max(head.rows, head.columns) < 2**31 else np.int64)


def _size(head: Head) -> str:
    return f"{head.rows:,} rows and {head.columns:,} columns"


def _explained(location: Location, head: Head, error: BaseException) -> DataError:
    """Return an error of pyarrow as a DataError with the line."""
    row = re.search(r"Row #(\d+)", str(error))
    what = "a whole number" if "integer" in head.field else "a number"
    fields = "" if not head.is_sparse else "a row and a column" + ("" if head.field == "pattern" else ", and ")
    return DataError(
        f"{location}: {f'line {head.lines + int(row[1])}' if row else 'each line'} must have "
        f"{fields}{'' if head.field == 'pattern' else what}, with spaces between them. Copy or write it anew."
    )


def _sparse(head: Head, blocks: list[Any]) -> Any:
    """Return the entries as a CSR array."""
    shape = head.rows, head.columns
    if not blocks:
        return sparse.csr_array(shape, dtype=np.uint8 if FIELDS[head.field] != pa.float64() else np.float64)
    rows, columns, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    if head.symmetry != "general":
        off = rows != columns
        mirrored = values[off].astype(np.result_type(values, np.int16)) if head.symmetry != "symmetric" else values[off]
        mirrored = -mirrored if head.symmetry == "skew-symmetric" else mirrored
        rows, columns = np.append(rows, columns[off]), np.append(columns, rows[: len(off)][off])
        values = np.append(values, mirrored)
    found = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape))
    if found.nnz < len(values):  # entries that are there twice are summed, which may need a wider type
        wide = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
        found = sparse.csr_array(sparse.coo_array((wide, (rows, columns)), shape))
    found.data = narrowed(found.data)
    return found


def _dense(head: Head, blocks: list[Any]) -> NDArray[Any]:
    """Return the entries, which are stored column by column, as an array."""
    values = np.concatenate([each for (each,) in blocks]) if blocks else np.zeros(0)
    if head.symmetry == "general":
        return narrowed(np.ascontiguousarray(values.reshape(head.columns, head.rows).T))
    found = np.zeros((head.rows, head.columns), np.result_type(values, np.int16))
    columns, rows = np.triu_indices(head.rows, 0 if head.symmetry == "symmetric" else 1)  # below the diagonal
    found[rows, columns] = values
    found[columns, rows] = values if head.symmetry == "symmetric" else -found[rows, columns]
    return narrowed(found)
