"""Files that have to be read as a whole, since their rows do not stand one after the other."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.data.formats import _reader
from dbmd.data.formats._reader import Batch, NumberedColumns, Reader, batch_rows
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

LOADING = threading.Lock()


class Held(Reader):
    """A file that is read once, as a whole, and then held in memory. A copy in another process reads it again.

    A subclass sets ``columns`` and ``n_rows``, and implements :meth:`_load`.

    Attributes
    ----------
    dtype : dtype
        Type of all columns.
    labels : sequence of str, optional
        Names of the rows.
    """

    dtype: np.dtype[Any]
    labels: Sequence[str] | None = None
    _matrix: Any = None

    @abstractmethod
    def _load(self) -> Any:
        """Return all numbers: an array or CSR array of shape (n, m), or a list of arrays of shape (some of m, n)."""

    def _held(self) -> Any:
        with LOADING:
            if self._matrix is None:
                self._matrix = self._load()
            return self._matrix

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_matrix"}

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield rows of the matrix."""
        matrix, stop = self._held(), int(self.n_rows or 0) if stop is None else stop
        number = _numbers(self.columns)
        wanted = [number[name] for name in features]
        everything = wanted == list(range(len(self.columns)))
        for i, j in self._steps(matrix, start, stop):
            if isinstance(matrix, list):
                Xt = np.concatenate([piece[:, i:j] for piece in matrix], dtype=self.dtype).T
            else:
                Xt = matrix[i:j]
            columns = {name: self._other(name, number, Xt, i, j) for name in others}
            yield Batch(Xt if everything else Xt[:, wanted], columns)

    def _steps(self, matrix: Any, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of batches."""
        while start < stop:
            if sparse.issparse(matrix):
                most = matrix.indptr[start] + _reader.BATCH_BYTES // (matrix.data.itemsize + matrix.indices.itemsize)
                end = max(start + 1, int(np.searchsorted(matrix.indptr, most, side="right")) - 1)
            else:
                end = start + batch_rows(self.dtype, len(self.columns))
            yield start, min(end, stop)
            start = end

    def _other(self, name: str, number: Mapping[str, int], Xt: Any, start: int, stop: int) -> Any:
        """Return a column as an array of Arrow."""
        import pyarrow as pa

        if name == self.row_names and self.labels is not None:
            return pa.array(self.labels[start:stop], pa.string())
        column = Xt[:, [number[name]]]
        return pa.array(np.ascontiguousarray((column.toarray() if sparse.issparse(column) else column).ravel()))


class _ByNumber(dict[str, int]):
    """The numbers of columns that are called by them."""

    def __missing__(self, name: str) -> int:
        return int(name)


def _numbers(columns: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the number of each column."""
    return _ByNumber() if isinstance(columns, NumberedColumns) else {name: j for j, name in enumerate(columns)}


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in the narrowest type that holds them, other numbers as they are."""
    if values.dtype.itemsize < 8 or not values.size:
        return values
    low, high = values.min(), values.max()
    if not (low >= -(2**31) and high < 2**31):  # or NaN
        return values
    if values.dtype.kind == "f" and (values != np.trunc(values)).any():
        return values
    return values.astype(np.result_type(np.min_scalar_type(int(low)), np.min_scalar_type(int(high))))


def check_size(location: Location, size: int, memory: int, why: str) -> None:
    """Raise a DataError if the numbers of a file that has to be read as a whole take more memory than is allowed.

    Parameters
    ----------
    location : Location
        The file.
    size : int
        Bytes, or at least so many.
    memory : int
        Bytes that are allowed, if more than the default.
    why : str
        Why it is read as a whole, and what to do instead.
    """
    most = max(memory, DEFAULT_MEMORY)
    if size > most:
        raise DataError(
            f"{location}: takes {size / 1e6:,.0f}MB or more in memory, and {most / 1e6:,.0f}MB are allowed. {why}, or "
            "allow more with memory=."
        )
