"""SciPy's sparse matrices, as ``scipy.sparse.save_npz`` writes them, read in step from the members of the archive."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from scipy import sparse

from dbmd.data.formats._reader import BATCH_BYTES, Batch, Reader
from dbmd.data.location import Location
from dbmd.errors import DataError

SUFFIXES = (".npz",)
# What a damaged archive may raise; the header of an array in it is parsed as Python.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    SyntaxError,
    NotImplementedError,
    OSError,
    ValueError,
    EOFError,
    KeyError,
)


def open_file(location: Location, **hints: Any) -> Reader:
    """Open a CSR matrix. Its columns are called 0, 1, ..."""
    return Npz(location)


class Npz(Reader):
    """A CSR matrix in an archive. Its members are streams, so reading starts at the top."""

    sparse = True

    def __init__(self, location: Location) -> None:
        self.location = location
        try:
            with ExitStack() as stack:
                archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(location.open())))
                members = {name.removesuffix(".npy") for name in archive.namelist()}
                if not {"format", "shape", "data"} <= members:
                    raise DataError(
                        f"{location}: must hold a sparse matrix as scipy.sparse.save_npz writes it. Got an archive of "
                        f"{', '.join(sorted(members)[:5]) or 'nothing'}. Save a dense array with numpy.save, as .npy."
                    )
                kind = _whole(archive, "format").item()
                kind = kind.decode() if isinstance(kind, bytes) else kind
                if kind != "csr":
                    raise DataError(
                        f"{location}: must hold a CSR matrix, whose rows can be read one after the other. Got {kind}. "
                        "Convert it: scipy.sparse.save_npz(path, matrix.tocsr())."
                    )
                self.n_rows, n_columns = (int(size) for size in _whole(archive, "shape"))
                _, self.dtype = _header(stack.enter_context(archive.open("data.npy")))
        except BROKEN as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{location}: not a complete npz file ({error}).") from error
        if self.dtype.kind not in "biuf":
            raise DataError(f"{location}: must hold numbers. Got entries of type {self.dtype}.")
        self.columns = {str(i): self.dtype for i in range(n_columns)}

    def read(
        self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str] = ()
    ) -> Iterator[Batch]:
        """Yield batches of the whole matrix."""
        import pyarrow as pa

        wanted = [int(name) for name in features]
        everything = wanted == list(range(len(self.columns)))
        try:
            for Xt in self._parts():
                columns = {name: pa.array(Xt[:, [int(name)]].toarray().ravel()) for name in others}
                yield Batch(Xt if everything else Xt[:, wanted], columns)
        except BROKEN as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{self.location}: cannot be decoded ({error}).") from error

    def _parts(self) -> Iterator[Any]:
        with ExitStack() as stack:
            file = stack.enter_context(self.location.open())
            archive = stack.enter_context(zipfile.ZipFile(file))
            indptr, indices, data = (_Member(stack, archive, name) for name in ("indptr", "indices", "data"))
            assert self.n_rows is not None
            entry = data.dtype.itemsize + indices.dtype.itemsize
            position, edge = 0, int(indptr.take(1)[0])
            while position < self.n_rows:
                # So many ends of rows at a time; then as many of them as their entries fit into a batch.
                ends = indptr.take(min(65536, self.n_rows - position)).astype(np.int64)
                while len(ends):
                    fit = max(1, int(np.searchsorted(ends, edge + BATCH_BYTES // entry, side="right")))
                    size = int(ends[fit - 1]) - edge
                    part = sparse.csr_array((fit, len(self.columns)), dtype=data.dtype)
                    part.data, part.indices = data.take(size), indices.take(size)
                    part.indptr = np.concatenate([[edge], ends[:fit]]) - edge
                    part.check_format()
                    yield part
                    edge, ends, position = int(ends[fit - 1]), ends[fit:], position + fit


class _Member:
    """A one-dimensional array in an archive, read piece by piece."""

    def __init__(self, stack: ExitStack, archive: zipfile.ZipFile, name: str) -> None:
        self.stream = stack.enter_context(archive.open(f"{name}.npy"))
        _, self.dtype = _header(self.stream)

    def take(self, count: int) -> Any:
        data = self.stream.read(count * self.dtype.itemsize)
        if len(data) < count * self.dtype.itemsize:
            raise EOFError("it ends too early")
        return np.frombuffer(data, self.dtype)


def _header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _whole(archive: zipfile.ZipFile, name: str) -> Any:
    with archive.open(f"{name}.npy") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
