"""What every format offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.data.location import Location
from dbmd.errors import DataError

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

    @abstractmethod
    def read(
        self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield rows start to stop (None: to the end) in batches of bounded size.

        Parameters
        ----------
        start, stop : int
            The rows; start is one of ``cuts``, stop one of them or the end.
        features : sequence of str
            Columns of numbers, in the order of the columns of ``Xt``.
        others : sequence of str
            Further columns, numbers or not.
        """


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


def batch_rows(dtype: np.dtype[Any], n_features: int) -> int:
    """Return how many rows make a batch."""
    return max(256, BATCH_BYTES // max(1, dtype.itemsize * n_features))


def common_type(types: Sequence[np.dtype[Any] | None]) -> np.dtype[Any]:
    """Return the least type that holds numbers of several types: that of the array that a batch is put in."""
    known = {t for t in types if t is not None}
    return np.result_type(*known) if known else np.dtype(np.float32)
