"""Data to fit: arrays in memory, or files of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dbmd.data import partition
from dbmd.data.block import float_type
from dbmd.data.columns import Wanted, choose, complete, computing_type
from dbmd.data.cut import cut, ranges
from dbmd.data.files import open_all
from dbmd.data.formats import Reader
from dbmd.data.kept import Kept, storage_type, stored_bytes
from dbmd.data.recipe import Recipe
from dbmd.data.scan import Scan, scan
from dbmd.data.stream import Shard, Stream, no_notice
from dbmd.engines.local import Engine, available_threads
from dbmd.errors import DataError
from dbmd.model.node import Node

MEMORY = 512_000_000  # bytes: data up to this size are decoded once and kept
ROWS_SHARE = 4  # what is kept for each sample beside them, memberships above all, may take a quarter of that


@dataclass(frozen=True)
class Dataset:
    """Samples with their sources, wherever they are.

    Attributes
    ----------
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    sources : array of shape (n_sources,), optional
        Names of the sources; without it there is one, and it has no name.
    make_nodes : callable
        ``make_nodes(n_nodes)`` returns the samples as nodes; n_nodes may be None.
    memory : int or None
        Bytes that the data may take to be kept in memory, and memberships a quarter of it; None: no limit.
    feature_names : list of str, optional
        Names of the features.
    classes : array of shape (n_classes,), optional
        Names of the known classes.
    about : dict
        Where the data come from, for the record: paths, columns, fingerprint.
    place : str
        Where they are now, for people.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sources: NDArray[Any] | None
    make_nodes: Callable[[int | None], list[Node]]
    memory: int | None = None
    feature_names: Sequence[str] | None = None
    classes: NDArray[Any] | None = None
    about: Mapping[str, Any] | None = None
    place: str = "in memory"

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return 1 if self.sources is None else len(self.sources)

    @property
    def source_names(self) -> NDArray[Any]:
        """Names of the sources, shape (n_sources,); one without a name is called 0."""
        return np.array([0]) if self.sources is None else self.sources

    def keeps_rows(self, r: int) -> bool:
        """Say whether there is room to keep r memberships for each sample."""
        # Beside the memberships, the start keeps a distance and a number.
        bytes_per_row = r * self.dtype.itemsize + self.dtype.itemsize + 4
        return self.memory is None or self.shape[0] * bytes_per_row <= self.memory // ROWS_SHARE

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the samples as nodes that keep r memberships for each of them, if there is room."""
        keeps = self.keeps_rows(r)
        return [replace(node, keeps_rows=keeps) for node in self.make_nodes(n_nodes)]


def in_memory(
    Xt: Any, sources: NDArray[Any] | None = None, codes: NDArray[np.intp] | int = 0, feature_names: Any = None
) -> Dataset:
    """Return arrays as a dataset.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    sources : array of shape (n_sources,), optional
        Names of the sources.
    codes : array of int of shape (n,), or an int
        The number of the source of each sample, or of all.
    feature_names : array of str of shape (m,), optional
        Names of the features.
    """
    dtype = float_type(Xt.dtype)
    return Dataset(
        Xt.shape,
        dtype,
        sources,
        lambda n_nodes: partition(Xt, codes, n_nodes or available_threads(), dtype),
        feature_names=feature_names,
    )


def open_data(
    paths: str | Path | Iterable[str | Path],
    *,
    source: str | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    encode: Sequence[str] | Mapping[str, Sequence[Any]] = (),
    dtype: DTypeLike | None = None,
    memory: int = MEMORY,
    keep: Sequence[str] = (),
    on_rows: Callable[[int], object] = no_notice,
    header: bool | None = None,
    delimiter: str | None = None,
) -> Dataset:
    """Open files of any size as data to fit: ``DBMD(10).fit(open_data("cells.parquet", source="batch"))``.

    They are read once to see whether they are sound. What is small is then kept in memory; what is not is read again in
    every pass, in bounded pieces.

    Parameters
    ----------
    paths : str, Path or iterable of them
        Files (csv, parquet, npy, npz, h5ad), folders of them, or addresses that pyarrow or fsspec can open. Their rows
        are taken one file after the other.
    source : str, optional
        The column that names the source of each sample; "@file": each file is a source of its own. Without it all
        samples are of one source.
    label : str, optional
        A column with known classes: never a feature, only compared with the clusters found.
    columns : sequence of str, optional
        The columns to take as features, in this order; by default all others.
    drop : sequence of str
        Columns to leave out.
    encode : sequence of str, or mapping of str to categories
        Columns of text to one-hot code. With a mapping, the categories are given.
    dtype : dtype, optional
        Type to compute with, float32 or float64; by default the least that holds the numbers.
    memory : int
        Bytes: data up to this size are kept in memory, and memberships up to a quarter of it.
    keep : sequence of str
        Columns to hand through to who reads the rows; the data then stay in their files.
    on_rows : callable
        Told how many rows were read whenever some were, in any thread: for a progress bar.
    header : bool, optional
        Whether csv files have a line with names; found out by default.
    delimiter : str, optional
        Of csv files; found out by default.

    Returns
    -------
    Dataset
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    # A name alone is one name, not one for each letter.
    columns = [columns] if isinstance(columns, str) else columns
    drop = [drop] if isinstance(drop, str) else drop
    encode = [encode] if isinstance(encode, str) else encode
    readers = open_all(listed, header=header, delimiter=delimiter)
    recipe, types = choose(readers, Wanted(source, label, columns, drop, tuple(encode), keep))
    dtype = computing_type(types, dtype)
    found = _scan(readers, recipe, dtype, on_rows)
    n, where = sum(found.rows.values()), str(readers[0].location)
    if not n:
        raise DataError(f"{where}: has no rows." if len(readers) == 1 else "The files have no rows.")
    recipe = complete(recipe, found, encode if isinstance(encode, Mapping) else {}, where)

    about = {
        "paths": [str(path) for path in listed],
        "source": source,
        "label": label,
        "encode": {name: values.tolist() for name, values in recipe.encoded.items()},
        "header": header,
        "delimiter": delimiter,
        "fingerprint": f"{found.fingerprint:016x}",
    }
    data = Dataset(
        shape=(n, len(recipe.feature_names)),
        dtype=dtype,
        sources=recipe.sources,
        make_nodes=partial(cut, readers, recipe, dtype, found.rows, available_threads(), on_rows),
        memory=memory,
        feature_names=recipe.feature_names,
        classes=recipe.classes,
        about=about,
        place=f"read from {'the file' if len(readers) == 1 else f'{len(readers)} files'} in every pass",
    )
    stored = storage_type(types, found, dtype, encodes=bool(recipe.encoded))
    size = stored_bytes(data.shape, found, stored, is_sparse=readers[0].sparse)
    if any(reader.decodes for reader in readers) and not keep and size <= memory:
        return _kept(data, stored)
    return data


def _scan(readers: Sequence[Reader], recipe: Recipe, dtype: np.dtype[Any], on_rows: Callable[[int], object]) -> Scan:
    """Read all files once, in parallel."""
    nodes = []
    for reader in readers:
        for start, stop in ranges(reader, available_threads() if len(readers) < available_threads() else 1):
            block = Stream([Shard(reader, start, stop)], recipe, (0, 0), dtype, on_rows=on_rows)
            nodes.append(Node(str(reader.location), block))
    with Engine(nodes) as engine:
        found: Scan = engine.ask(partial(scan, dtype=dtype))
    return found


def _kept(data: Dataset, stored: np.dtype[Any]) -> Dataset:
    """Return the same data, decoded and kept in memory."""
    nodes = data.make_nodes(None)
    kept = Kept(data.shape, stored, is_sparse=nodes[0].block.is_sparse, has_classes=data.classes is not None)
    with Engine(nodes) as engine:
        engine.ask(kept.take)
    Xt = kept.joined()
    codes = kept.sources if data.n_sources > 1 else 0
    usual = max(len(nodes), available_threads())
    return replace(
        data,
        make_nodes=lambda n_nodes: partition(Xt, codes, n_nodes or usual, data.dtype, kept.classes),
        place="in memory",
    )
