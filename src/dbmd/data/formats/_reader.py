"""What every format offers: batches of rows of an open file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.data.location import Location, Stamp
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError, first_line

COLUMN_BYTES = 200  # that a fit needs for a column at least: its name, and its entries of W and the statistics
BATCH_BYTES = 16_000_000  # of decoded numbers: large beside the cost of a call, small beside the memory


class Batch(NamedTuple):
    """Consecutive rows of a file.

    Attributes
    ----------
    Xt : array or CSR array of shape (rows, n_features)
        The numbers.
    others : dict of str to pyarrow.Array
        Columns that are not features, by name.
    """

    Xt: Any
    others: Mapping[str, Any]


class Reader(ABC):
    """An open file: its columns, and its rows, which can be read any number of times.

    A subclass sets the attributes and implements :meth:`_batches`.

    Attributes
    ----------
    location : Location
        The file.
    kind : str
        The name of its format.
    stamp : Stamp
        Its size and time when it was opened, by which a change is noticed.
    columns : dict of str to dtype or None
        The type of each column, in order; None if it does not hold numbers.
    annotations : tuple of str
        Names of columns that can be a source or a label, but never a feature (``obs`` of h5ad).
    index : tuple of str
        Columns that number or name the rows: features only if the user names them.
    row_names : str or None
        What the names of the rows are called (``obs_names`` of h5ad), read like a column; None if rows have none.
    n_rows : int or None
        Number of rows; None if it is known only after reading them all.
    seekable_rows : sequence of int, or None
        Rows where reading can start, such as the first of each row group. None: anywhere.
    decodes : bool
        Whether rows have to be decoded, which a thread of its own then does in advance.
    sparse : bool
        Whether batches are CSR.
    map_shape : tuple of int or None
        Height and width, if the rows are the pixels of a picture, line by line.
    is_oriented : bool
        Whether the format itself says what is a sample, so that the file is never transposed.
    is_transposed : bool
        Whether the rows are the columns of the file, because the user said so.
    """

    location: Location
    kind: str
    stamp: Stamp
    columns: Mapping[str, np.dtype[Any] | None]
    annotations: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    row_names: str | None = None
    n_rows: int | None = None
    seekable_rows: Sequence[int] | None = (0,)
    decodes: bool = True
    sparse: bool = False
    map_shape: tuple[int, int] | None = None
    is_oriented: bool = False
    is_transposed: bool = False

    def where(self, row: int) -> str:
        """Return how a person finds a row, given its number from 0."""
        return f"row {row + 1}"

    def not_a_number(self, name: str) -> str:
        """Return the first value of a column that is not a number and its row, for error messages; "" if not known."""
        return ""

    def read(
        self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield rows start to stop (None: to the end) in batches of bounded size.

        Raises a DataError if the file is not, or no longer, the one that was opened, or cannot be decoded.

        Parameters
        ----------
        start, stop : int
            The rows; start is one of ``seekable_rows``, stop one of them or the end.
        features : sequence of str
            Columns of numbers, in the order of the columns of ``Xt``.
        others : sequence of str
            Further columns, numbers or not.
        """
        self._check_unchanged()
        try:
            with as_data_error(self.location, self.kind):
                yield from self._batches(start, stop, features, others)
        except DataError:
            self._check_unchanged()  # the cause may be that the file was replaced meanwhile
            raise
        self._check_unchanged()

    @abstractmethod
    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield rows, as :meth:`read` does. Errors of libraries may pass: :meth:`read` turns them into DataErrors."""

    def _check_unchanged(self) -> None:
        if not self.location.stamp().is_of(self.stamp):
            raise DataError(
                f"{self.location}: has changed since it was opened. All passes must read the same rows: wait until it "
                "is written, or put back what it was, and start again."
            )


@contextmanager
def as_data_error(location: Location, kind: str) -> Iterator[None]:
    """Turn what a library that reads files raises into a DataError that names the file and a remedy."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # libraries raise errors of any type on damaged files
        raise damaged(location, kind, error) from error


def damaged(location: Location, kind: str, error: BaseException) -> DataError:
    """Return the error for a file that a library cannot read."""
    said = first_line(Exception(error.args[0])) if isinstance(error, KeyError) and error.args else first_line(error)
    return DataError(f"{location}: is not a sound {kind} file, or not a whole one: copy or write it anew ({said}).")


@dataclass(frozen=True)
class NumberedColumns(Mapping[str, "np.dtype[Any] | None"]):
    """Columns without names, called 0, 1, ...: a mapping of names to types that stores neither.

    Attributes
    ----------
    n : int
        Number of columns.
    dtype : dtype
        Type of all.
    """

    n: int
    dtype: np.dtype[Any]

    def __getitem__(self, name: str) -> np.dtype[Any]:
        if not (name.isdecimal() and int(name) < self.n and str(int(name)) == name):
            raise KeyError(name)
        return self.dtype

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.n))

    def __len__(self) -> int:
        return self.n


def check_width(location: Location, n_columns: int, memory: int, column_bytes: int = COLUMN_BYTES) -> None:
    """Raise a DataError if a file claims more columns than fit into the memory that is allowed.

    Call this before anything of that size is made: a damaged file of a few bytes may claim any number of columns.
    """
    most = max(memory, DEFAULT_MEMORY) // column_bytes  # memory=0 means that no data are kept, not that there is none
    if n_columns > most:
        raise DataError(
            f"{location}: says that it has {n_columns:,} columns, more than the {most:,} that there is room for. "
            f"If so many are meant, allow them {n_columns * column_bytes / 1e6:,.0f}MB with memory=."
        )


def first_twice(names: Sequence[str]) -> str | None:
    """Return the first name that occurs a second time, None if there is none."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def batch_rows(dtype: np.dtype[Any], n_features: int) -> int:
    """Return the number of rows of a batch."""
    return max(256, BATCH_BYTES // max(1, dtype.itemsize * n_features))


def common_type(types: Sequence[np.dtype[Any] | None]) -> np.dtype[Any]:
    """Return the narrowest type that holds numbers of several types."""
    known = {t for t in types if t is not None}
    return np.result_type(*known) if known else np.dtype(np.float32)
