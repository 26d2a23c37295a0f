"""Cutting files into nodes: where reading may start, and so that each gets its share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.formats import Reader
from dbmd.data.recipe import Recipe
from dbmd.data.stream import Shard, Stream
from dbmd.model.node import Node

MOST_NODES = 64  # that files are put together to, if there are more of them


def ranges(reader: Reader, parts: int) -> list[tuple[int, int | None]]:
    """Return ranges of rows of a file, at most so many, that can be read on their own."""
    if not reader.n_rows or parts == 1:
        return [(0, reader.n_rows)]
    ideal = np.linspace(0, reader.n_rows, parts + 1).astype(int)
    edges = _snapped(ideal, reader.cuts, reader.n_rows)
    return list(pairwise(edges))


def _snapped(ideal: NDArray[np.intp], cuts: Sequence[int] | None, n: int) -> list[int]:
    """Return 0, n, and between them the places nearest to the ideal ones where a cut may be."""
    allowed = np.arange(0) if cuts is None else np.asarray([*cuts, n])
    inner = [int(i) if cuts is None else int(allowed[np.abs(allowed - i).argmin()]) for i in ideal[1:-1]]
    return sorted({0, n, *inner})


def cut(
    readers: Sequence[Reader],
    recipe: Recipe,
    dtype: np.dtype[Any],
    rows: Mapping[tuple[str, int], int],
    n_threads: int,
    on_rows: Callable[[int], object],
    n_nodes: int | None,
) -> list[Node]:
    """Return files as nodes: one each, or as many as are asked for, as far as files can be cut."""
    sizes = [sum(count for (name, _), count in rows.items() if name == str(reader.location)) for reader in readers]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    n = int(starts[-1])
    if n_nodes is None and n_threads <= len(readers) <= MOST_NODES:
        edges = starts.tolist()
    else:
        wanted = n_nodes or max(min(len(readers), MOST_NODES), n_threads)
        ideal = np.linspace(0, n, wanted + 1).astype(int)
        cuts: list[int] = []
        for reader, first, size in zip(readers, starts[:-1], sizes, strict=True):
            # Where a file may be cut anywhere, it is cut where it is best.
            inside = ideal[(ideal >= first) & (ideal < first + size)] - first if reader.cuts is None else reader.cuts
            cuts += [int(first), *(int(first + cut) for cut in inside)]
        edges = _snapped(ideal, cuts, n)
    nodes = []
    for first, last in pairwise(sorted(set(edges))):
        shards = [
            Shard(reader, int(max(first - start, 0)), int(min(last - start, size)))
            for reader, start, size in zip(readers, starts[:-1].tolist(), sizes, strict=True)
            if start < last and start + size > first
        ]
        block = Stream(shards, recipe, (last - first, len(recipe.feature_names)), dtype, first, on_rows)
        name = str(shards[0].reader.location) + (f" and {len(shards) - 1} more" if len(shards) > 1 else "")
        nodes.append(Node(name, block))
    return nodes
