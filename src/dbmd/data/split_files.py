"""Splitting files into blocks of about equal size, at rows where reading can start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.formats import Reader
from dbmd.data.recipe import Recipe
from dbmd.data.stream import Shard, Stream

MOST_NODES = 64  # by default: if there are more files, several share a node


def row_ranges(reader: Reader, most: int) -> list[tuple[int, int | None]]:
    """Return at most so many ranges of rows of a file, (start, stop), that can be read on their own."""
    if not reader.n_rows or most == 1:
        return [(0, reader.n_rows)]
    ideal = np.linspace(0, reader.n_rows, most + 1).astype(int)
    edges = _nearest_edges(ideal, reader.seekable_rows, reader.n_rows)
    return list(pairwise(edges))


def _nearest_edges(ideal: NDArray[np.intp], seekable: Sequence[int] | None, n: int) -> list[int]:
    """Return 0, n, and for each ideal edge between them the nearest row where reading can start."""
    allowed = np.arange(0) if seekable is None else np.asarray([*seekable, n])
    inner = [int(i) if seekable is None else int(allowed[np.abs(allowed - i).argmin()]) for i in ideal[1:-1]]
    return sorted({0, n, *inner})


def split_files(
    readers: Sequence[Reader],
    recipe: Recipe,
    dtype: np.dtype[Any],
    rows: Mapping[tuple[str, int], int],
    n_threads: int,
    on_rows: Callable[[int], object],
    n_nodes: int | None,
) -> list[Stream]:
    """Return files as blocks for nodes: one for each file, or as many as asked for, as far as files can be split.

    Parameters
    ----------
    readers : sequence of Reader
        The files.
    recipe : Recipe
        How their columns become samples.
    dtype : dtype
        Type to compute with.
    rows : dict of (str, int) to int
        Number of rows of each shard of the scan, by file and first row.
    n_threads : int
        There are at least so many blocks, if n_nodes is None and the files can be split.
    on_rows : callable
        Called with the number of rows whenever some were read.
    n_nodes : int or None
        Number of blocks.
    """
    sizes = [sum(count for (name, _), count in rows.items() if name == str(reader.location)) for reader in readers]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    n = int(starts[-1])
    if n_nodes is None and n_threads <= len(readers) <= MOST_NODES:
        edges = starts.tolist()
    else:
        wanted = n_nodes or max(min(len(readers), MOST_NODES), n_threads)
        ideal = np.linspace(0, n, wanted + 1).astype(int)
        seekable: list[int] = []
        for reader, first, size in zip(readers, starts[:-1], sizes, strict=True):
            inside = reader.seekable_rows
            if inside is None:  # anywhere: then where it is best
                inside = (ideal[(ideal >= first) & (ideal < first + size)] - first).tolist()
            seekable += [int(first), *(int(first + row) for row in inside)]
        edges = _nearest_edges(ideal, seekable, n)
    blocks = []
    for first, last in pairwise(sorted(set(edges))):
        shards = [
            Shard(reader, int(max(first - start, 0)), int(min(last - start, size)))
            for reader, start, size in zip(readers, starts[:-1].tolist(), sizes, strict=True)
            if start < last and start + size > first
        ]
        blocks.append(Stream(shards, recipe, last - first, dtype, first, on_rows))
    return blocks
