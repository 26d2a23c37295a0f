"""One table, written in every format and every variant of it: readers must return the same samples."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from fsspec.implementations.memory import MemoryFileSystem
from scipy import sparse


class Apart(MemoryFileSystem):
    """Files in memory, as in an object store: each open file has a position of its own.

    In fsspec's own ``memory://``, all open copies of a file share one position.
    """

    protocol = "apart"
    store: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(f"memory://{path.removeprefix('apart://')}")

    def _open(self, path, mode="rb", **options):
        return io.BytesIO(self.store[path].getvalue()) if mode == "rb" else super()._open(path, mode, **options)


fsspec.register_implementation("apart", Apart, clobber=True)
SOURCE, LABEL, NOTE = "lab", "kind", "note"


@dataclass(frozen=True)
class Table:
    """Samples, the number of the source and of the class of each, and a text for each."""

    X: np.ndarray
    sources: np.ndarray
    classes: np.ndarray
    notes: tuple[str, ...]

    @property
    def names(self):
        return [f"x{i}" for i in range(self.X.shape[1])]

    def rows(self, start, stop):
        return Table(self.X[start:stop], self.sources[start:stop], self.classes[start:stop], self.notes[start:stop])

    def columns(self):
        """Return all columns by name, features last."""
        named = {SOURCE: self.sources, LABEL: self.classes, NOTE: list(self.notes)}
        return named | dict(zip(self.names, self.X.T, strict=True))


def table(rng, n=700, m=5, *, kind="quarters"):
    """Return a table of about a third zeros; quarters and small whole numbers are exact in every type."""
    X = rng.integers(-8, 9, (n, m)) / 4.0 if kind == "quarters" else rng.integers(0, 9, (n, m)).astype(float)
    if kind == "normal":
        X = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-8, 8, (n, m))
    X *= rng.random((n, m)) < 2 / 3
    notes = tuple(f"n{i % 7}" for i in range(n))
    return Table(X, rng.integers(0, 3, n), rng.integers(3, 7, n), notes)


@dataclass(frozen=True)
class Written:
    """The path of a table, and the names of its columns there."""

    path: str
    features: list[str]
    source: str = SOURCE
    label: str = LABEL
    note: str | None = NOTE


@dataclass(frozen=True)
class Variant:
    """How a table may be written: ``write(table, folder, stem)`` returns a :class:`Written`."""

    format: str
    write: Callable[[Table, Path, str], Written]
    sparse: bool = False
    kind: str = "quarters"  # numbers that it can hold exactly
    has_names: bool = True


# -- text ----------------------------------------------------------------------------------------------------------


def as_csv(
    suffix=".csv",
    delimiter=",",
    end="\n",
    *,
    header=True,
    mark=b"",
    quote=csv.QUOTE_MINIMAL,
    note=str,
    last=True,
    codec=None,
    row_names=False,
):
    """Return how to write text; ``row_names``: as R's write.table, which has no name for the column of them."""

    def write(table, folder, stem):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quote)
        columns = table.columns() | {NOTE: [note(text) for text in table.notes]}
        if header:
            writer.writerow(columns)
        if row_names:
            columns = {"": [f"row {i}" for i in range(len(table.X))]} | columns
        rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True)
        writer.writerows(rows)
        data = mark + text.getvalue().encode()
        if not last:
            data = data.removesuffix(end.encode())
        path = folder / f"{stem}{suffix}"
        packed = codec or {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}.get(path.suffix)
        if packed == "xz":
            path.write_bytes(lzma.compress(data))
        elif packed and packed != "none":
            with pa.CompressedOutputStream(str(path), packed) as file:
                file.write(data)
        else:
            path.write_bytes(data)
        if header:
            return Written(str(path), table.names)
        return Written(str(path), [str(3 + i) for i in range(table.X.shape[1])], "0", "1", "2")

    return Variant("csv", write, has_names=header)


