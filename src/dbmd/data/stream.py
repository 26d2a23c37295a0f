"""A block of samples in files: read again in every pass, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.data.ahead import ahead
from dbmd.data.block import Samples, Window
from dbmd.data.formats import Reader
from dbmd.data.recipe import Recipe
from dbmd.errors import DataError


def no_notice(rows: int) -> None:
    """Take no notice."""


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
        What their columns mean.
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    first_row : int
        Number of the first sample in the whole data.
    on_rows : callable
        Called with the number of rows that were read, again and again.
    """

    shards: Sequence[Shard]
    recipe: Recipe
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    first_row: int = 0
    on_rows: Callable[[int], object] = no_notice

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return any(shard.reader.sparse for shard in self.shards)

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they are stored; decoding is done ahead."""
        decodes = any(shard.reader.decodes for shard in self.shards)
        return ahead(self._windows()) if decodes else self._windows()

    def _windows(self) -> Iterator[Window]:
        first = 0
        others = tuple(dict.fromkeys((*self.recipe.others, *self.recipe.keep)))
        for reader, start, stop in self.shards:
            row = start
            for batch in reader.read(start, stop, self.recipe.columns, others):
                rows = batch.Xt.shape[0]
                if stop is not None and row + rows > stop:
                    break
                yield self.recipe.window(batch, reader, row, first)
                row, first = row + rows, first + rows
                self.on_rows(rows)
            if stop is not None and row != stop:
                raise DataError(f"{reader.location}: has changed since it was opened: it has not the rows it had.")
