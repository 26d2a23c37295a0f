"""Partitions of a collection of Spark or Dask, and how they become the blocks of one dataset.

A partition has the names of its own sources and classes, but not their codes in the whole data, nor the numbers of its
rows. A first pass over all partitions (:func:`scan_partition`) collects the names and counts the rows. From what it
found (:class:`PartitionScan`) follows the :class:`CollectionLayout`, which turns a partition into a block.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dbmd._utils.arrays import is_here, is_sparse
from dbmd.data.block import Block, Samples, Window, canonical, float_type
from dbmd.data.columns import check_n_sources, computing_type
from dbmd.data.fingerprint import MASK, fingerprint, multipliers
from dbmd.data.finite import Missing, first_unusable, what_is_wrong
from dbmd.data.formats._arrow import in_one_piece
from dbmd.data.recipe import distinct, sorted_names
from dbmd.data.row_labels import PartitionRows
from dbmd.data.vectors import is_vector, to_rows
from dbmd.data.weights import weight_hashes, weights_in
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import NodeFunction, Reply


class CodedColumn(NamedTuple):
    """A column of names, each stored once.

    Attributes
    ----------
    names : list
        The distinct names.
    codes : array of int of shape (n_i,)
        For each row the index of its name.
    column : str
        Name of the column.
    """

    names: list[Any]
    codes: NDArray[np.intp]
    column: str = "source"

    @property
    def row_hashes(self) -> NDArray[np.uint64]:
        """A hash of the name of each row, shape (n_i,)."""
        hashes = [zlib.crc32(f"{self.column}={name}".encode()) for name in self.names]
        return np.array(hashes, np.uint64)[self.codes]

    def codes_among(self, names: NDArray[Any]) -> NDArray[np.intp]:
        """Return for each row the index of its name in sorted names, shape (n_i,)."""
        index = np.searchsorted(names, np.array(self.names, dtype=names.dtype)) if self.names else np.zeros(0, int)
        return index.astype(np.intp)[self.codes]


@dataclass(frozen=True)
class Partition(Samples):
    """The samples of a partition, as a set of their own.

    Rows, sources and classes are numbered within the partition: as samples of the whole data they are
    ``layout.block(partition)``.

    Attributes
    ----------
    Xt : array or CSR array of shape (n_i, m)
        The samples. A partition without samples may have any m.
    sources, classes : CodedColumn, optional
        The source and the known class of each sample.
    index : int
        The number of the partition.
    columns : tuple of str, optional
        Names of the features.
    weights : array of shape (n_i,), optional
        For how many samples each stands; by default for itself.
    """

    Xt: Any
    sources: CodedColumn | None = None
    classes: CodedColumn | None = None
    index: int = 0
    columns: tuple[str, ...] | None = None
    weights: NDArray[np.float64] | None = None

    first_row = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.Xt.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest type to compute with that holds the entries of this partition."""
        return float_type(self.Xt.dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return is_sparse(self.Xt)

    @property
    def kernel(self) -> str:
        """Name of the kernel that works on arrays of the kind of the chunks."""
        return Block(self.Xt).kernel

    def windows(self) -> Iterator[Window]:
        """Yield the samples all at once, with codes of the partition's own sources and classes."""
        sources, classes = (None if column is None else column.codes for column in (self.sources, self.classes))
        yield Window(0, self.Xt, 0 if sources is None else sources, classes, weights=self.weights)


def table_to_node(
    table: Any,
    index: int,
    *,
    columns: tuple[str, ...],
    source: str | None,
    label: str | None,
    sample_weight: str | None = None,
) -> Node:
    """Return a table of Arrow, one column of vectors or several of numbers, as a node with a partition."""
    labels = PartitionRows(f"partition {index}")
    if not table.num_rows:
        return Node(labels.location, Partition(np.zeros((0, 0), np.float32), index=index))
    sources, classes = (
        None if name is None else CodedColumn(*distinct(in_one_piece(table.column(name)), labels, 0, name), name)
        for name in (source, label)
    )
    Xt = to_rows(table, columns, labels)
    # A column of vectors has one name for all features.
    names = columns if Xt.shape[1] == len(columns) and not is_vector(table.schema.field(columns[0]).type) else None
    weights = None
    if sample_weight is not None:
        weights = weights_in(in_one_piece(table.column(sample_weight)), labels, 0, sample_weight)
    return Node(labels.location, Partition(Xt, sources, classes, index, names, weights))


def array_to_node(Xt: Any, index: int, sources: Any = None, weights: Any = None) -> Node:
    """Return an array or sparse matrix as a node with a partition.

    Parameters
    ----------
    Xt : array or sparse matrix of shape (n_i, m)
        The samples: of NumPy or SciPy, or arrays or CSR matrices of CuPy, which stay where they are.
    index : int
        The number of the partition.
    sources : array of shape (n_i,), optional
        The name of the source of each.
    weights : array of shape (n_i,), optional
        The weight of each.
    """
    labels = PartitionRows(f"partition {index}")
    Xt = Xt if is_sparse(Xt) or sparse.issparse(Xt) or not is_here(Xt) else np.asarray(Xt)
    if Xt.ndim != 2:
        raise DataError(f"{labels.location}: must have two dimensions, samples and features. Got shape {Xt.shape}.")
    column = None
    if sources is not None:
        if np.shape(sources) != (Xt.shape[0],):
            raise DataError(
                f"{labels.location}: there must be a source for each of its {Xt.shape[0]} samples. "
                f"Got shape {np.shape(sources)}."
            )
        column = CodedColumn(*distinct(pa.array(np.asarray(sources)), labels, 0, "source"))
    if weights is not None:
        if np.shape(weights) != (Xt.shape[0],):
            raise DataError(
                f"{labels.location}: there must be a weight for each of its {Xt.shape[0]} samples. "
                f"Got shape {np.shape(weights)}."
            )
        weights = weights_in(pa.array(np.asarray(weights)), labels, 0, "sample_weight")
    Xt = sparse.csr_array(Xt) if sparse.issparse(Xt) else Xt
    Xt = canonical(Xt) if is_sparse(Xt) else Xt
    return Node(labels.location, Partition(Xt, column, index=index, weights=weights))


@dataclass(frozen=True)
class PartitionScan:
    """What a pass over partitions found. It adds.

    Attributes
    ----------
    rows : dict of int to int
        Number of samples of each partition.
    widths : dict of int to int
        Numbers of features that occur, each with the index of a partition that has so many.
    types : frozenset of dtype
        Types of the entries.
    sources, classes : frozenset
        Their names.
    columns : tuple of str, optional
        Names of the features.
    fingerprint : int
        Of all rows, modulo 2^64.
    weight : float
        Sum of the weights of the samples; 0 if they have none.
    """

    rows: dict[int, int]
    widths: dict[int, int]
    types: frozenset[Any]
    sources: frozenset[Any]
    classes: frozenset[Any]
    columns: tuple[str, ...] | None
    fingerprint: int = 0
    weight: float = 0.0

    def __add__(self, other: PartitionScan) -> PartitionScan:
        return PartitionScan(
            self.rows | other.rows,
            other.widths | self.widths,
            self.types | other.types,
            self.sources | other.sources,
            self.classes | other.classes,
            self.columns or other.columns,
            (self.fingerprint + other.fingerprint) & MASK,
            self.weight + other.weight,
        )


def scan_partition(node: Node, *, missing: Missing = "error") -> tuple[Node, PartitionScan]:
    """Node: check and summarise its partition. Raises a DataError that names the first entry that cannot be fitted.

    Parameters
    ----------
    node : Node
        With a partition.
    missing : {"error", "allow", "drop"}
        What to do with missing entries.
    """
    partition = _partition_of(node)
    n, m = partition.Xt.shape
    if not n:
        return node, PartitionScan({partition.index: 0}, {}, frozenset(), frozenset(), frozenset(), None)
    if partition.Xt.dtype.kind not in "biuf":
        raise DataError(f"partition {partition.index}: entries must be numbers. Got {partition.Xt.dtype}.")
    if partition.Xt.dtype.kind == "f" and m:
        entry = first_unusable(partition.Xt, missing, rows_may_be_empty=False)
        if entry is not None:
            column = repr(partition.columns[entry.column]) if partition.columns else str(entry.column)
            wrong = what_is_wrong(entry, column, missing, is_sparse=partition.is_sparse)
            raise DataError(f"partition {partition.index}: row {entry.row + 1}{wrong}")
    sources, classes = (
        frozenset() if column is None else frozenset(column.names) for column in (partition.sources, partition.classes)
    )
    types = frozenset({partition.Xt.dtype})
    return node, PartitionScan(
        {partition.index: n},
        {m: partition.index},
        types,
        sources,
        classes,
        partition.columns,
        _fingerprint(partition),
        0.0 if partition.weights is None else float(partition.weights.sum()),
    )


def _partition_of(node: Node) -> Partition:
    """Return the partition that a node holds."""
    if not isinstance(node.block, Partition):
        raise TypeError(f"Node {node.name!r} must hold a partition. Got {type(node.block).__name__}.")
    return node.block


def _fingerprint(partition: Partition) -> int:
    """Return the fingerprint: that of the same rows in a file, if the columns have the same names."""
    row_hashes = None if partition.sources is None else partition.sources.row_hashes
    if partition.weights is not None:
        row_hashes = (np.uint64(0) if row_hashes is None else row_hashes) + weight_hashes(partition.weights)
    columns, total = multipliers(partition.Xt.shape[1]), 0
    for chunk in Block(partition.Xt).chunks():
        total += fingerprint(chunk.Xt, columns, zlib.crc32(b"") if row_hashes is None else row_hashes[chunk.rows])
    return total & MASK


@dataclass(frozen=True)
class CollectionLayout:
    """Where each partition belongs in the whole data: its rows, and the codes of its sources and classes.

    Attributes
    ----------
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    rows : dict of int to range
        For each partition, the numbers of its samples in the whole data.
    source_names, class_names : array, optional
        Names of all sources and classes in order; codes are indices into them.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    rows: dict[int, range]
    source_names: NDArray[Any] | None
    class_names: NDArray[Any] | None

    @classmethod
    def of(
        cls, found: PartitionScan, *, has_sources: bool, has_classes: bool, dtype: DTypeLike | None
    ) -> CollectionLayout:
        """Return the layout of the partitions of a scan."""
        numbers, n = {}, 0
        for index, rows in sorted(found.rows.items()):
            numbers[index], n = range(n, n + rows), n + rows
        if not n:
            raise DataError("The data have no rows.")
        if len(found.widths) > 1:
            got = " and ".join(f"{m} (partition {index})" for m, index in sorted(found.widths.items())[:2])
            raise DataError(f"All samples must have the same number of features. Got {got}.")
        # In a DataFrame or an array, unlike in a csv file, text is meant to be text.
        sources = sorted_names(set(found.sources), "names of sources", as_they_are=True) if has_sources else None
        if sources is not None:
            check_n_sources(len(sources), "The column of sources")
        classes = sorted_names(set(found.classes), "labels", as_they_are=True) if has_classes else None
        shape = n, next(iter(found.widths))
        return cls(shape, computing_type(list(found.types), dtype), numbers, sources, classes)

    def block(self, partition: Partition) -> Block:
        """Return a partition as a block of the whole data."""
        n, rows = partition.Xt.shape[0], self.rows[partition.index]
        if n != len(rows):
            raise DataError(
                f"partition {partition.index} had {len(rows)} rows and, computed again, has {n}. Data that do not "
                "come out the same each time must be written down before they are fitted."
            )
        Xt = partition.Xt if n else np.zeros((0, self.shape[1]), self.dtype)
        source_codes: NDArray[np.intp] | int = 0
        if partition.sources is not None and self.source_names is not None:
            source_codes = partition.sources.codes_among(self.source_names)
        class_codes = None
        if partition.classes is not None and self.class_names is not None:
            class_codes = partition.classes.codes_among(self.class_names)
        return Block(Xt, source_codes, rows.start, self.dtype, class_codes, partition.weights)


@dataclass(frozen=True)
class PartitionFunction(Generic[Reply]):
    """A node function on blocks, for nodes that hold partitions.

    Attributes
    ----------
    func : callable
        The node function.
    layout : CollectionLayout
        Turns partitions into blocks.
    """

    func: NodeFunction[Reply]
    layout: CollectionLayout

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, Reply]:
        """Run the function at a node that holds a partition."""
        before = replace(node, block=self.layout.block(_partition_of(node)))
        after, reply = self.func(before, *broadcast)
        return node if after is before else replace(after, block=node.block), reply
