"""Columns of Arrow as arrays of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbmd.data.formats._reader import Batch


def number_type(kind: Any) -> np.dtype[Any] | None:
    """Return the NumPy type for a column of Arrow, None if it does not hold numbers."""
    if pa.types.is_dictionary(kind):
        return number_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    return None


def to_batch(
    table: Any,
    features: Sequence[str],
    others: Sequence[str],
    dtype: np.dtype[Any],
) -> Batch:
    """Return columns of a table or record batch of Arrow as a batch.

    The array is in Fortran order: putting the columns side by side is all it takes, and the products that follow
    do not mind.
    """
    Xt = np.empty((table.num_rows, len(features)), dtype, order="F")
    for j, name in enumerate(features):
        Xt = with_column(Xt, j, table.column(name))
    return Batch(Xt, {name: in_one_piece(table.column(name)) for name in others})


def with_column(Xt: NDArray[Any], j: int, column: Any) -> NDArray[Any]:
    """Return the array with a column of Arrow put in, shape (rows, m)."""
    if column.null_count and Xt.dtype.kind != "f":
        Xt = Xt.astype(np.float64)  # missing values become NaN, which the scan reports
    Xt[:, j] = to_numbers(column)
    return Xt


def to_numbers(column: Any) -> Any:
    """Return a column as an array; missing values are NaN."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type) or (pa.types.is_boolean(column.type) and column.null_count):
        column = column.cast(pa.float64() if pa.types.is_decimal(column.type) else pa.int8())
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def in_one_piece(column: Any) -> Any:
    """Return a column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
