"""Tables with features in rows and samples in columns, as genes x cells, read the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dbmd.data.formats._held import Held, check_size, narrowed
from dbmd.data.formats._reader import NumberedColumns, Reader, check_width, common_type, first_twice
from dbmd.errors import DataError

ROW_NAMES = "sample"  # what the names of the samples are called
WHY = "A table like this is held to be transposed: write it as npy, which is not, or with a sample in each row"


class Transposed(Held):
    """The table of another reader, transposed. It is held in memory.

    The names of its columns are those of the samples. The features are named by its row names, or by a first column of
    text.

    Parameters
    ----------
    inner : Reader
        The table.
    memory : int
        Bytes that it may take.
    """

    is_transposed = True

    def __init__(self, inner: Reader, memory: int) -> None:
        self.inner, self.memory = inner, memory
        self.location, self.kind, self.stamp, self.sparse = inner.location, inner.kind, inner.stamp, inner.sparse
        columns = list(inner.columns)
        self.names_in = next(iter(inner.index), columns[0] if columns and inner.columns[columns[0]] is None else None)
        self.samples = [name for name in columns if name != self.names_in]
        text = next((name for name in self.samples if inner.columns[name] is None), None)
        if text is not None:
            example = inner.not_a_number(text)
            raise DataError(
                f"{self.location}: column {text!r} does not hold numbers{f' ({example})' if example else ''}. With "
                "transpose=True, columns are samples, except a first one with the names of the features: remove it."
            )
        if columns != [str(i) for i in range(len(columns))]:
            self.labels, self.row_names = self.samples, ROW_NAMES
        self.dtype = common_type([inner.columns[name] for name in self.samples])
        self.n_rows = len(self.samples)
        self._matrix, names = self._read()
        n_features = self._matrix.shape[1] if self.sparse else sum(map(len, self._matrix))
        check_width(self.location, n_features, memory)
        if (twice := first_twice(names)) is not None:
            raise DataError(f"{self.location}: two rows are called {twice!r}. Rename one of them.")
        self.columns = dict.fromkeys(names, self.dtype) if names else NumberedColumns(n_features, self.dtype)

    def where(self, row: int) -> str:
        """Return the number and the name of a sample."""
        return f"sample {row + 1}" + (f" ({self.labels[row]!r})" if self.labels is not None else "")

    def _load(self) -> Any:
        return self._read()[0]

    def _read(self) -> tuple[Any, list[str]]:
        """Return all numbers, and the names of the features, [] if they have none."""
        pieces, names, size = [], [], 0
        for batch in self.inner.read(0, None, self.samples, () if self.names_in is None else (self.names_in,)):
            piece: Any = batch.Xt if self.sparse else narrowed(np.array(batch.Xt, order="F"))  # it may be a memory map
            size += piece.data.nbytes + piece.indices.nbytes if self.sparse else piece.nbytes
            check_size(self.location, size, self.memory, WHY)
            pieces.append(piece)
            if self.names_in is not None:
                names += [str(name or "") for name in batch.others[self.names_in].to_pylist()]
        names = [name.strip() or f"unnamed_{j}" for j, name in enumerate(names)]
        if not self.sparse:
            return pieces, names
        whole = sparse.vstack(pieces, "csr") if pieces else sparse.csr_array((0, self.n_rows), dtype=self.dtype)
        return sparse.csr_array(whole.T), names


def transposed(reader: Reader, memory: int) -> Reader:
    """Return a reader of the same file with features and samples swapped.

    Parameters
    ----------
    reader : Reader
        The file.
    memory : int
        Bytes that it may take.
    """
    if reader.is_oriented:
        raise DataError(
            f"{reader.location}: says itself what is a sample and what a feature, so it is not transposed. Leave out "
            "transpose=True."
        )
    return Transposed(reader, memory)