# -- parquet -------------------------------------------------------------------------------------------------------


def as_parquet(column=pa.array, other=pa.array, kind="quarters", **options):
    def write(table, folder, stem):
        columns = {
            name: column(values) if name in table.names else other(values) for name, values in table.columns().items()
        }
        path = folder / f"{stem}.parquet"
        pq.write_table(pa.table(columns), path, **options)
        return Written(str(path), table.names)

    return Variant("parquet", write, kind=kind)


def decimals(values):
    return pa.array([Decimal(str(value)) for value in values], pa.decimal128(10, 4))


def of_type(kind):
    return lambda values: pa.array(np.asarray(values)).cast(kind)


# -- arrays --------------------------------------------------------------------------------------------------------


def _with_others(table):
    features = [str(i) for i in range(table.X.shape[1])]
    last = len(features)
    return np.column_stack([table.X, table.sources, table.classes]), (features, str(last), str(last + 1), None)


def as_npy(dtype="<f8", order="C", kind="quarters"):
    def write(table, folder, stem):
        X, names = _with_others(table)
        np.save(folder / f"{stem}.npy", np.asarray(X, dtype, order=order))
        return Written(str(folder / f"{stem}.npy"), *names)

    return Variant("npy", write, kind=kind, has_names=False)


def as_npz(*, compressed=True, dtype="<f8", kind="quarters"):
    def write(table, folder, stem):
        X, names = _with_others(table)
        sparse.save_npz(folder / f"{stem}.npz", sparse.csr_matrix(X.astype(dtype)), compressed=compressed)
        return Written(str(folder / f"{stem}.npz"), *names)

    return Variant("npz", write, sparse=True, kind=kind, has_names=False)


def as_array_npz(dtype="<f8", order="C", kind="quarters"):
    def write(table, folder, stem):
        X, names = _with_others(table)
        np.savez_compressed(folder / f"{stem}.npz", np.asarray(X, dtype, order=order))
        return Written(str(folder / f"{stem}.npz"), *names)

    return Variant("npz", write, kind=kind, has_names=False)


def as_mtx(suffix=".mtx", form=sparse.coo_matrix, dtype="<f8", kind="quarters"):
    def write(table, folder, stem):
        X, names = _with_others(table)
        path = folder / f"{stem}{suffix}"
        text = io.BytesIO()
        scipy.io.mmwrite(text, form(X.astype(dtype)), symmetry="general")
        path.write_bytes(gzip.compress(text.getvalue()) if suffix.endswith(".gz") else text.getvalue())
        return Written(str(path), *names)

    return Variant("mtx", write, sparse=form is sparse.coo_matrix, kind=kind, has_names=False)


def as_10x(*, old=False):
    """Return how to write a folder of 10x, of version 2 or 3."""

    def write(table, folder, stem):
        X, names = _with_others(table)[0], [*table.names, SOURCE, LABEL]
        place = folder / stem
        place.mkdir()
        text = io.BytesIO()
        scipy.io.mmwrite(text, sparse.coo_matrix(X.T.astype(int)), symmetry="general")
        barcodes = "".join(f"c{i}-1\n" for i in range(len(X)))
        features = "".join(
            f"ENSG{j}\t{name}" + ("\n" if old else "\tGene Expression\n") for j, name in enumerate(names)
        )
        files = {"matrix.mtx": text.getvalue(), "barcodes.tsv": barcodes.encode()}
        files["genes.tsv" if old else "features.tsv"] = features.encode()
        for name, data in files.items():
            (place / (name if old else f"{name}.gz")).write_bytes(data if old else gzip.compress(data))
        return Written(str(place / ("matrix.mtx" if old else "matrix.mtx.gz")), table.names, note=None)

    return Variant("mtx", write, sparse=True, kind="whole")


