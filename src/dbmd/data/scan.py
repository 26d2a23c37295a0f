"""The first pass over files: it checks all numbers, counts the rows, and collects sources, classes and categories."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dbmd.data.block import chunk_rows, consecutive_rows
from dbmd.data.fingerprint import MASK, fingerprint, multipliers
from dbmd.data.finite import Missing, first_unusable, has_nan, what_is_wrong
from dbmd.data.prefetch import prefetch
from dbmd.data.recipe import Selection, distinct
from dbmd.data.stream import Shard, ignore
from dbmd.data.weights import weight_hashes, weights_in
from dbmd.errors import DataError
from dbmd.model.node import Node

MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Unscanned:
    """Rows of a file before the first pass: their number, sources and categories are not known yet.

    Attributes
    ----------
    shard : Shard
        The rows.
    selection : Selection
        The columns to read.
    on_rows : callable
        Called with the number of rows whenever some were read.
    """

    shard: Shard
    selection: Selection
    on_rows: Callable[[int], object] = ignore


@dataclass(frozen=True)
class ScanNode(Node):
    """A node of the first pass. It has no block, as the shape of that is not known yet.

    Attributes
    ----------
    rows : Unscanned
        The rows to read.
    """

    rows: Unscanned = field(kw_only=True)


@dataclass(frozen=True)
class Scan:
    """What a pass over files found. It adds.

    Attributes
    ----------
    rows : dict of (str, int) to int
        Number of rows of each shard, by file and first row.
    entries : int
        Number of stored entries: all, or those of sparse matrices.
    values : dict of str to dict
        For the source, the label and each column to encode: how many rows there are of each value.
    fingerprint : int
        Of all rows, modulo 2^64.
    low, high : float
        The smallest and the largest entry.
    whole : bool
        Whether all entries are whole numbers, and none is missing.
    weight : float
        Sum of the weights of the samples; 0 if they have none.
    n_missing : int
        Number of missing entries.
    """

    rows: dict[tuple[str, int], int] = field(default_factory=dict)
    entries: int = 0
    values: dict[str, dict[Any, int]] = field(default_factory=dict)
    fingerprint: int = 0
    low: float = np.inf
    high: float = -np.inf
    whole: bool = True
    weight: float = 0.0
    n_missing: int = 0

    def __add__(self, other: Scan) -> Scan:
        values = {name: dict(counts) for name, counts in self.values.items()}
        for name, counts in other.values.items():
            mine = values.setdefault(name, {})
            for value, count in counts.items():
                mine[value] = mine.get(value, 0) + count
        return Scan(
            self.rows | other.rows,
            self.entries + other.entries,
            values,
            (self.fingerprint + other.fingerprint) & MASK,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
            self.weight + other.weight,
            self.n_missing + other.n_missing,
        )


def scan(node: Node, *, dtype: np.dtype[Any], missing: Missing = "error") -> tuple[Node, Scan]:
    """Node: read all rows once. Raises a DataError that names the first entry that cannot be fitted.

    Parameters
    ----------
    node : ScanNode
        The rows.
    dtype : dtype
        Type to compute with.
    missing : {"error", "allow", "drop"}
        What to do with missing entries.
    """
    if not isinstance(node, ScanNode):
        raise TypeError(f"Node {node.name!r} must be a ScanNode. Got {type(node).__name__}.")
    return node, _scan_shard(node.rows, dtype, missing)


def check_categories(values: Mapping[Any, int], where: str, name: str) -> None:
    """Raise a DataError if a column has too many values to one-hot code."""
    if len(values) > MOST_CATEGORIES:
        raise DataError(
            f"{where}: column {name!r} has more than {MOST_CATEGORIES} categories, too many to encode. "
            "Leave it out with drop=."
        )


def _scan_shard(rows: Unscanned, dtype: np.dtype[Any], missing: Missing) -> Scan:
    shard, selection = rows.shard, rows.selection
    reader, start, stop = shard
    columns = multipliers(len(selection.columns))
    batches = reader.read(start, stop, selection.columns, selection.others)
    found, row, weight = Scan(), start, 0.0
    values: dict[str, Counter[Any]] = {name: Counter() for name in selection.coded}
    for batch in prefetch(batches) if reader.decodes else batches:
        file = selection.file_sources.get(str(reader.location), "")
        row_hashes: Any = np.uint64(zlib.crc32(file.encode()))
        for name in selection.coded:
            names, codes = distinct(batch.others[name], reader, row, name)
            counts = np.bincount(codes, minlength=len(names))
            values[name].update({value: int(count) for value, count in zip(names, counts, strict=True) if count})
            # The source belongs to the data that is fitted, the label does not.
            if name == selection.source or name in selection.encode:
                hashes = np.array([zlib.crc32(f"{name}={value}".encode()) for value in names], np.uint64)
                row_hashes = row_hashes + hashes[codes]
        for name in selection.encode:
            check_categories(values[name], str(reader.location), name)
        if selection.sample_weight is not None:
            weights = weights_in(batch.others[selection.sample_weight], reader, row, selection.sample_weight)
            row_hashes, weight = row_hashes + weight_hashes(weights), weight + float(weights.sum())
        n = batch.Xt.shape[0]
        step = chunk_rows(batch.Xt, dtype)
        for i in range(0, n, step):
            j = min(i + step, n)
            with np.errstate(over="ignore"):  # what does not fit into the type is infinite, and refused below
                part = consecutive_rows(batch.Xt, i, j).astype(dtype, copy=False)
            _check_numbers(part, shard, row + i, selection, missing)
            hashes_of_part = row_hashes if np.ndim(row_hashes) == 0 else row_hashes[i:j]
            found += _scan_numbers(part, columns, hashes_of_part)
        row += n
        rows.on_rows(n)
    return found + Scan(rows={(str(reader.location), start): row - start}, values=dict(values), weight=weight)


def _check_numbers(Xt: Any, shard: Shard, row: int, selection: Selection, missing: Missing) -> None:
    """Raise a DataError that names the first entry that cannot be fitted."""
    # A row with categories has features, even if none of its numbers is there.
    entry = first_unusable(Xt, missing, rows_may_be_empty=bool(selection.encode)) if Xt.shape[1] else None
    if entry is not None:
        where = f"{shard.reader.location}: {shard.reader.where(row + entry.row)}"
        column = repr(selection.columns[entry.column])
        raise DataError(where + what_is_wrong(entry, column, missing, is_sparse=sparse.issparse(Xt)))


def _scan_numbers(Xt: Any, columns: Any, row_hashes: Any) -> Scan:
    values = Xt.data if sparse.issparse(Xt) else Xt
    number = fingerprint(Xt, columns, row_hashes)
    if not values.size:
        return Scan(fingerprint=number)
    low, high = float(np.fmin.reduce(values, axis=None)), float(np.fmax.reduce(values, axis=None))
    n_missing = int(np.isnan(values).sum()) if has_nan(values) else 0
    if np.isnan(low):  # nothing is there
        return Scan(entries=values.size, fingerprint=number, whole=False, n_missing=n_missing)
    # Only whole numbers from text can be kept in a narrower type than the file has.
    whole = values.dtype == np.float64 and low >= -(2**31) and high < 2**31 and bool((values == np.trunc(values)).all())
    return Scan(entries=values.size, fingerprint=number, low=low, high=high, whole=whole, n_missing=n_missing)
