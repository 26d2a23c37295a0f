"""A block of samples in files: read again in every pass, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.data.block import Samples, Window
from dbmd.data.formats import Reader
from dbmd.data.prefetch import prefetch
from dbmd.data.recipe import Recipe
from dbmd.errors import DataError


def ignore(rows: int) -> None:
    """Do nothing when rows were read."""


class Shard(NamedTuple):
    """Consecutive rows of a file, start to stop (None: to the end)."""

    reader: Reader
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Stream(Samples):
    """Consecutive samples in files, read in order.

    Attributes
    ----------
    shards : sequence of Shard
        Where they are.
    recipe : Recipe
        How their columns become samples.
    n_rows : int
        Number of samples.
    as_type : dtype
        Type to compute with.
    first_row : int
        Number of the first sample in the whole data.
    on_rows : callable
        Called with the number of rows whenever some were read.
    """

    shards: Sequence[Shard]
    recipe: Recipe
    n_rows: int
    as_type: np.dtype[Any]
    first_row: int = 0
    on_rows: Callable[[int], object] = ignore

    @property
    def name(self) -> str:
        """The files, for messages."""
        more = f" and {len(self.shards) - 1} more" if len(self.shards) > 1 else ""
        return f"{self.shards[0].reader.location}{more}"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.n_rows, self.recipe.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return self.as_type

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return any(shard.reader.sparse for shard in self.shards)

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they are stored; if they have to be decoded, a thread does so in advance."""
        decodes = any(shard.reader.decodes for shard in self.shards)
        return prefetch(self.one_by_one()) if decodes else self.one_by_one()

    def one_by_one(self) -> Iterator[Window]:
        """Yield the samples as they are stored, read when they are asked for."""
        first, selection = 0, self.recipe.selection
        others = tuple(dict.fromkeys((*selection.others, *selection.keep)))
        for reader, start, stop in self.shards:
            row = start
            for batch in reader.read(start, stop, selection.columns, others):
                rows = batch.Xt.shape[0]
                if stop is not None and row + rows > stop:
                    break
                yield self.recipe.window(batch, reader, row, first)
                row, first = row + rows, first + rows
                self.on_rows(rows)
            if stop is not None and row != stop:
                raise DataError(f"{reader.location}: has changed since it was opened: it has not the rows it had.")
