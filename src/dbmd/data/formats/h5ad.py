"""Files of AnnData, dense or CSR, read piece by piece. Needs h5py only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dbmd.data.formats._csr import CsrFile
from dbmd.data.formats._h5ad_frame import Field, Frame, texts
from dbmd.data.formats._reader import BATCH_BYTES, Batch, Reader, batch_rows, check_width, first_twice
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

SUFFIXES = (".h5ad",)
HVG = "highly_variable"  # the column of var, as scanpy calls it
MOST_ROWS = 1 << 20  # whose entries of indptr are read together
# Filters of HDF5 by their numbers: those that keep the size, and those that compress by at most this ratio.
KEEPING, PACKING, MOST_RATIO = {2, 3}, {1, 32000}, 1032  # shuffle, fletcher32; deflate, lzf


def open_file(
    location: Location,
    *,
    memory: int = DEFAULT_MEMORY,
    layer: str | None = None,
    obsm: str | None = None,
    hvg: bool = False,
    **hints: Any,
) -> Reader:
    """Open ``X``, a layer or an entry of ``obsm``. Columns are variables; sources and labels are columns of ``obs``."""
    return H5ad(location, memory, layer, obsm, hvg=bool(hvg))


class H5ad(Reader):
    """A matrix of an AnnData file, and ``obs``."""

    seekable_rows = None
    row_names: str | None = "obs_names"
    is_oriented = True
    records: Any = None  # of obs, as anndata wrote it before 0.7

    def __init__(self, location: Location, memory: int, layer: str | None, obsm: str | None, *, hvg: bool) -> None:
        self.location, self.most_bytes = location, max(memory, DEFAULT_MEMORY)
        if obsm is not None and (layer is not None or hvg):
            raise DataError(
                f"{location}: an entry of obsm has neither layers nor highly variable genes: ask for one of them."
            )
        with self._file() as file:
            self._check_closed(file)
            if not {"obs", "var"} <= {*file} or ("X" not in file and layer is obsm is None):
                raise DataError(f"{location}: must have X, obs and var, as AnnData writes them. Got {sorted(file)}.")
            if layer == "X" and layer not in file.get("layers", ()):
                layer = None  # where another would be taken by default
            self.group, self.key = ("obsm", obsm) if obsm is not None else ("layers", layer)
            self.matrix = "X" if self.key is None else f"{self.group}[{self.key!r}]"
            X, obs, var = self._X(file), Frame(file, "obs"), Frame(file, "var")
            # Here, where no thread reads yet.
            self.records = None if obs.is_group else self._whole(obs.table)
            kind = _kind(X)
            if kind not in ("array", "csr_matrix"):
                convert = f"adata.{self.matrix} = adata.{self.matrix}.tocsr()"
                raise DataError(
                    f"{location}: {self.matrix} must be dense or CSR, so that it can be read by rows. Got {kind}. "
                    f"Convert it: {convert}, then adata.write_h5ad(path)."
                )
            self.sparse = kind == "csr_matrix"
            given = X.attrs.get("shape", X.attrs.get("h5sparse_shape")) if self.sparse else getattr(X, "shape", None)
            shape = np.asarray(given)
            if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
                got = "nothing" if shape.dtype.kind == "O" else f"shape {tuple(np.atleast_1d(shape).tolist())}"
                raise DataError(f"{location}: {self.matrix} must have two dimensions, rows and variables. Got {got}.")
            n, m = shape.tolist()
            check_width(location, m, memory)
            if self.sparse:
                self.csr = CsrFile(location, (n, m), X["data"], X["indices"], X["indptr"], memory)
            for part in (X["data"], X["indices"], X["indptr"]) if self.sparse else (X,):
                self._check_there(getattr(part, "records", part))
            dtype = X["data"].dtype if self.sparse else X.dtype
            names = [f"{obsm}-{i}" for i in range(m)] if obsm is not None else self._names_of(var, m)
            self.annotations = obs.columns
            if obs.row_names is None:
                self.row_names = None
            used = self._highly_variable(var, m) if hvg else range(m)
        if dtype.kind not in "biuf":
            raise DataError(f"{location}: {self.matrix} must hold numbers. Got type {dtype}.")
        self.n_rows, self.n_stored, self.dtype = n, m, dtype
        if (twice := first_twice(names)) is not None:
            raise DataError(f"{location}: variable {twice!r} occurs twice. Call adata.var_names_make_unique() first.")
        self.numbers = {names[i]: i for i in used}
        self.columns = dict.fromkeys(self.numbers, dtype)

    def _X(self, file: Any) -> Any:
        """Return the matrix: a dataset, a group of the three arrays of CSR, or a field of records."""
        if self.key is None:
            return file["X"]
        there = file.get(self.group, {})
        fields = getattr(getattr(there, "dtype", None), "names", None)  # as anndata wrote obsm before 0.7
        known = [*(fields or there)]
        if self.key not in known:
            listed = ", ".join(map(repr, known)) or "nothing"
            what = "layer" if self.group == "layers" else "entry of obsm"
            raise DataError(f"{self.location}: has no {what} {self.key!r}. {self.group} has {listed}.")
        return Field(there, self.key) if fields else there[self.key]

    def _names_of(self, var: Frame, m: int) -> list[str]:
        """Return the names of the variables."""
        names = var.row_names
        if names is None or names.shape != (m,):
            shape = "no names" if names is None else f"names of shape {names.shape}"
            raise DataError(f"{self.location}: {self.matrix} has {m} columns, var has {shape}.")
        return texts(self._whole(names))

    def _highly_variable(self, var: Frame, m: int) -> list[int]:
        """Return the numbers of the highly variable genes."""
        if HVG not in var.columns:
            raise DataError(
                f"{self.location}: var has no column {HVG!r}. Choose such genes first: "
                "scanpy.pp.highly_variable_genes(adata), then adata.write_h5ad(path)."
            )
        values = var.arrow(HVG, 0, m, self._whole).to_pylist()
        if len(values) != m or not {*values} <= {True, False}:
            raise DataError(f"{self.location}: column {HVG!r} of var must say true or false of each of {m} variables.")
        return [i for i, value in enumerate(values) if value]

    def _batches(self, start: int, stop: int | None, features: Sequence[str], others: Sequence[str]) -> Iterator[Batch]:
        """Yield batches of X and columns of obs."""
        stop = self.n_rows if stop is None else stop
        assert stop is not None
        wanted = [self.numbers[name] for name in features]
        everything = wanted == list(range(self.n_stored))
        with self._file() as file:
            X, obs = self._X(file), Frame(file, "obs", self.records)
            pieces = self._csr_pieces(X, start, stop) if self.sparse else self._dense_pieces(X, start, stop)
            for i, Xt in pieces:
                j = i + Xt.shape[0]
                columns = {name: self._other(obs, name, Xt, i, j) for name in others}
                yield Batch(Xt if everything else Xt[:, wanted], columns)

    def _dense_pieces(self, X: Any, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        step = batch_rows(self.dtype, self.n_stored)
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
                "there is room for. Allow more with memory=."
            )

    def _whole(self, dataset: Any) -> Any:
        """Return all values of a dataset."""
        self._check_room(dataset.nbytes, dataset.name)
        return dataset[:]

    def _other(self, obs: Frame, name: str, Xt: Any, start: int, stop: int) -> Any:
        """Return rows of a column of obs, of its names of rows, or else of the matrix, as an array of Arrow."""
        import pyarrow as pa

        if name in self.annotations:
            column = obs.column(name)
            if hasattr(column, "shape") and len(column.shape or ()) != 1:
                raise DataError(f"{self.location}: column {name!r} of obs must have one value for each row of X.")
            values = obs.arrow(name, start, stop, self._whole)
        elif name in self.numbers:
            column = Xt[:, [self.numbers[name]]]
            return pa.array((column.toarray() if self.sparse else column).ravel())
        else:
            values = pa.array(texts(obs.row_names[start:stop]), pa.string())
        if len(values) < stop - start:
            raise DataError(f"{self.location}: column {name!r} of obs is shorter than X.")
        return values

    @contextmanager
    def _file(self) -> Iterator[Any]:
        try:
            import h5py
        except ModuleNotFoundError:
            raise DataError(
                f"{self.location}: reading HDF5 needs h5py. Install it with: pip install 'dbmd[anndata]'"
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


def _kind(X: Any) -> str:
    """Return how a matrix is stored: as "array", "csr_matrix", or in another way."""
    if hasattr(X, "shape"):
        return "array"
    kind = X.attrs.get("encoding-type", X.attrs.get("h5sparse_format", "a group"))
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    return {"csr": "csr_matrix", "csc": "csc_matrix"}.get(kind, kind)  # as anndata wrote them before 0.7
