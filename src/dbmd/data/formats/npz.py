"""Sparse matrices as ``scipy.sparse.save_npz`` writes them, whose three arrays are read in step; or a single array."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from dbmd._utils.npy import read_header, read_member
from dbmd.data.formats._csr import CsrFile
from dbmd.data.formats._npz_array import open_array
from dbmd.data.formats._reader import BATCH_BYTES, Batch, NumberedColumns, Reader, check_width
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".npz",)
MOST_LABEL = 10_000  # bytes of the members "format" and "shape"


def open_file(location: Location, *, transpose: bool = False, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open a sparse matrix, or the one array of an archive. Columns are called 0, 1, ..."""
    with location.open() as file, zipfile.ZipFile(file) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist()]
        if any(member.flag_bits & 1 for member in archive.infolist()):
            raise DataError(f"{location}: is encrypted. Save it without a password: scipy.sparse.save_npz.")
        if len(members) == 1 and archive.namelist()[0].endswith(".npy"):
            return open_array(location, archive, archive.namelist()[0], memory, transpose=transpose)
    if not {"format", "shape", "data"} <= {*members}:
        raise DataError(
            f"{location}: must hold a sparse matrix as scipy.sparse.save_npz writes it, or a single array. Got an "
            f"archive of {', '.join(sorted(members)[:5]) or 'nothing'}. Save one of them with numpy.save, as .npy."
        )
    return Npz(location, memory, transpose=transpose)


class Npz(Reader):
    """A CSR matrix in an archive, or a CSC matrix that is transposed. Its members are streams, read from the top."""

    sparse = True

    def __init__(self, location: Location, memory: int, *, transpose: bool) -> None:
        self.location = location
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(location.open())))
            kind = read_member(archive, "format.npy", MOST_LABEL).item()
            kind = kind.decode() if isinstance(kind, bytes) else kind
            self.is_transposed = kind == "csc" and transpose  # of a CSR matrix, the caller transposes the whole
            if kind != "csr" and not self.is_transposed:
                raise DataError(
                    f"{location}: must hold a CSR matrix, whose rows can be read one after the other. Got {kind}. "
                    "Convert it: scipy.sparse.save_npz(path, matrix.tocsr())."
                )
            shape = read_member(archive, "shape.npy", MOST_LABEL)
            if shape.dtype.kind not in "iu" or shape.shape != (2,) or shape.min() < 0:
                raise DataError(f"{location}: shape must be two whole numbers, rows and columns. Got {shape}.")
            self.n_rows, n_columns = shape[::-1].tolist() if self.is_transposed else shape.tolist()
            indptr, indices, data = _members(stack, archive)
        check_width(location, n_columns, memory)
        self.csr = CsrFile(location, (self.n_rows, n_columns), data, indices, indptr, memory)
        self.columns = NumberedColumns(n_columns, data.dtype)

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of the whole matrix."""
        import pyarrow as pa

        wanted = [int(name) for name in features]
        everything = wanted == list(range(len(self.columns)))
        for Xt in self._parts():
            columns = {name: pa.array(Xt[:, [int(name)]].toarray().ravel()) for name in others}
            yield Batch(Xt if everything else Xt[:, wanted], columns)

    def _parts(self) -> Iterator[Any]:
        n_rows = self.csr.shape[0]
        with ExitStack() as stack:
            file = stack.enter_context(self.location.open())
            indptr, indices, data = _members(stack, stack.enter_context(zipfile.ZipFile(file)))
            position, edge = 0, indptr.take(1).astype(np.int64)
            while position < n_rows:
                # A piece of indptr at a time; then as many of its rows as fit into a batch.
                ends = indptr.take(min(65536, n_rows - position)).astype(np.int64)
                edges = self.csr.checked_edges(np.concatenate([edge, ends]), position)
                edge, position = edges[-1:], position + len(edges) - 1
                while len(edges) > 1:
                    most = edges[0] + BATCH_BYTES // self.csr.entry_bytes
                    fit = max(1, int(np.searchsorted(edges[1:], most, side="right")))
                    size = int(edges[fit] - edges[0])
                    yield self.csr.rows(data.take(size), indices.take(size), edges[: fit + 1])
                    edges = edges[fit:]


def _members(stack: ExitStack, archive: zipfile.ZipFile) -> Iterator[_Member]:
    return (_Member(stack, archive, name) for name in ("indptr", "indices", "data"))


class _Member:
    """A one-dimensional array in an archive, read piece by piece."""

    def __init__(self, stack: ExitStack, archive: zipfile.ZipFile, name: str) -> None:
        self.stream = stack.enter_context(archive.open(f"{name}.npy"))
        self.shape, _, self.dtype = read_header(self.stream)

    def take(self, count: int) -> Any:
        data = self.stream.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            raise EOFError("it ends too early")
        return np.frombuffer(data, self.dtype)
