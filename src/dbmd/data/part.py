"""Samples found where they lie, before anyone has seen them all: how they become the blocks of one dataset.

A part knows the names of its own sources and classes, not their numbers, nor where its rows stand among all. A first
question to all parts (:func:`take_stock`) tells, and with what it found (:class:`Numbering`) a part is a block.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from dbmd.data.block import Block, canonical
from dbmd.data.columns import check_n_sources, computing_type
from dbmd.data.fingerprint import MASK, fingerprint, multipliers
from dbmd.data.finite import not_finite
from dbmd.data.formats._arrow import joined
from dbmd.data.place import Place
from dbmd.data.recipe import distinct, sorted_names
from dbmd.data.vectors import is_vector, to_rows
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import NodeFunction


class Named(NamedTuple):
    """A name for each row.

    Attributes
    ----------
    names : list
        Different ones.
    codes : array of int of shape (n_i,)
        Which of them a row has.
    column : str
        Where they come from.
    """

    names: list[Any]
    codes: NDArray[np.intp]
    column: str = "source"

    @property
    def marks(self) -> NDArray[np.uint64]:
        """A hash of the name of each row, shape (n_i,)."""
        hashes = [zlib.crc32(f"{self.column}={name}".encode()) for name in self.names]
        return np.array(hashes, np.uint64)[self.codes]


@dataclass(frozen=True)
class Part:
    """Some samples, with the names of their sources and classes.

    Attributes
    ----------
    Xt : array or CSR array of shape (n_i, m)
        The samples. A part without samples may have any m.
    sources, classes : Named, optional
        The source and the known class of each.
    index : int
        The number of the part.
    columns : tuple of str, optional
        Names of the features.
    """

    Xt: Any
    sources: Named | None = None
    classes: Named | None = None
    index: int = 0
    columns: tuple[str, ...] | None = None


def of_table(table: Any, index: int, *, columns: tuple[str, ...], source: str | None, label: str | None) -> Node:
    """Return a table of Arrow as a node with a part: one column of vectors, or several of numbers."""
    place = Place(f"partition {index}")
    if not table.num_rows:
        return Node(place.location, Part(np.zeros((0, 0), np.float32), index=index))  # type: ignore[arg-type]
    sources, classes = (
        None if name is None else Named(*distinct(joined(table.column(name)), place, 0, name), name)
        for name in (source, label)
    )
    Xt = to_rows(table, columns, place)
    # A column of vectors has one name for all features.
    names = columns if Xt.shape[1] == len(columns) and not is_vector(table.schema.field(columns[0]).type) else None
    return Node(place.location, Part(Xt, sources, classes, index, names))  # type: ignore[arg-type]


def of_array(Xt: Any, index: int, sources: Any = None) -> Node:
    """Return an array or sparse matrix as a node with a part; sources: an array of names, shape (n_i,)."""
    place = Place(f"partition {index}")
    if np.ndim(Xt) != 2 and not sparse.issparse(Xt):
        raise DataError(f"{place.location}: must have two dimensions, samples and features. Got shape {np.shape(Xt)}.")
    named = None
    if sources is not None:
        if np.shape(sources) != (Xt.shape[0],):
            raise DataError(
                f"{place.location}: there must be a source for each of its {Xt.shape[0]} samples. "
                f"Got shape {np.shape(sources)}."
            )
        named = Named(*distinct(pa.array(np.asarray(sources)), place, 0, "source"))
    Xt = canonical(sparse.csr_array(Xt)) if sparse.issparse(Xt) else np.asarray(Xt)
    return Node(place.location, Part(Xt, named, index=index))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stock:
    """What there is. It adds.

    Attributes
    ----------
    rows : dict of int to int
        Number of samples of each part.
    widths : dict of int to int
        Number of features, with the number of a part that has so many.
    types : frozenset of dtype
        Types of the entries.
    sources, classes : frozenset
        Names.
    columns : tuple of str, optional
        Names of the features.
    fingerprint : int
        Of all rows, modulo 2^64.
    """

    rows: dict[int, int]
    widths: dict[int, int]
    types: frozenset[Any]
    sources: frozenset[Any]
    classes: frozenset[Any]
    columns: tuple[str, ...] | None
    fingerprint: int = 0

    def __add__(self, other: Stock) -> Stock:
        return Stock(
            self.rows | other.rows,
            other.widths | self.widths,
            self.types | other.types,
            self.sources | other.sources,
            self.classes | other.classes,
            self.columns or other.columns,
            (self.fingerprint + other.fingerprint) & MASK,
        )


def take_stock(node: Node) -> tuple[Node, Stock]:
    """Node: tell what its part has. Raises a DataError that names the first entry that is no finite number."""
    part: Part = node.block  # type: ignore[assignment]
    n, m = part.Xt.shape
    if not n:
        return node, Stock({part.index: 0}, {}, frozenset(), frozenset(), frozenset(), None)
    if part.Xt.dtype.kind not in "biuf":
        raise DataError(f"partition {part.index}: entries must be numbers. Got {part.Xt.dtype}.")
    entry = not_finite(part.Xt) if part.Xt.dtype.kind == "f" else None
    if entry is not None:
        column = repr(part.columns[entry.column]) if part.columns else entry.column
        what = "has no number (it is empty or NaN)" if np.isnan(entry.value) else f"is {entry.value}"
        raise DataError(
            f"partition {part.index}: row {entry.row + 1}, column {column} {what}. "
            "Only finite numbers can be fitted: remove or impute such rows first."
        )
    sources, classes = (
        frozenset() if named is None else frozenset(named.names) for named in (part.sources, part.classes)
    )
    types = frozenset({part.Xt.dtype})
    return node, Stock({part.index: n}, {m: part.index}, types, sources, classes, part.columns, _fingerprint(part))


def _fingerprint(part: Part) -> int:
    """Return the fingerprint of a part: that of the same rows in a file, if their columns have the same names."""
    marks = None if part.sources is None else part.sources.marks
    columns, total = multipliers(part.Xt.shape[1]), 0
    for chunk in Block(part.Xt).chunks():
        its = zlib.crc32(b"") if marks is None else marks[chunk.rows]
        total += fingerprint(chunk.Xt, columns, its)
    return total & MASK


@dataclass(frozen=True)
class Numbering:
    """What makes blocks of parts.

    Attributes
    ----------
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    rows : dict of int to range
        For each part, the numbers of its samples in the whole data.
    source_names, classes : array, optional
        Names of all sources and classes: their numbers are places in it.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    rows: dict[int, range]
    source_names: NDArray[Any] | None
    classes: NDArray[Any] | None

    @classmethod
    def of(cls, stock: Stock, *, has_sources: bool, has_classes: bool, dtype: DTypeLike | None) -> Numbering:
        """Return the numbering that follows from what there is."""
        numbers, n = {}, 0
        for index, rows in sorted(stock.rows.items()):
            numbers[index], n = range(n, n + rows), n + rows
        if not n:
            raise DataError("The data have no rows.")
        if len(stock.widths) > 1:
            told = " and ".join(f"{m} (partition {index})" for m, index in sorted(stock.widths.items())[:2])
            raise DataError(f"All samples must have the same number of features. Got {told}.")
        # As they are: in a frame or an array, unlike in a csv file, text is meant to be text.
        sources = sorted_names(set(stock.sources), "names of sources", as_they_are=True) if has_sources else None
        if sources is not None:
            check_n_sources(len(sources), "The column of sources")
        classes = sorted_names(set(stock.classes), "labels", as_they_are=True) if has_classes else None
        shape = n, next(iter(stock.widths))
        return cls(shape, computing_type(list(stock.types), dtype), numbers, sources, classes)

    def block(self, part: Part) -> Block:
        """Return a part as a block."""
        n, rows = part.Xt.shape[0], self.rows[part.index]
        if n != len(rows):
            raise DataError(
                f"partition {part.index} had {len(rows)} rows and, computed again, has {n}. Data that do not come out "
                "the same each time must be written down before they are fitted."
            )
        Xt = part.Xt if n else np.zeros((0, self.shape[1]), self.dtype)
        sources = _numbered(part.sources, self.source_names)
        return Block(
            Xt,
            0 if sources is None else sources,
            rows.start,
            self.dtype,
            _numbered(part.classes, self.classes),
        )


def _numbered(named: Named | None, names: NDArray[Any] | None) -> NDArray[np.intp] | None:
    if named is None or names is None:
        return None
    places = np.searchsorted(names, np.array(named.names, dtype=names.dtype)) if named.names else np.zeros(0, int)
    return places.astype(np.intp)[named.codes]


@dataclass(frozen=True)
class OnBlocks:
    """A node function on blocks, for nodes that hold parts.

    Attributes
    ----------
    func : callable
        The node function.
    numbering : Numbering
        What makes blocks of parts.
    """

    func: NodeFunction[Any]
    numbering: Numbering

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, Any]:
        """Run the function at a node that holds a part."""
        before = replace(node, block=self.numbering.block(node.block))  # type: ignore[arg-type]
        after, reply = self.func(before, *broadcast)
        return node if after is before else replace(after, block=node.block), reply
