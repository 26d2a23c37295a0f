"""CSR matrices in files: checks that their three arrays fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.data.block import canonical
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError


class CsrFile:
    """Checks of a CSR matrix in a file.

    Parameters
    ----------
    location : Location
        The file.
    shape : tuple of int
        Number of rows and of columns, as the file has it.
    data, indices, indptr : h5py.Dataset or the like
        The three arrays. Only their shapes and types are used.
    memory : int
        Bytes that a row may take at most.
    """

    def __init__(
        self, location: Location, shape: tuple[int, int], data: Any, indices: Any, indptr: Any, memory: int
    ) -> None:
        self.location, self.shape, self.dtype = location, shape, data.dtype
        self.entry_bytes = data.dtype.itemsize + indices.dtype.itemsize
        if data.dtype.kind not in "biuf":
            raise DataError(f"{location}: must hold numbers. Got entries of type {data.dtype}.")
        sizes = indptr.shape, indices.shape, data.shape
        is_whole = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu"
        if not is_whole or len(data.shape) != 1 or sizes != ((shape[0] + 1,), data.shape, data.shape):
            raise DataError(
                f"{location}: is not a sound CSR matrix. With {shape[0]} rows, indptr must be {shape[0] + 1} whole "
                f"numbers, and indices as many as there are entries in data. Got {indptr.dtype} of shape "
                f"{indptr.shape}, {indices.dtype} of shape {indices.shape}, and data of shape {data.shape}."
            )
        self.n_entries = int(data.shape[0])
        self.most = max(memory, DEFAULT_MEMORY) // self.entry_bytes

    def checked_edges(self, edges: NDArray[np.int64], row: int) -> NDArray[np.int64]:
        """Return a piece of indptr from a row on, shape (rows + 1,); raise a DataError if it is not valid."""
        sizes = np.diff(edges)
        if edges[0] < 0 or (row == 0 and edges[0] > 0) or (sizes < 0).any() or edges[-1] > self.n_entries:
            raise DataError(
                f"{self.location}: is not a sound CSR matrix. Its indptr must begin with 0, never fall, and end with "
                f"at most the number of entries, {self.n_entries}."
            )
        if len(sizes) and sizes.max() > self.most:
            raise DataError(
                f"{self.location}: row {row + int(sizes.argmax()) + 1} says that it has {sizes.max():,} entries, more "
                f"than the {self.most:,} that there is room for. Allow more with memory=."
            )
        return edges

    def rows(self, data: NDArray[Any], indices: NDArray[Any], edges: NDArray[np.int64]) -> Any:
        """Return rows as a CSR array of shape (rows, m).

        Parameters
        ----------
        data, indices : array of shape (entries,)
            Their entries.
        edges : array of shape (rows + 1,)
            Of those, from :meth:`checked_edges`.
        """
        part = sparse.csr_array((len(edges) - 1, self.shape[1]), dtype=self.dtype)
        part.data, part.indices, part.indptr = data, indices, edges - edges[0]
        if len(indices) and not (indices.min() >= 0 and indices.max() < self.shape[1]):
            raise DataError(
                f"{self.location}: is not a sound CSR matrix. Its indices must be from 0 to {self.shape[1] - 1}, the "
                f"last column. Got {indices.min()} to {indices.max()}."
            )
        part.check_format(full_check=False)  # converts the indices to types that the products accept
        return canonical(part)
