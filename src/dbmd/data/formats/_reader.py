"""What every format offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.data.location import Location, Stamp
from dbmd.errors import DataError, first_line

MEMORY = 512_000_000  # bytes: data up to this size are decoded once and kept, unless told
COLUMN_BYTES = 200  # of its name and its place in what a fit holds, at the very least
BATCH_BYTES = 16_000_000  # of decoded numbers: enough for the cost of a call not to show, little beside the memory


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
    """A file, opened: what is in it, and its rows, as often as one likes.

    Attributes
    ----------
    location : Location
        The file.
    kind : str
        The name of its format.
    stamp : Stamp
        What it was like when it was opened.
    columns : dict of str to dtype or None
        The names of its columns in order, each with its type, None if it does not hold numbers.
    annotations : tuple of str
        Names of what can be a source or a label, but never a feature (of h5ad).
    index : tuple of str
        Columns that number or name the rows: features only if they are asked for.
    n_rows : int or None
        Number of rows; None if only reading them all can tell.
    cuts : sequence of int, or None
        Rows where reading may start: the first of each row group, say. None: anywhere.
    decodes : bool
        Whether reading takes work that is best done ahead, in a thread of its own.
    sparse : bool
        Whether batches are CSR.
    """

    location: Location
    kind: str
    stamp: Stamp
    columns: Mapping[str, np.dtype[Any] | None]
    annotations: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    n_rows: int | None = None
    cuts: Sequence[int] | None = (0,)
    decodes: bool = True
    sparse: bool = False

    def where(self, row: int) -> str:
        """Return how a person finds a row, given its number from 0."""
        return f"row {row + 1}"

    def not_a_number(self, name: str) -> str:
        """Return what stands in a column that does not hold numbers, and where, as far as that is easily found."""
        return ""

    def read(
        self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield rows start to stop (None: to the end) in batches of bounded size.

        Raises a DataError if the file is not, or no longer, the one that was opened, or cannot be decoded.

        Parameters
        ----------
        start, stop : int
            The rows; start is one of ``cuts``, stop one of them or the end.
        features : sequence of str
            Columns of numbers, in the order of the columns of ``Xt``.
        others : sequence of str
            Further columns, numbers or not.
        """
        self._check_unchanged()
        try:
            with in_our_words(self.location, self.kind):
                yield from self._batches(start, stop, features, others)
        except DataError:
            self._check_unchanged()  # what makes no sense may be the half of one file and the half of another
            raise
        self._check_unchanged()

    @abstractmethod
    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield rows, as :meth:`read` does. What a library raises may be raised."""

    def _check_unchanged(self) -> None:
        if not self.location.stamp().is_of(self.stamp):
            raise DataError(
                f"{self.location}: has changed since it was opened. All passes must read the same rows: wait until it "
                "is written, or put back what it was, and start again."
            )


@contextmanager
def in_our_words(location: Location, kind: str) -> Iterator[None]:
    """Around calls into libraries that read files: what they raise becomes a DataError with the file and what to do."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # there is no end to what may be wrong with a file
        raise unsound(location, kind, error) from error


def unsound(location: Location, kind: str, error: BaseException) -> DataError:
    """Return what to say of a file that a library cannot read."""
    said = first_line(Exception(error.args[0])) if isinstance(error, KeyError) and error.args else first_line(error)
    return DataError(f"{location}: is not a sound {kind} file, or not a whole one: copy or write it anew ({said}).")


@dataclass(frozen=True)
class Numbered(Mapping[str, "np.dtype[Any] | None"]):
    """Columns that have no names, called 0, 1, ...: each name is made when it is asked for.

    Attributes
    ----------
    n : int
        How many there are.
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
    """Raise a DataError if a file says that it has more columns than could be fitted in the memory that is allowed.

    Asked before anything of that size is made: a file of some bytes may say that it has any number of columns.
    """
    most = max(memory, MEMORY) // column_bytes  # with no memory for the data, there is still some for a column
    if n_columns > most:
        raise DataError(
            f"{location}: says that it has {n_columns:,} columns, more than the {most:,} that there is room for. "
            f"If so many are meant, allow them {n_columns * column_bytes / 1e6:,.0f}MB with --memory."
        )


def first_twice(names: Sequence[str]) -> str | None:
    """Return the first name that occurs a second time, None if there is none."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def batch_rows(dtype: np.dtype[Any], n_features: int) -> int:
    """Return how many rows make a batch."""
    return max(256, BATCH_BYTES // max(1, dtype.itemsize * n_features))


def common_type(types: Sequence[np.dtype[Any] | None]) -> np.dtype[Any]:
    """Return the least type that holds numbers of several types: that of the array that a batch is put in."""
    known = {t for t in types if t is not None}
    return np.result_type(*known) if known else np.dtype(np.float32)
