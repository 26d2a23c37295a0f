"""Samples in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dbmd.data.address import shown
from dbmd.data.columns import computing_type, make_recipe, select_columns
from dbmd.data.files import open_readers
from dbmd.data.finite import Missing
from dbmd.data.formats import Reader
from dbmd.data.loaded import ArrayLoader, DeferredBlock, storage_type, stored_bytes
from dbmd.data.options import ColumnOptions
from dbmd.data.recipe import Recipe, Selection
from dbmd.data.scan import Scan, ScanNode, Unscanned, scan
from dbmd.data.split_files import row_ranges, split_files
from dbmd.data.stream import Shard, ignore
from dbmd.data.weights import ALL_ZERO
from dbmd.dataset._arrays import InMemory
from dbmd.dataset._base import Dataset
from dbmd.engines.local import Engine, available_threads
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import Session
from dbmd.registry import load_engine


@dataclass(frozen=True, kw_only=True, eq=False)
class FileDataset(Dataset):
    """Samples in files, which are read again in every pass, or loaded once by the workers of a cluster.

    Attributes
    ----------
    readers : sequence of Reader
        The files, in the order of the samples.
    recipe : Recipe
        How their columns become samples.
    rows : dict of (str, int) to int
        Number of rows of each shard, by file and first row.
    n_threads : int
        Number of threads that read at once.
    on_rows : callable
        Called with the number of rows whenever some were read.
    load_as : dtype, optional
        Type of the numbers in the memory of workers that load their samples once; None: they are not loaded.
    session : Session, optional
        The cluster whose workers read the files, if any; closed with the dataset.
    """

    readers: Sequence[Reader]
    recipe: Recipe
    rows: Mapping[tuple[str, int], int]
    n_threads: int
    on_rows: Callable[[int], object] = ignore
    load_as: np.dtype[Any] | None = None
    session: Session | None = None

    @property
    def description(self) -> str:
        """Where the samples are, for people."""
        if self.load_as is not None:
            return "kept by the workers"
        return f"read from {'the file' if len(self.readers) == 1 else f'{len(self.readers)} files'} in every pass"

    @property
    def returns_labels(self) -> bool:
        """Whether a fit collects the labels of all samples in this process: not if a cluster fits them."""
        return self.session is None

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the samples as nodes; see :meth:`Dataset.nodes`."""
        keeps = self.keeps_rows(r)
        blocks = split_files(self.readers, self.recipe, self.dtype, self.rows, self.n_threads, self.on_rows, n_nodes)
        if self.load_as is None:
            return [Node(block.name, block, keeps_rows=keeps) for block in blocks]
        return [
            Node(block.name, DeferredBlock(block, self.load_as, block.first_row), keeps_rows=keeps) for block in blocks
        ]

    def close(self) -> None:
        """Close the session of the cluster."""
        if self.session is not None:
            self.session.close()


def open_files(
    paths: Sequence[str | Path],
    options: ColumnOptions,
    categories: Mapping[str, Sequence[Any]],
    dtype: DTypeLike | None,
    memory: int,
    on_rows: Callable[[int], object],
    hints: Mapping[str, Any],
    engine: str,
    session: Session | None,
) -> FileDataset | InMemory:
    """Return files as a dataset, loaded if they are small; see :func:`dbmd.open_data`."""
    readers = open_readers(paths, memory=memory, **hints)
    selection, types = select_columns(readers, options)
    dtype = computing_type(types, dtype)
    n_threads = available_threads() if session is None else session.n_cores
    # Files are read by threads, whatever the engine of this process.
    found = _scan(
        readers, selection, dtype, options.missing, on_rows, "local" if session is None else engine, n_threads
    )
    n, where = sum(found.rows.values()), str(readers[0].location)
    if not n:
        raise DataError(f"{where}: has no rows." if len(readers) == 1 else "The files have no rows.")
    if options.sample_weight is not None and not found.weight:
        raise DataError(f"{where}: column {options.sample_weight!r}: {ALL_ZERO}")
    recipe = make_recipe(selection, found, categories, where)
    shape = n, len(recipe.feature_names)
    stored = storage_type(types, found, dtype, encodes=bool(recipe.categories))
    is_local, is_loaded = session is None, any(reader.decodes for reader in readers) and not options.keep
    files = FileDataset(
        shape=shape,
        dtype=dtype,
        source_names=recipe.source_names,
        feature_names=recipe.feature_names,
        class_names=recipe.class_names,
        missing=options.missing,
        map_shape=readers[0].map_shape if len(readers) == 1 else None,
        about={
            "paths": [shown(path) for path in paths],
            "source": options.source,
            "label": options.label,
            **({} if options.sample_weight is None else {"sample_weight": options.sample_weight}),
            "encode": {name: values.tolist() for name, values in recipe.categories.items()},
            **hints,
            "fingerprint": f"{found.fingerprint:016x}",
        },
        memory=memory if is_local else None,
        readers=readers,
        recipe=recipe,
        rows=found.rows,
        n_threads=n_threads,
        on_rows=on_rows,
        load_as=stored if is_loaded and not is_local else None,
        session=session,
    )
    if is_local and is_loaded and stored_bytes(shape, found, stored, is_sparse=readers[0].sparse) <= memory:
        return _loaded(files, stored)
    return files


def _scan(
    readers: Sequence[Reader],
    selection: Selection,
    dtype: np.dtype[Any],
    missing: Missing,
    on_rows: Callable[[int], object],
    engine: str,
    n_threads: int,
) -> Scan:
    """Read all files once, in parallel."""
    nodes: list[Node] = []
    for reader in readers:
        for start, stop in row_ranges(reader, n_threads if len(readers) < n_threads else 1):
            rows = Unscanned(Shard(reader, start, stop), selection, on_rows)
            nodes.append(ScanNode(str(reader.location), rows=rows))
    with load_engine(engine)(nodes) as running:
        return running.ask(partial(scan, dtype=dtype, missing=missing))


def _loaded(files: FileDataset, stored: np.dtype[Any]) -> InMemory:
    """Return the same data in memory."""
    nodes = files.nodes(None, 0)
    is_sparse = files.readers[0].sparse  # as all of them
    loader = ArrayLoader(
        files.shape,
        stored,
        is_sparse=is_sparse,
        has_classes=files.class_names is not None,
        has_weights=files.recipe.selection.sample_weight is not None,
    )
    with Engine(nodes) as engine:
        engine.ask(loader.load)
    return InMemory(
        **files.common_fields(),
        Xt=loader.samples(),
        source_codes=loader.source_codes if files.n_sources > 1 else 0,
        class_codes=loader.class_codes,
        weights=loader.weights,
        default_n_nodes=max(len(nodes), available_threads()),
    )
