"""Columns of Arrow whose entries are vectors: lists of numbers, or vectors of pyspark.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from dbmd.data.block import canonical
from dbmd.data.formats._arrow import in_one_piece, number_type, to_batch, to_numbers
from dbmd.data.formats._reader import common_type
from dbmd.data.row_labels import RowLabels
from dbmd.errors import DataError

# CSR below this density: its products cost several times as much for each entry as those of an array.
SPARSE_BELOW = 0.2
DENSE = 1  # what pyspark.ml writes as the type of a vector


def is_vector(kind: Any) -> bool:
    """Return whether the entries of a column type of Arrow are vectors."""
    return _is_list(kind) or _is_ml_vector(kind)


def to_rows(table: Any, columns: Sequence[str], labels: RowLabels) -> Any:
    """Return columns as rows of numbers: one column of vectors, or columns of numbers side by side.

    Parameters
    ----------
    table : pyarrow.Table or pyarrow.RecordBatch
        With n rows.
    columns : sequence of str
        The columns to take.
    labels : RowLabels
        How error messages name the rows.

    Returns
    -------
    array or CSR array of shape (n, m)
        Missing numbers are NaN. CSR if most entries of vectors are zero and not stored.
    """
    if not table.num_rows:
        return np.zeros((0, 0), np.float32)
    kinds = {name: table.schema.field(name).type for name in columns}
    for name, kind in kinds.items():
        if len(columns) == 1 and is_vector(kind):
            column = in_one_piece(table.column(name))
            if column.null_count:
                row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise DataError(f"{labels.location}: {labels.where(row)}, column {name!r} is empty.")
            return _from_lists(column, name, labels) if _is_list(kind) else _from_ml(column, name, labels)
        if number_type(kind) is None:
            hint = " Name it alone: a column of vectors has all features." if is_vector(kind) else ""
            raise DataError(f"{labels.location}: column {name!r} does not hold numbers ({kind}).{hint}")
    dtype = common_type([number_type(kind) for kind in kinds.values()])
    return to_batch(table, columns, (), dtype).Xt


def _is_list(kind: Any) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and number_type(kind.value_type) is not None


def _is_ml_vector(kind: Any) -> bool:
    return pa.types.is_struct(kind) and [field.name for field in kind] == ["type", "size", "indices", "values"]


def _from_lists(column: Any, name: str, labels: RowLabels) -> Any:
    values = to_numbers(column.flatten())
    lengths = np.asarray(column.value_lengths())
    if len(set(lengths.tolist())) > 1:
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise DataError(
            f"{labels.location}: {labels.where(row)}, column {name!r} has {lengths[row]} numbers, "
            f"the first row has {lengths[0]}."
        )
    return values.reshape(len(column), -1)


def _from_ml(column: Any, name: str, labels: RowLabels) -> Any:
    """Return vectors of pyspark.ml as rows; dense and sparse ones may be mixed."""
    kinds, sizes, indices, values = column.flatten()
    is_dense = kinds.to_numpy(zero_copy_only=False) == DENSE
    counts = np.asarray(values.value_lengths())
    width = np.where(is_dense, counts, sizes.fill_null(0).to_numpy(zero_copy_only=False))
    if (width != width[0]).any():
        row = int(np.flatnonzero(width != width[0])[0])
        raise DataError(
            f"{labels.location}: {labels.where(row)}, column {name!r} has a vector of size {width[row]}, "
            f"the first row has one of size {width[0]}."
        )
    n, m = len(column), int(width[0])
    entries = to_numbers(values.flatten())
    if is_dense.all():
        return entries.reshape(n, m)
    # A dense vector has no indices: they are 0 to m - 1.
    positions = np.empty(len(entries), np.int32)
    from_dense = np.repeat(is_dense, counts)
    positions[from_dense] = np.tile(np.arange(m, dtype=np.int32), int(is_dense.sum()))
    positions[~from_dense] = to_numbers(indices.flatten())
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32 if len(entries) < 2**31 else np.int64)
    Xt = canonical(sparse.csr_array((entries, positions, indptr), shape=(n, m)))
    return Xt if Xt.nnz < SPARSE_BELOW * n * m else Xt.toarray()
