"""Matrix Market: sparse or dense matrices in text form, and folders of 10x. They are held in memory, CSR if sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dbmd.data import compression
from dbmd.data.formats._held import Held, check_size
from dbmd.data.formats._mtx_text import read_head, read_matrix
from dbmd.data.formats._reader import NumberedColumns, Reader, check_width
from dbmd.data.formats._tenx import find_names
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = tuple(".mtx" + packed for packed in ("", *compression.SUFFIXES))
ENTRY_BYTES = 16  # that an entry takes while it is read: row, column and value
WHY = "A matrix in text form is read as a whole: write it as h5ad or npz, which are read piece by piece"


def open_file(location: Location, *, transpose: bool = False, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open a matrix. Its columns are called 0, 1, ..., or, in a folder of 10x, as the features."""
    return Mtx(location, memory, transpose=transpose)


class Mtx(Held):
    """A matrix of Matrix Market. Of 10x, samples are its columns."""

    def __init__(self, location: Location, memory: int, *, transpose: bool) -> None:
        self.location = location
        head = read_head(location)
        rows, columns, self.sparse = head.rows, head.columns, head.is_sparse
        names = find_names(location, memory)
        self.is_oriented = names is not None
        self.is_transposed = transpose and not self.is_oriented
        self.is_turned = self.is_oriented or self.is_transposed
        self.n_rows, n_columns = (columns, rows) if self.is_turned else (rows, columns)
        check_width(location, n_columns, memory)
        stored = head.entries * (1 if head.symmetry == "general" else 2)
        size = stored * ENTRY_BYTES + 8 * max(rows, columns) if self.sparse else rows * columns * 8
        check_size(location, size, memory, WHY)
        if names is not None:
            for what, found, expected in (
                ("barcodes", names.barcodes, columns),
                ("features", names.features, rows),
            ):
                if len(found) != expected:
                    raise DataError(
                        f"{location}: has {expected:,} {'columns' if what == 'barcodes' else 'rows'}, and there are "
                        f"{len(found):,} {what} beside it. Copy the whole folder again."
                    )
            self.labels, self.row_names, self.index = names.barcodes, "barcode", names.other_types
        self._matrix = self._load()
        self.dtype = self._matrix.dtype
        self.columns = NumberedColumns(n_columns, self.dtype)
        if names is not None:
            self.columns = dict.fromkeys(names.features, self.dtype)

    def where(self, row: int) -> str:
        """Return how a person finds a row of the matrix, or a column if it is turned."""
        name = f" ({self.labels[row]!r})" if self.labels is not None else ""
        return f"{'column' if self.is_turned else 'row'} {row + 1}{name}"

    def _load(self) -> Any:
        matrix = read_matrix(self.location)
        if not self.is_turned:
            return matrix
        return sparse.csr_array(matrix.T) if self.sparse else np.ascontiguousarray(matrix.T)
