"""Files of AnnData, dense or CSR, read piece by piece. Needs h5py only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dbmd.data.formats._csr import CsrFile
from dbmd.data.formats._reader import BATCH_BYTES, Batch, Reader, batch_rows, check_width, first_twice
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".h5ad",)
MOST_ROWS = 1 << 20  # whose entries of indptr are read together
# Filters of HDF5 by their numbers: those that keep the size, and those that compress by at most this ratio.
KEEPING, PACKING, MOST_RATIO = {2, 3}, {1, 32000}, 1032  # shuffle, fletcher32; deflate, lzf


def open_file(location: Location, *, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open ``X`` of an AnnData file. Columns are its variables; sources and labels are columns of ``obs``."""
    return H5ad(location, memory)


class H5ad(Reader):
    """``X`` and ``obs`` of an AnnData file."""

    seekable_rows = None

    def __init__(self, location: Location, memory: int) -> None:
        self.location, self.most_bytes = location, max(memory, DEFAULT_MEMORY)
        with self._file() as file:
            self._check_closed(file)
            if "X" not in file or not all(hasattr(file.get(name), "keys") for name in ("obs", "var")):
                raise DataError(f"{location}: must have X, obs and var, as AnnData writes them. Got {sorted(file)}.")
            X = file["X"]
            kind = str(X.attrs.get("encoding-type", "array" if hasattr(X, "shape") else "a group"))
            if kind not in ("array", "csr_matrix"):
                raise DataError(
                    f"{location}: X must be dense or CSR, so that it can be read by rows. Got {kind}. "
                    "Convert it: adata.X = adata.X.tocsr(), then adata.write_h5ad(path)."
                )
            self.sparse = kind == "csr_matrix"
            shape = np.asarray(X.attrs.get("shape") if self.sparse else getattr(X, "shape", None))
            if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
                got = "nothing" if shape.dtype.kind == "O" else f"shape {tuple(np.atleast_1d(shape).tolist())}"
                raise DataError(f"{location}: X must have two dimensions, rows and variables. Got {got}.")
            n, m = shape.tolist()
            check_width(location, m, memory)
            if self.sparse:
                self.csr = CsrFile(location, (n, m), X["data"], X["indices"], X["indptr"], memory)
            for part in (X["data"], X["indices"], X["indptr"]) if self.sparse else (X,):
                self._check_there(part)
            dtype = X["data"].dtype if self.sparse else X.dtype
            names = _index(file["var"])
            if names.shape != (m,):
                raise DataError(f"{location}: X has {m} columns, var has names of shape {names.shape}.")
            names = _texts(self._whole(names))
            self.annotations = tuple(name for name in file["obs"].attrs.get("column-order", ()) if name in file["obs"])
        if dtype.kind not in "biuf":
            raise DataError(f"{location}: X must hold numbers. Got type {dtype}.")
        self.n_rows, self.dtype = n, dtype
        self.columns = dict.fromkeys(names, dtype)
        if (twice := first_twice(names)) is not None:
            raise DataError(f"{location}: variable {twice!r} occurs twice. Call adata.var_names_make_unique() first.")
        self.numbers = {name: i for i, name in enumerate(names)}

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of X and columns of obs."""
        stop = self.n_rows if stop is None else stop
        assert stop is not None
        wanted = [self.numbers[name] for name in features]
        everything = wanted == list(range(len(self.columns)))
        with self._file() as file:
            X = file["X"]
            pieces = self._csr_pieces(X, start, stop) if self.sparse else self._dense_pieces(X, start, stop)
            for i, Xt in pieces:
                j = i + Xt.shape[0]
                columns = {name: self._other(file, name, Xt, i, j) for name in others}
                yield Batch(Xt if everything else Xt[:, wanted], columns)

    def _dense_pieces(self, X: Any, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        step = batch_rows(self.dtype, len(self.columns))
        for i in range(start, stop, step):
            yield i, X[i : min(i + step, stop)]

    def _csr_pieces(self, X: Any, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        while start < stop:
            stored = X["indptr"][start : min(start + MOST_ROWS, stop) + 1]
            edges = self.csr.checked_edges(stored.astype(np.int64), start)
            i, last = 0, len(edges) - 1
            while i < last:
                most = edges[i] + BATCH_BYTES // (self.dtype.itemsize + 4)
                j = max(i + 1, int(np.searchsorted(edges, most, side="right")) - 1)
                if j == last and i and start + j < stop:
                    break  # the batch may continue in the next piece of indptr
                entries = slice(edges[i], edges[j])
                yield start + i, self.csr.rows(X["data"][entries], X["indices"][entries], edges[i : j + 1])
                i = j
            start += i

    def _check_closed(self, file: Any) -> None:
        """Raise a DataError if the file links to another one: its author could make us read any file of the user."""
        links: list[tuple[str, Any]] = []
        # visititems_links does not follow external links. Its callback must not raise.
        file.visititems_links(lambda name, link: links.append((name, link)))
        found = next((name for name, link in links if _is_outside(file, name, link)), None)
        if found is not None:
            raise DataError(
                f"{self.location}: /{found} is stored in another file, which is not read. "
                "Write it with all its numbers inside: anndata.read_h5ad(path).write_h5ad(new)."
            )

    def _check_there(self, dataset: Any) -> None:
        """Raise a DataError if the file has fewer bytes than a dataset needs: the rest would be read as zeros."""
        if dataset.chunks:
            self._check_room(math.prod(dataset.chunks) * dataset.dtype.itemsize, f"a chunk of {dataset.name}")
        there, made = dataset.id.get_storage_size(), dataset.id.get_create_plist()
        filters = {made.get_filter(i)[0] for i in range(made.get_nfilters())}
        if not filters <= KEEPING | PACKING:
            return  # the ratio of other filters is not known
        if dataset.nbytes > there * (MOST_RATIO if filters & PACKING else 1):
            raise DataError(
                f"{self.location}: is cut short. {dataset.name} of shape {dataset.shape} and type {dataset.dtype} "
                f"takes {dataset.nbytes:,} bytes, of which the file has {there:,}. Write it anew."
            )

    def _check_room(self, size: int, what: str) -> None:
        """Raise a DataError if something that is read at once claims more memory than is allowed."""
        if size > self.most_bytes:
            raise DataError(
                f"{self.location}: {what} says that it takes {size:,} bytes, more than the {self.most_bytes:,} that "
                "there is room for. Allow more with --memory."
            )

    def _whole(self, dataset: Any) -> Any:
        """Return all values of a dataset."""
        self._check_room(dataset.nbytes, dataset.name)
        return dataset[:]

    def _other(self, file: Any, name: str, Xt: Any, start: int, stop: int) -> Any:
        """Return rows of a column of obs, or else of X, as an array of Arrow."""
        import pyarrow as pa

        if name in self.annotations:
            column = file["obs"][name]
            if hasattr(column, "shape") and len(column.shape or ()) != 1:
                raise DataError(f"{self.location}: column {name!r} of obs must have one value for each row of X.")
            values = _obs(column, start, stop, self._whole)
            if len(values) < stop - start:
                raise DataError(f"{self.location}: column {name!r} of obs is shorter than X.")
            return values
        column = Xt[:, [self.numbers[name]]]
        return pa.array((column.toarray() if self.sparse else column).ravel())

    @contextmanager
    def _file(self) -> Iterator[Any]:
        try:
            import h5py
        except ModuleNotFoundError:
            raise DataError(
                f"{self.location}: reading h5ad needs h5py. Install it with: pip install 'dbmd[anndata]'"
            ) from None
        with self.location.open() as file:
            local = self.location.local
            with h5py.File(str(local) if local else file, "r") as opened:
                yield opened


def _is_outside(file: Any, name: str, link: Any) -> bool:
    """Return whether a link leads to another file."""
    import h5py

    if isinstance(link, h5py.HardLink) and isinstance(file[name], h5py.Dataset):
        return bool(file[name].is_virtual or file[name].external)
    return isinstance(link, h5py.ExternalLink)


def _index(group: Any) -> Any:
    """Return the dataset with the names of rows."""
    names = group[group.attrs.get("_index", "_index")]
    return names["values"] if "values" in getattr(names, "keys", tuple)() else names


def _obs(column: Any, start: int, stop: int, whole: Callable[[Any], Any]) -> Any:
    """Return rows of a column of obs as an array of Arrow."""
    import h5py
    import pyarrow as pa

    if isinstance(column, h5py.Dataset) and "categories" not in column.attrs:
        values = column[start:stop]
        return pa.array(_texts(values) if values.dtype.kind in "OS" else values)
    if "mask" in column:  # pandas' types that have missing values
        values = column["values"][start:stop]
        return pa.array(_texts(values) if values.dtype.kind in "OS" else values, mask=column["mask"][start:stop])
    if isinstance(column, h5py.Dataset):  # as anndata wrote them before 0.8
        categories, codes = whole(column.file[column.attrs["categories"]]), column[start:stop]
    else:
        categories, codes = whole(column["categories"]), column["codes"][start:stop]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0),
        pa.array(_texts(categories) if categories.dtype.kind in "OS" else categories),
    )


def _texts(values: Any) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
