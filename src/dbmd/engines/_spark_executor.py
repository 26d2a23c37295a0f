"""What runs in the Python workers of Spark's executors: writing blocks to files, and answering questions on them."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from dbmd.engines import _spill
from dbmd.engines._remote import Call, Failed, Lost, Outcome, answer, loaded, pickled_error
from dbmd.model.node import Node


class Handle(NamedTuple):
    """Where the block of a node is, or why it is not."""

    number: int
    folder: str
    error: bytes | None = None


class Folder:
    """The cache of a node, in files of a folder that all workers of its executor see.

    Parameters
    ----------
    path : Path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def recall(self, index: int, number: int) -> Node | None:
        """Return the cache after a question; None if it is not there."""
        try:
            return _spill.load(self.path / str(number))
        except FileNotFoundError:
            return None

    def keep(self, index: int, number: int, held: Node) -> None:
        """Keep the cache after a question, and the one before it, for a task that is run twice."""
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
        except FileNotFoundError:  # the block beside it was removed: this task was cancelled, and is late
            return
        earlier = sorted(int(p.name) for p in self.path.glob("*") if p.name.isdecimal())
        _spill.dump(held, self.path / str(number))
        for old in [n for n in earlier if n < number][:-1]:
            (self.path / str(old)).unlink(missing_ok=True)


def answers(handles: Iterable[Handle], *, call: Call, held: str) -> Iterator[Outcome]:
    """Yield the outcomes of a call at nodes; their caches are in folders named ``held`` beside their blocks."""
    for handle in list(handles):  # all of them: Spark does not use a worker again that left some
        if handle.error is not None:  # the block could not be made again
            yield Failed(handle.number, handle.error)
            continue
        try:
            node = _spill.load(Path(handle.folder) / "block")
        except FileNotFoundError:  # the handle was fetched from another machine
            yield Lost(handle.number)
        else:
            yield answer(node, handle.number, call, Folder(Path(handle.folder) / held))
    _freeze_modules()


_modules = 0  # number of modules that the garbage collector passes over


def _freeze_modules() -> None:
    """Make the garbage collector pass over imported modules.

    Spark's workers collect after every task, which takes 100 ms with NumPy, SciPy and numba.
    """
    global _modules
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()


def store_node(packed: Iterable[tuple[int, bytes]], *, name: str) -> Iterator[Handle]:
    """Write numbered nodes from the driver to a folder of the executor; yield their handles."""
    for index, node in list(packed):
        yield _stored(pickle.loads(node), index, name)


def store_table(batches: Iterable[Any], *, to_node: Callable[[Any, int], Node], name: str) -> Iterator[Any]:
    """Write the node of a partition of a DataFrame to a folder of the executor; yield its handle as an Arrow batch."""
    index = TaskContext.get().partitionId()
    gathered = list(batches)
    try:
        table = pa.Table.from_batches(gathered) if gathered else pa.table({})
        handle = _stored(to_node(table, index), index, name)
    except Exception as error:
        handle = Handle(index, "", pickled_error(error))
    types = pa.int32(), pa.string(), pa.binary()
    columns = [pa.array([value], kind) for value, kind in zip(handle, types, strict=True)]
    yield pa.RecordBatch.from_arrays(columns, names=list(Handle._fields))


def table_node(table: Any, index: int, *, to_node: Callable[[Any, int], Node], names: Sequence[str]) -> Node:
    """Return ``to_node(table, index)`` after renaming the columns of the table."""
    return to_node(table.rename_columns(list(names)) if table.num_columns else table, index)


def to_handle(row: Any) -> Handle:
    """Return a row of a DataFrame as a handle."""
    return Handle(row[0], row[1], None if row[2] is None else bytes(row[2]))


def _stored(node: Node, index: int, name: str) -> Handle:
    folders = _local_folders()
    folder = folders[index % len(folders)] / name / str(index)
    _spill.dump(loaded(node), folder / "block")
    return Handle(index, str(folder))


def _local_folders() -> list[Path]:
    """Return the local directories of the executor, which Spark removes at the end."""
    return [Path(folder) for folder in os.environ["SPARK_LOCAL_DIRS"].split(",")]


def remove(tasks: Iterable[int], *, pattern: str, also: Sequence[str]) -> Iterator[int]:
    """Remove folders of the executor by a pattern, and others by name; yield how many are still there.

    A task that was just cancelled may still be writing.
    """
    list(tasks)
    found = [path for folder in _local_folders() for path in folder.glob(pattern)]
    for path in [*found, *map(Path, also)]:
        shutil.rmtree(path, ignore_errors=True)
    yield sum(path.exists() for path in found)
