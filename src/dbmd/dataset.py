"""Data to fit: arrays in memory, or files of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dbmd.data import partition
from dbmd.data.address import shown
from dbmd.data.block import canonical, float_type
from dbmd.data.columns import Wanted, choose, choose_named, complete, computing_type
from dbmd.data.cut import cut, ranges
from dbmd.data.files import open_all
from dbmd.data.formats import MEMORY, Reader
from dbmd.data.kept import Kept, ToKeep, storage_type, stored_bytes
from dbmd.data.part import Numbering, OnBlocks, Stock, of_array, of_table, take_stock
from dbmd.data.recipe import Recipe
from dbmd.data.scan import Scan, scan
from dbmd.data.stream import Shard, Stream, no_notice
from dbmd.engines.local import Engine as LocalEngine
from dbmd.engines.local import available_threads
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import Engine, MakeEngine, NodeFunction, Reply
from dbmd.registry import load, load_engine

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
    source_names : array of shape (n_sources,), optional
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
    lives_on : str, optional
        The engine that has the samples, if they are not here.
    numbering : Numbering, optional
        What makes blocks of the parts that its nodes hold.
    is_here : bool
        Whether something of the size of the samples may come here: their labels.
    on_close : callable
        Called when they are no longer needed.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    source_names: NDArray[Any] | None
    make_nodes: Callable[[int | None], list[Node]]
    memory: int | None = None
    feature_names: Sequence[str] | None = None
    classes: NDArray[Any] | None = None
    about: Mapping[str, Any] | None = None
    place: str = "in memory"
    lives_on: str | None = None
    numbering: Numbering | None = None
    is_here: bool = True
    on_close: Callable[[], object] = lambda: None

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return 1 if self.source_names is None else len(self.source_names)

    @property
    def model_sources(self) -> NDArray[Any]:
        """The ``sources_`` of a model of these data, shape (n_sources,): a source without a name is called 0."""
        return np.array([0]) if self.source_names is None else self.source_names

    def keeps_rows(self, r: int) -> bool:
        """Say whether there is room to keep r memberships for each sample."""
        # Beside the memberships, the start keeps a distance and a number.
        bytes_per_row = r * self.dtype.itemsize + self.dtype.itemsize + 4
        return self.memory is None or self.shape[0] * bytes_per_row <= self.memory // ROWS_SHARE

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the samples as nodes that keep r memberships for each of them, if there is room."""
        keeps = self.keeps_rows(r)
        return [replace(node, keeps_rows=keeps) for node in self.make_nodes(n_nodes)]

    def on(self, engine: str | MakeEngine, n_nodes: int | None, r: int) -> Engine:
        """Return an engine, by its name or what makes it, with the samples as its nodes; it is a context manager."""
        if self.lives_on is not None and engine != self.lives_on:
            raise ValueError(
                f"The data are on {self.lives_on}: fit them with engine={self.lives_on!r}. Got {engine!r}."
            )
        make = load_engine(engine) if isinstance(engine, str) else engine
        if self.numbering is not None:
            return OnParts(make(self.make_nodes(n_nodes)), self.numbering)
        return make(self.nodes(n_nodes, r))

    def close(self) -> None:
        """Let go of what an engine holds of the data."""
        self.on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OnParts:
    """An engine on blocks, around an engine whose nodes hold parts of a dataset.

    Parameters
    ----------
    engine : Engine
        With nodes that hold parts.
    numbering : Numbering
        What makes blocks of them.
    """

    def __init__(self, engine: Engine, numbering: Numbering) -> None:
        self.engine, self.numbering, self.n_nodes = engine, numbering, engine.n_nodes

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and add the replies."""
        return self.engine.ask(OnBlocks(node_function, self.numbering), *broadcast)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def in_memory(
    Xt: Any,
    source_names: NDArray[Any] | None = None,
    source_codes: NDArray[np.intp] | int = 0,
    feature_names: Any = None,
) -> Dataset:
    """Return arrays as a dataset.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    source_names : array of shape (n_sources,), optional
        Names of the sources.
    source_codes : array of int of shape (n,), or an int
        The number of the source of each sample, or of all.
    feature_names : array of str of shape (m,), optional
        Names of the features.
    """
    dtype = float_type(Xt.dtype)
    Xt = canonical(Xt) if sparse.issparse(Xt) else Xt
    return Dataset(
        Xt.shape,
        dtype,
        source_names,
        lambda n_nodes: partition(Xt, source_codes, n_nodes or available_threads(), dtype),
        feature_names=feature_names,
    )


def is_path(data: Any) -> bool:
    """Say whether data are a path, or several."""
    several = isinstance(data, list | tuple) and bool(data)
    return isinstance(data, str | Path) or (several and all(isinstance(each, str | Path) for each in data))


def framework_of(data: Any) -> str | None:
    """Return the engine that data belong to by their type: of Spark or Dask; None: to no one."""
    if isinstance(data, list | tuple) and data:
        return framework_of(data[0])
    return {"pyspark": "spark", "dask": "dask", "dask_expr": "dask"}.get(type(data).__module__.split(".")[0])


def open_data(
    data: Any,
    *,
    source: Any = None,
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
    engine: str = "local",
    n_nodes: int | None = None,
) -> Dataset:
    """Open data of any size to fit: ``DBMD(10).fit(open_data("cells.parquet", source="batch"))``.

    Files are read once to see whether they are sound. What is small is then kept in memory; what is not is read again
    in every pass, in bounded pieces. DataFrames and arrays of Spark and Dask stay where they are.

    Parameters
    ----------
    data : str, Path or iterable of them; or a collection of Spark or Dask
        Files (csv, parquet, npy, npz, h5ad), folders of them, or addresses that pyarrow or fsspec can open. Their rows
        are taken one file after the other. Or a DataFrame of Spark (columns of numbers, or one column of vectors or
        arrays), a dask.array of shape (n, m), a dask.dataframe, or a list of delayed arrays: these are computed once,
        and lie where they were computed until the dataset is closed.
    source : str, optional
        The column that names the source of each sample; "@file": each file is a source of its own. Without it all
        samples are of one source. For a dask.array, an array of names of shape (n,); for delayed arrays, a list of
        them.
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
        Bytes: data up to this size are kept in memory, and memberships up to a quarter of it. With another engine than
        the local one its workers keep all that has to be decoded.
    keep : sequence of str
        Columns to hand through to who reads the rows; the data then stay in their files.
    on_rows : callable
        Told how many rows were read whenever some were, in any thread: for a progress bar.
    header : bool, optional
        Whether csv files have a line with names; found out by default.
    delimiter : str, optional
        Of csv files; found out by default.
    engine : str
        The engine that is to fit files: it reads them, too, on its workers, which must find them under the same paths.
    n_nodes : int, optional
        Into how many nodes to cut a collection of Spark or Dask; by default as it is.

    Returns
    -------
    Dataset
    """
    # A name alone is one name, not one for each letter.
    columns = [columns] if isinstance(columns, str) else columns
    drop = [drop] if isinstance(drop, str) else drop
    encode = [encode] if isinstance(encode, str) else encode
    hints = {"header": header, "delimiter": delimiter}
    categories = encode if isinstance(encode, Mapping) else {}
    wanted = Wanted(source, label, columns, drop, tuple(encode), keep)
    named = f"a collection of {framework_of(data)}" if framework_of(data) else data
    with ExitStack() as stack:
        n_cores = available_threads()
        if engine != "local" and is_path(data):
            session = stack.enter_context(closing(load("engines", engine).Session()))  # started once, for the fit too
            on_rows = no_notice  # workers elsewhere cannot tell
            n_cores, data = session.n_cores, session.read(data)
        framework = framework_of(data)
        if framework is None:
            listed = [data] if isinstance(data, str | Path) else list(data)
            opened = _open_files(listed, wanted, categories, dtype, memory, on_rows, engine, n_cores, hints)
        elif encode or keep or header is not None or delimiter is not None:
            raise DataError("encode, keep, header and delimiter are for files that dbmd reads itself.")
        else:
            opened = _placed(data, framework, wanted, dtype, n_nodes, named)
            stack.callback(opened.on_close)
        return replace(opened, on_close=stack.pop_all().close)


def _open_files(
    paths: list[str | Path],
    wanted: Wanted,
    categories: Mapping[str, Sequence[Any]],
    dtype: DTypeLike | None,
    memory: int,
    on_rows: Callable[[int], object],
    engine: str,
    n_cores: int,
    hints: Mapping[str, Any],
) -> Dataset:
    """Return files as a dataset; see :func:`open_data`."""
    readers = open_all(paths, memory=memory, **hints)
    recipe, types = choose(readers, wanted)
    dtype = computing_type(types, dtype)
    found = _scan(readers, recipe, dtype, on_rows, engine, n_cores)
    n, where = sum(found.rows.values()), str(readers[0].location)
    if not n:
        raise DataError(f"{where}: has no rows." if len(readers) == 1 else "The files have no rows.")
    recipe = complete(recipe, found, categories, where)

    about = {
        "paths": [shown(path) for path in paths],
        "source": wanted.source,
        "label": wanted.label,
        "encode": {name: values.tolist() for name, values in recipe.encoded.items()},
        **hints,
        "fingerprint": f"{found.fingerprint:016x}",
    }
    data = Dataset(
        shape=(n, len(recipe.feature_names)),
        dtype=dtype,
        source_names=recipe.source_names,
        make_nodes=partial(cut, readers, recipe, dtype, found.rows, n_cores, on_rows),
        memory=memory if engine == "local" else None,
        feature_names=recipe.feature_names,
        classes=recipe.classes,
        about=about,
        place=f"read from {'the file' if len(readers) == 1 else f'{len(readers)} files'} in every pass",
        is_here=engine == "local",
    )
    stored = storage_type(types, found, dtype, encodes=bool(recipe.encoded))
    size = stored_bytes(data.shape, found, stored, is_sparse=readers[0].sparse)
    if not any(reader.decodes for reader in readers) or wanted.keep:
        return data
    if engine != "local":
        return _kept_elsewhere(data, stored)
    return _kept(data, stored) if size <= memory else data


def _scan(
    readers: Sequence[Reader],
    recipe: Recipe,
    dtype: np.dtype[Any],
    on_rows: Callable[[int], object],
    engine: str,
    n_cores: int,
) -> Scan:
    """Read all files once, in parallel."""
    nodes = []
    for reader in readers:
        for start, stop in ranges(reader, n_cores if len(readers) < n_cores else 1):
            block = Stream([Shard(reader, start, stop)], recipe, (0, 0), dtype, on_rows=on_rows)
            nodes.append(Node(str(reader.location), block))
    with load("engines", engine).Engine(nodes) as running:
        found: Scan = running.ask(partial(scan, dtype=dtype))
    return found


def _kept(data: Dataset, stored: np.dtype[Any]) -> Dataset:
    """Return the same data, decoded and kept in memory."""
    nodes = data.make_nodes(None)
    kept = Kept(data.shape, stored, is_sparse=nodes[0].samples.is_sparse, has_classes=data.classes is not None)
    with LocalEngine(nodes) as engine:
        engine.ask(kept.take)
    Xt = kept.joined()
    codes = kept.source_codes if data.n_sources > 1 else 0
    usual = max(len(nodes), available_threads())
    return replace(
        data,
        make_nodes=lambda n_nodes: partition(Xt, codes, n_nodes or usual, data.dtype, kept.classes),
        place="in memory",
    )


def _kept_elsewhere(data: Dataset, stored: np.dtype[Any]) -> Dataset:
    """Return the same data, to be decoded and kept by the workers of an engine."""

    def make_nodes(n_nodes: int | None) -> list[Node]:
        return [replace(node, block=ToKeep(cast(Stream, node.block), stored)) for node in data.make_nodes(n_nodes)]

    return replace(data, make_nodes=make_nodes, place="kept by the workers", is_here=False)


def _placed(
    data: Any, engine: str, wanted: Wanted, dtype: DTypeLike | None, n_nodes: int | None, named: Any
) -> Dataset:
    """Return a collection of Spark or Dask as a dataset."""
    module = load("engines", engine)
    kinds = module.columns_of(data)
    if kinds is None:
        if wanted.label is not None or wanted.columns is not None or wanted.drop:
            raise DataError("Arrays have no names: label, columns and drop are for files and frames.")
        placed = module.place(data, of_array, n_nodes=n_nodes, sources=wanted.source)
    else:
        if not isinstance(wanted.source, str | None):
            raise DataError("The source of a DataFrame is the name of one of its columns.")
        features, names = choose_named(kinds, wanted, "The DataFrame")
        to_node = partial(of_table, columns=features, source=wanted.source, label=wanted.label)
        placed = module.place(data, to_node, n_nodes=n_nodes, names=names)
    try:
        if not placed.n_nodes:
            raise DataError("The data have no rows: they have no partitions.")
        with module.Engine(placed) as running:
            stock: Stock = running.ask(take_stock)
        has_sources, has_classes = wanted.source is not None, wanted.label is not None
        numbering = Numbering.of(stock, has_sources=has_sources, has_classes=has_classes, dtype=dtype)
    except BaseException:
        placed.close()
        raise
    return Dataset(
        shape=numbering.shape,
        dtype=numbering.dtype,
        source_names=numbering.source_names,
        make_nodes=lambda n_nodes: placed,
        feature_names=stock.columns,
        classes=numbering.classes,
        about={
            "paths": [shown(name) for name in ([named] if isinstance(named, str | Path) else named)],
            "source": wanted.source if isinstance(wanted.source, str) else None,
            "label": wanted.label,
            "encode": {},
            "fingerprint": f"{stock.fingerprint:016x}",
        },
        place=f"on {engine} in {placed.n_nodes} partition{'s' * (placed.n_nodes != 1)}",
        lives_on=engine,
        numbering=numbering,
        is_here=False,
        on_close=placed.close,
    )