def as_10x_h5(*, old=False):
    """Return how to write a file of 10x, of version 2 or 3."""

    def write(table, folder, stem):
        import h5py

        X, names = sparse.csr_matrix(_with_others(table)[0].astype("i4")), [*table.names, SOURCE, LABEL]
        with h5py.File(folder / f"{stem}.h5", "w") as file:
            group = file.create_group("GRCh38" if old else "matrix")
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(X, name), chunks=True, compression="gzip")
            group["shape"] = np.array(X.shape[::-1], "i4")
            group["barcodes"] = np.array([f"c{i}-1".encode() for i in range(X.shape[0])])
            group["gene_names" if old else "features/name"] = np.array([name.encode() for name in names])
            if not old:
                group["features/feature_type"] = np.array([b"Gene Expression"] * len(names))
        return Written(str(folder / f"{stem}.h5"), table.names, note=None)

    return Variant("h5", write, sparse=True, kind="whole")


def as_h5ad(form=np.asarray, dtype="<f8", obs=np.asarray, kind="quarters", **options):
    def write(table, folder, stem):
        import anndata
        import pandas as pd

        annotations = {SOURCE: obs(table.sources), LABEL: obs(table.classes), NOTE: list(table.notes)}
        index = [f"c{i}" for i in range(len(table.X))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = anndata.AnnData(
                form(table.X.astype(dtype)),
                obs=pd.DataFrame(annotations, index=index),
                var=pd.DataFrame(index=table.names),
            )
            data.write_h5ad(folder / f"{stem}.h5ad", **options)
        return Written(str(folder / f"{stem}.h5ad"), table.names)

    return Variant("h5ad", write, sparse=form is sparse.csr_matrix, kind=kind)


def categorical(values):
    import pandas as pd

    return pd.Categorical(values)


def nullable(values):
    import pandas as pd

    return pd.array(values, dtype="Int64")


# -- elsewhere -----------------------------------------------------------------------------------------------------


def remote(variant):
    """Return the variant at an address that fsspec opens."""

    def write(table, folder, stem):
        written = variant.write(table, folder, stem)
        local = Path(written.path)
        address = f"apart://{folder.name}/{local.name}"
        with fsspec.open(address, "wb") as file:
            file.write(local.read_bytes())
        local.unlink()
        return replace(written, path=address)

    return replace(variant, write=write)


VARIANTS: dict[str, Variant] = {
    "csv": as_csv(),
    "csv without header": as_csv(header=False),
    "tsv": as_csv(".tsv", "\t"),
    "semicolons": as_csv(delimiter=";"),
    "bars": as_csv(delimiter="|"),
    "CRLF": as_csv(end="\r\n"),
    "CR": as_csv(end="\r"),
    "no line break at the end": as_csv(last=False),
    "byte order mark": as_csv(mark=b"\xef\xbb\xbf"),
    "byte order mark without header": as_csv(mark=b"\xef\xbb\xbf", header=False),
    "all fields quoted": as_csv(quote=csv.QUOTE_ALL),
    "line breaks, quotes and commas in text": as_csv(note=lambda text: f'{text},\n"{text}";\r\n'),
    "empty lines": as_csv(end="\n\n"),
    "csv.gz": as_csv(".csv.gz"),
    "csv.bz2": as_csv(".csv.bz2"),
    "csv.zst": as_csv(".csv.zst"),
    "csv.lz4": as_csv(".csv.lz4"),
    "csv.xz": as_csv(".csv.xz"),
    "tsv.gz": as_csv(".tsv.gz", "\t"),
    "gzip that is called csv": as_csv(codec="gzip"),
    "plain text that is called csv.bz2": as_csv(".csv.bz2", codec="none"),
    "R, spaces": as_csv(".txt", " ", quote=csv.QUOTE_NONNUMERIC, row_names=True),
    "R, tabs, no quotes": as_csv(".tsv", "\t", row_names=True),
    "name in capitals": as_csv(".CSV"),
    "parquet": as_parquet(),
    "row groups": as_parquet(row_group_size=97),
    "gzip in parquet": as_parquet(compression="gzip"),
    "dictionary columns": as_parquet(
        lambda values: pa.array(values).dictionary_encode(), lambda values: pa.array(values).dictionary_encode()
    ),
    "decimals": as_parquet(decimals),
    "float32 in parquet": as_parquet(of_type(pa.float32())),
    "int8 in parquet": as_parquet(of_type(pa.int8()), kind="whole"),
    "uint64 in parquet": as_parquet(of_type(pa.uint64()), kind="whole"),
    "large strings": as_parquet(
        other=lambda values: pa.array(values, pa.large_string()) if isinstance(values, list) else pa.array(values)
    ),
    "npy": as_npy(),
    "npy in Fortran order": as_npy(order="F"),
    "npy, big endian": as_npy(">f8"),
    "npy of float16": as_npy("<f2"),
    "npy of int16, big endian": as_npy(">i2", kind="whole"),
    "npy of bytes": as_npy("u1", kind="whole"),
    "npz": as_npz(),
    "npz, not compressed": as_npz(compressed=False),
    "npz of int16": as_npz(dtype="<i2", kind="whole"),
    "npz of an array": as_array_npz(),
    "npz of an array in Fortran order": as_array_npz(">i2", "F", "whole"),
    "mtx": as_mtx(),
    "mtx.gz of integers": as_mtx(".mtx.gz", dtype=int, kind="whole"),
    "mtx, dense": as_mtx(form=np.asarray),
    "10x": as_10x(),
    "10x in HDF5": as_10x_h5(),
    "h5ad": as_h5ad(),
    "h5ad of float32": as_h5ad(dtype="<f4"),
    "h5ad, categories": as_h5ad(obs=categorical),
    "h5ad, integers that may be missing": as_h5ad(obs=nullable),
    "h5ad, compressed": as_h5ad(compression="gzip"),
    "h5ad, CSR": as_h5ad(sparse.csr_matrix),
    "h5ad, CSR of integers": as_h5ad(sparse.csr_matrix, "<i4", kind="whole"),
    "csv elsewhere": remote(as_csv()),
    "csv.gz elsewhere": remote(as_csv(".csv.gz")),
    "parquet elsewhere": remote(as_parquet(row_group_size=97)),
    "npy elsewhere": remote(as_npy()),
    "npy in Fortran order elsewhere": remote(as_npy(order="F")),
    "npz elsewhere": remote(as_npz()),
    "mtx elsewhere": remote(as_mtx()),
    "h5ad elsewhere": remote(as_h5ad()),
    "h5ad, CSR elsewhere": remote(as_h5ad(sparse.csr_matrix)),
}
# One or two of each format, for tests that would take too long with all variants.
PLAIN = {
    name: VARIANTS[name]
    for name in ("csv", "csv.gz", "row groups", "npy", "npy in Fortran order", "npz", "h5ad", "h5ad, CSR")
}


def dense(Xt: Any) -> np.ndarray:
    return Xt.toarray() if sparse.issparse(Xt) else np.asarray(Xt)


def readers_at_work():
    """Return the threads that read in advance."""
    return [thread for thread in threading.enumerate() if thread.name == "dbmd-prefetch"]


def contents(data, n_nodes=None):
    """Return samples, sources and classes of a dataset, in order, as its nodes hold them."""
    n, m = data.shape
    X, sources, classes = np.full((n, m), np.nan), np.full(n, -1), np.full(n, -1)
    for node in data.nodes(n_nodes, 1):
        for chunk in node.block.chunks():
            rows = node.block.first_row + chunk.numbers
            assert (sources[rows] == -1).all(), "a row came twice"
            X[rows], sources[rows] = dense(chunk.Xt), chunk.source_code
            if chunk.class_codes is not None:
                classes[rows] = chunk.class_codes
    return X, sources, classes
