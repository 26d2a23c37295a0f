"""A collection of Spark or Dask, whose partitions stay on the workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from dbmd.data.address import shown
from dbmd.data.collection import (
    CollectionLayout,
    PartitionFunction,
    array_to_node,
    scan_partition,
    table_to_node,
)
from dbmd.data.columns import select_frame_columns
from dbmd.data.engine_around import EngineAround
from dbmd.data.options import ColumnOptions
from dbmd.data.weights import ALL_ZERO
from dbmd.dataset._base import Dataset
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import Engine, MakeEngine, Placement, Session
from dbmd.registry import load_cluster


@dataclass(frozen=True, kw_only=True, eq=False)
class CollectionDataset(Dataset):
    """A DataFrame or array of Spark or Dask: its partitions are nodes on the workers.

    Attributes
    ----------
    engine : str
        Name of the engine of the cluster: "spark" or "dask".
    placement : Placement
        The partitions on the workers; released with the dataset.
    layout : CollectionLayout
        Turns the partitions into blocks.
    session : Session, optional
        The cluster, if it was started to read files; closed with the dataset.
    """

    engine: str
    placement: Placement
    layout: CollectionLayout
    session: Session | None = None

    @property
    def description(self) -> str:
        """Where the samples are, for people."""
        n = self.placement.n_nodes
        return f"on {self.framework} in {n} partition{'s' * (n != 1)}"

    @property
    def framework(self) -> str:
        """The cluster that holds the samples."""
        return self.engine

    @property
    def returns_labels(self) -> bool:
        """Whether a fit collects the labels of all samples in this process: no."""
        return False

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Raise a ValueError: the samples are not in this process."""
        raise self._elsewhere("local")

    def on(self, engine: str | MakeEngine, n_nodes: int | None, r: int) -> Engine:
        """Return an engine on the partitions, as many as there are; see :meth:`Dataset.on`."""
        if engine != self.framework:
            raise self._elsewhere(engine)
        return EngineAround(self.placement.engine(), partial(PartitionFunction, layout=self.layout))

    def _elsewhere(self, engine: Any) -> ValueError:
        return ValueError(f"The data are on {self.framework}: fit them with engine={self.framework!r}. Got {engine!r}.")

    def close(self) -> None:
        """Release the partitions, and close the session."""
        try:
            self.placement.close()
        finally:
            if self.session is not None:
                self.session.close()


def open_collection(
    data: Any,
    framework: str,
    options: ColumnOptions,
    dtype: DTypeLike | None,
    n_nodes: int | None,
    paths: Any,
    session: Session | None,
) -> CollectionDataset:
    """Return a collection of Spark or Dask as a dataset; paths: where it comes from, for the record."""
    cluster = load_cluster(framework)
    kinds = cluster.columns_of(data)
    if kinds is None:
        if options.label is not None or options.columns is not None or options.drop:
            raise DataError("Arrays have no names: label, columns and drop are for files and frames.")
        arrays = {"sources": options.source, "weights": options.sample_weight}
        placement = cluster.distribute(data, array_to_node, n_nodes=n_nodes, **arrays)
    else:
        if not isinstance(options.source, str | None):
            raise DataError("The source of a DataFrame is the name of one of its columns.")
        if not isinstance(options.sample_weight, str | None):
            raise DataError("The weights of the samples of a DataFrame are named by one of its columns.")
        features, names = select_frame_columns(kinds, options, "The DataFrame")
        to_node = partial(
            table_to_node,
            columns=features,
            source=options.source,
            label=options.label,
            sample_weight=options.sample_weight,
        )
        placement = cluster.distribute(data, to_node, n_nodes=n_nodes, names=names)
    try:
        if not placement.n_nodes:
            raise DataError("The data have no rows: they have no partitions.")
        with placement.engine() as engine:
            found = engine.ask(partial(scan_partition, missing=options.missing))
        if options.sample_weight is not None and any(found.rows.values()) and not found.weight:
            raise DataError(ALL_ZERO)
        has_sources, has_classes = options.source is not None, options.label is not None
        layout = CollectionLayout.of(found, has_sources=has_sources, has_classes=has_classes, dtype=dtype)
    except BaseException:
        placement.close()
        raise
    return CollectionDataset(
        shape=layout.shape,
        dtype=layout.dtype,
        source_names=layout.source_names,
        feature_names=found.columns,
        class_names=layout.class_names,
        missing=options.missing,
        about={
            "paths": [shown(path) for path in ([paths] if isinstance(paths, str | Path) else paths)],
            "source": options.source if isinstance(options.source, str) else None,
            "label": options.label,
            **({"sample_weight": options.sample_weight} if isinstance(options.sample_weight, str) else {}),
            "encode": {},
            "fingerprint": f"{found.fingerprint:016x}",
        },
        engine=framework,
        placement=placement,
        layout=layout,
        session=session,
    )
