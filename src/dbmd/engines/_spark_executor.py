"""What runs in the Python workers of Spark's executors: putting blocks into files, and answering questions on them."""

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
from dbmd.engines._remote import Call, Failed, Lost, Outcome, answer, pickled_error, settled
from dbmd.model.node import Node


class Handle(NamedTuple):
    """Where the block of a node is, or why it is not."""

    number: int
    folder: str
    error: bytes | None = None


class Folder:
    """What a node holds, in files of a folder that all workers of its executor see.

    Parameters
    ----------
    path : Path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def recall(self, index: int, number: int) -> Any:
        """Return what the node held after a question, None if it is not there."""
        try:
            return _spill.load(self.path / str(number))
        except FileNotFoundError:
            return None

    def keep(self, index: int, number: int, held: Any) -> None:
        """Keep what the node holds after a question; of those before only the last, for a task that is run twice."""
        earlier = sorted(int(p.name) for p in self.path.glob("*") if p.name.isdecimal()) if self.path.exists() else []
        _spill.dump(held, self.path / str(number))
        for old in [n for n in earlier if n < number][:-1]:
            (self.path / str(old)).unlink(missing_ok=True)


def answers(handles: Iterable[Handle], *, call: Call, held: str) -> Iterator[Outcome]:
    """Yield the outcomes of a call at nodes; what they hold is in folders of a name beside their blocks."""
    for handle in list(handles):  # all of them: a worker that leaves any is not used again
        if handle.error is not None:  # made again, the block cannot be made
            yield Failed(handle.number, handle.error)
            continue
        try:
            node = _spill.load(Path(handle.folder) / "block")
        except FileNotFoundError:  # the handle was fetched from another machine
            yield Lost(handle.number)
        else:
            yield answer(node, handle.number, call, Folder(Path(handle.folder) / held))
    _freeze_modules()


_modules = 0  # that were loaded when the garbage collector was last told to pass over them


def _freeze_modules() -> None:
    """Tell the garbage collector to pass over what was imported.

    Spark's workers collect after every task, and NumPy, SciPy and numba are 100 ms to look at.
    """
    global _modules
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()


def store_node(packed: Iterable[tuple[int, bytes]], *, name: str) -> Iterator[Handle]:
    """Put numbered nodes that came from the driver where the executor keeps its files, in a folder of a name."""
    for index, node in list(packed):
        yield _stored(pickle.loads(node), index, name)


def store_table(batches: Iterable[Any], *, to_node: Callable[[Any, int], Node], name: str) -> Iterator[Any]:
    """Put a partition of a DataFrame there, as the node that is made of it; yield its handle as a batch of Arrow."""
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
    """Return to_node(table, index) of a table whose columns are given their names."""
    return to_node(table.rename_columns(list(names)) if table.num_columns else table, index)


def to_handle(row: Any) -> Handle:
    """Return a row of a DataFrame as a handle."""
    return Handle(row[0], row[1], None if row[2] is None else bytes(row[2]))


def _stored(node: Node, index: int, name: str) -> Handle:
    folders = _local_folders()
    folder = folders[index % len(folders)] / name / str(index)
    _spill.dump(settled(node), folder / "block")
    return Handle(index, str(folder))


def _local_folders() -> list[Path]:
    """Return the directories of the executor: Spark names them to its Python workers, and removes them in the end."""
    return [Path(folder) for folder in os.environ["SPARK_LOCAL_DIRS"].split(",")]


def remove(tasks: Iterable[int], *, pattern: str, also: Sequence[str]) -> None:
    """Remove folders: of the executor by a pattern, and others by name."""
    list(tasks)
    found = [path for folder in _local_folders() for path in folder.glob(pattern)]
    for path in [*found, *map(Path, also)]:
        shutil.rmtree(path, ignore_errors=True)
