"""Nodes on the executors of Spark: a partition is a node.

The block of a node is written once to a local directory of the executor, in a form that every Python worker of the
machine can map into memory: no pass sends it through the pipe between the JVM and a worker. Spark caches a handle that
says where the block is, and therefore sends the tasks of a partition to the machine of its block. When an executor is
lost, its handles and blocks are lost together, and Spark's lineage makes both again.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dbmd.engines._remote import Call, Lost, Outcome, Remote, added
from dbmd.engines._spark_session import Session
from dbmd.errors import EngineError, first_line, needs
from dbmd.model.node import Node

with needs("engine 'spark'", "pyspark", "spark"):
    from py4j.protocol import Py4JError
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, BooleanType, NumericType

    from dbmd.engines import _spark_executor as executor

__all__ = ["Engine", "Placement", "Session", "columns_of", "distribute", "for_arrow"]

TRIES = 4  # of a job: as many as Spark gives a task on a cluster; in local mode it gives a task only one
FLAT = 16  # replies of up to so many nodes are sent to the driver directly; more are added in a tree


class Engine(Remote):
    """Run node functions on the executors of Spark.

    Parameters
    ----------
    nodes : sequence of Node, or Placement
        Nodes to send to the executors, or nodes that were made there.
    """

    name = "spark"

    def __init__(self, nodes: Sequence[Node] | Placement) -> None:
        super().__init__()
        self._owns_blocks = not isinstance(nodes, Placement)
        self._placement = nodes if isinstance(nodes, Placement) else Placement.from_driver(nodes)
        self._held = f"held-{uuid.uuid4().hex[:12]}"
        self.n_nodes = self._placement.n_nodes

    def _send(self, call: Call, at: Sequence[int] | None) -> list[Outcome]:
        return self._placement.run(partial(executor.answers, call=call, held=self._held), at)

    def close(self) -> None:
        """Remove the caches of the nodes, and the blocks if this engine sent them."""
        if self._owns_blocks:
            self._placement.close()
        else:
            self._placement.clean(f"*/{self._held}")


def columns_of(frame: Any) -> dict[str, str]:
    """Return the kind of each column of a DataFrame: "number", "vector", or the name of another type."""

    def kind(column: Any) -> str:
        if isinstance(column, NumericType | BooleanType):
            return "number"
        is_list = isinstance(column, ArrayType) and isinstance(column.elementType, NumericType)
        return "vector" if is_list or isinstance(column, VectorUDT) else column.simpleString()

    return {field.name: kind(field.dataType) for field in frame.schema.fields}


def for_arrow(frame: Any, name: str) -> Any:
    """Return a column of a DataFrame in a form that is fast to transfer to Python.

    A dense vector of pyspark.ml has null instead of a list of indices, and Spark takes five times as long to write a
    null as to write an empty list.
    """
    column = frame["`" + name.replace("`", "``") + "`"]
    if not isinstance(frame.schema[name].dataType, VectorUDT):
        return column
    vector = F.unwrap_udt(column)
    fields = {part: vector[part] for part in ("type", "size", "indices", "values")}
    fields["indices"] = F.coalesce(fields["indices"], F.array().cast("array<int>"))
    return F.when(column.isNotNull(), F.struct(*(field.alias(part) for part, field in fields.items())))


def distribute(
    frame: Any,
    to_node: Callable[[Any, int], Node],
    *,
    n_nodes: int | None,
    names: Sequence[str] = (),
    sources: None = None,
    weights: None = None,
) -> Placement:
    """Make a node of each partition of a DataFrame, on the executor that has it; see :class:`dbmd.protocols.Cluster`.

    Parameters
    ----------
    frame : DataFrame
        The samples.
    to_node : callable
        ``to_node(pyarrow.Table, index)`` returns a node.
    n_nodes : int, optional
        Number of nodes; by default one for each partition.
    names : sequence of str
        The columns that are needed.
    sources, weights : None
        A DataFrame has the sources and the weights in columns.
    """
    # With other names: mapInArrow does not accept every name of a column.
    columns = [for_arrow(frame, name).alias(f"c{i}") for i, name in enumerate(names)]
    frame = frame.select(*columns)
    frame = frame if n_nodes is None else frame.repartition(n_nodes)
    return Placement.from_frame(frame, partial(executor.table_node, to_node=to_node, names=names))


class Placement:
    """Blocks on executors, and how to make them again; see :class:`dbmd.protocols.Placement`.

    Parameters
    ----------
    session : Session
        Spark.
    lineage : RDD of Handle
        Computing a partition writes its block on the executor that computes it.
    name : str
        Name of the folder of the blocks on each executor.
    """

    def __init__(self, session: Session, lineage: Any, name: str) -> None:
        self.session, self.name = session, name
        self._folders: list[str] = []
        self._lineage = lineage
        self._handles = lineage.mapPartitions(list, preservesPartitioning=True).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            handles = self._collect(self._handles)
            for handle in handles:
                if handle.error is not None:
                    raise pickle.loads(handle.error)
        except BaseException:
            self.close()
            raise
        self.n_nodes = len(handles)
        self._folders = sorted({str(Path(handle.folder).parent) for handle in handles})

    @classmethod
    def from_driver(cls, nodes: Sequence[Node]) -> Placement:
        """Send nodes to the executors."""
        session, name = Session(), f"dbmd-{uuid.uuid4().hex}"
        try:
            packed = [(i, pickle.dumps(node, 5)) for i, node in enumerate(nodes)]
            # Through a shuffle: otherwise each task of every job would carry its partition of the parallelised list.
            sent = session.context.parallelize(packed, len(packed)).partitionBy(len(packed), lambda index: index)
            return cls(session, sent.mapPartitions(partial(executor.store_node, name=name)), name)
        except BaseException:
            session.close()
            raise

    @classmethod
    def from_frame(cls, frame: Any, to_node: Callable[[Any, int], Node]) -> Placement:
        """Make nodes of the partitions of a DataFrame where they are computed: to_node(pyarrow.Table, index)."""
        session, name = Session(frame.sparkSession), f"dbmd-{uuid.uuid4().hex}"
        store = partial(executor.store_table, to_node=to_node, name=name)
        stored = frame.mapInArrow(store, "number int, folder string, error binary")
        return cls(session, stored.rdd.map(executor.to_handle), name)

    def engine(self) -> Engine:
        """Return an engine on these nodes. Closing it leaves the nodes where they are."""
        return Engine(self)

    def run(self, function: Any, at: Sequence[int] | None) -> list[Outcome]:
        """Return the outcomes of function(handles) at all nodes, or at some, whose blocks are made again if needed."""
        job = self._handles.mapPartitions(function)
        if at is not None:
            # Where the handle is: there is the cache of the node.
            outcomes = self._collect(job, at)
            gone = [outcome.first for outcome in outcomes if isinstance(outcome, Lost)]
            if not gone:
                return outcomes
            found = [outcome for outcome in outcomes if outcome.first not in gone]
            return found + self._collect(self._lineage.mapPartitions(function), gone)
        if self.n_nodes > FLAT:
            n = self._handles.getNumPartitions()
            group = round(n**0.5)
            keyed = job.keyBy(lambda outcome: outcome.first // group)
            job = keyed.partitionBy(-(-n // group), lambda key: key).values().mapPartitions(added)
        return self._collect(job)

    def _collect(self, job: Any, at: Sequence[int] | None = None) -> list[Any]:
        """Return the results of a job, run again if it fails: lost workers make it fail, node functions do not."""
        if not self.session.is_running:
            raise EngineError("The session of Spark was stopped while it was needed.")
        context, tag = self.session.context, f"dbmd-{uuid.uuid4().hex}"
        failure: Exception
        for _ in range(TRIES):
            context.addJobTag(tag)
            try:
                return job.collect() if at is None else list(context.runJob(job, list, list(at)))
            except (PySparkException, Py4JError) as error:
                failure = error
            except BaseException:  # after an interrupt the executors must not continue
                context.cancelJobsWithTag(tag)
                raise
            finally:
                context.removeJobTag(tag)
        raise EngineError(f"Spark could not run a job in {TRIES} tries: {_reason(failure)}.") from None

    def clean(self, pattern: str, also: Sequence[str] = ()) -> None:
        """Remove folders of these data on all executors by a pattern, and others by name where they can be reached."""
        if not self.session.is_running:
            return
        context, tasks = self.session.context, 2 * self.session.n_cores  # so that each idle executor gets some
        remove = partial(executor.remove, pattern=f"{self.name}/{pattern}", also=also)
        # An interrupt may have broken the connection to the JVM, of which there is another for the next try. What is
        # left after all of them Spark removes at the end of the application.
        for _ in range(TRIES):
            with suppress(PySparkException, Py4JError):
                if not sum(context.parallelize(range(tasks), tasks).mapPartitions(remove).collect()):
                    return

    def close(self) -> None:
        """Remove the blocks, and stop Spark if it was started for them."""
        self.clean("", self._folders)  # by name: a killed executor may have left some
        if self.session.is_running:
            self._handles.unpersist()
        self.session.close()


def _reason(error: Exception) -> str:
    """Return the line of an error of Spark that says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if "Exception: " in line or "Error: " in line]
    return first_line(RuntimeError(causes[-1] if causes else lines[0]))
