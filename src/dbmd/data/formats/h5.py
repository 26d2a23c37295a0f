"""HDF5 files of 10x Genomics, read piece by piece: features x barcodes by columns are barcodes x features by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dbmd.data.formats._csr import CsrFile
from dbmd.data.formats._h5ad_frame import texts
from dbmd.data.formats._reader import Batch, Reader, check_width
from dbmd.data.formats._tenx import GENES, unique
from dbmd.data.formats.h5ad import H5ad
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".h5",)
ARRAYS = ("data", "indices", "indptr", "shape", "barcodes")


def open_file(location: Location, *, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open a matrix of 10x. Columns are its features, rows its barcodes."""
    return H5(location, memory)


class H5(H5ad):
    """The matrix of a file of 10x; what is done with HDF5 is as for AnnData."""

    def __init__(self, location: Location, memory: int) -> None:
        self.location, self.most_bytes = location, max(memory, DEFAULT_MEMORY)
        with self._file() as file:
            self._check_closed(file)
            # Version 2 has a group for each genome.
            groups = [name for name in file if set(ARRAYS) <= {*getattr(file[name], "keys", tuple)()}]
            if len(groups) != 1:
                raise DataError(
                    f"{location}: must hold a matrix of 10x Genomics, a group with {', '.join(ARRAYS)}. Got "
                    f"{len(groups) or 'none'} in {sorted(file)[:5]}. Write other data as h5ad or npy."
                )
            self.matrix = groups[0]
            X = file[self.matrix]
            shape = self._whole(X["shape"])
            if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
                raise DataError(f"{location}: shape must be two whole numbers, features and barcodes. Got {shape}.")
            m, n = shape.tolist()
            check_width(location, m, memory)
            self.csr = CsrFile(location, (n, m), X["data"], X["indices"], X["indptr"], memory)
            for part in ("data", "indices", "indptr", "barcodes"):
                self._check_there(X[part])
            names, types = self._features(X)
            if len(names) != m or X["barcodes"].shape != (n,):
                raise DataError(
                    f"{location}: has {m:,} features and {n:,} barcodes, and names of {len(names):,} and "
                    f"{X['barcodes'].shape}."
                )
            self.dtype = X["data"].dtype
        self.sparse, self.n_rows, self.n_stored, self.row_names = True, n, m, "barcode"
        self.numbers = {name: j for j, name in enumerate(unique(names))}
        self.columns = dict.fromkeys(self.numbers, self.dtype)
        others = tuple(name for name, kind in zip(self.numbers, types, strict=True) if kind != GENES)
        self.index = others if len(others) < m else ()

    def where(self, row: int) -> str:
        """Return the number of a barcode."""
        return f"barcode {row + 1}"

    def _features(self, X: Any) -> tuple[list[str], list[str]]:
        """Return the names and the types of features."""
        if "features" not in X:
            names = texts(self._whole(X["gene_names"]))
            return names, [GENES] * len(names)
        names = texts(self._whole(X["features"]["name"]))
        has_types = "feature_type" in X["features"]
        return names, texts(self._whole(X["features"]["feature_type"])) if has_types else [GENES] * len(names)

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of barcodes."""
        import pyarrow as pa

        stop = int(self.n_rows or 0) if stop is None else stop
        wanted = [self.numbers[name] for name in features]
        everything = wanted == list(range(self.n_stored))
        with self._file() as file:
            X = file[self.matrix]
            for i, Xt in self._csr_pieces(X, start, stop):
                columns = {}
                for name in others:
                    if name in self.numbers:
                        columns[name] = pa.array(Xt[:, [self.numbers[name]]].toarray().ravel())
                    else:
                        columns[name] = pa.array(texts(X["barcodes"][i : i + Xt.shape[0]]), pa.string())
                yield Batch(Xt if everything else Xt[:, wanted], columns)
