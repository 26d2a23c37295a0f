"""Memberships of data of any size, in the order of the rows, a piece at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbmd.data.block import Block, Samples, Window, consecutive_rows
from dbmd.data.finite import not_finite
from dbmd.data.place import Place
from dbmd.data.recipe import as_named, distinct
from dbmd.data.vectors import to_rows
from dbmd.errors import DataError
from dbmd.model.statistics import Float
from dbmd.sweep import HStep, origin_of
from dbmd.threads import one_blas_thread

ROWS = 65536  # of a piece at most


def project(
    block: Samples, W: Float, *, sigma2: Float, prior: Float, n_threads: int
) -> Iterator[tuple[Window, NDArray[Any]]]:
    """Yield pieces of the samples with their memberships, in order; a few pieces are in work at a time.

    Parameters
    ----------
    block : Samples
        All samples.
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    n_threads : int
        How many pieces are worked on at once.

    Yields
    ------
    Window
        The samples.
    array of shape (rows, r)
        Their memberships.
    """
    taken = block.without(origin_of(W, block.dtype))
    h_step = HStep.at(W, prior, sigma2, block.dtype, taken)

    def solve(window: Window) -> tuple[Window, NDArray[Any]]:
        Ht = np.empty((window.Xt.shape[0], W.shape[1]), block.dtype)
        for chunk in window._replace(first=0).chunks(block.dtype, taken):
            Ht[chunk.rows] = h_step.memberships(chunk)
        return window, Ht

    waiting: deque[Future[tuple[Window, NDArray[Any]]]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(n_threads, "dbmd") as pool:
        for window in block.windows():
            for piece in _pieces(window):
                waiting.append(pool.submit(solve, piece))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _pieces(window: Window) -> Iterator[Window]:
    n = window.Xt.shape[0]
    for i in range(0, n, ROWS):
        j = min(i + ROWS, n)
        yield Window(
            window.first + i,
            consecutive_rows(window.Xt, i, j),
            window.sources if isinstance(window.sources, int) else window.sources[i:j],
            None if window.classes is None else window.classes[i:j],
            {name: column.slice(i, j - i) for name, column in window.extra.items()},
        )


@dataclass(frozen=True)
class Projector:
    """Memberships of samples that come in batches of columns of Arrow: all of a model that a worker needs.

    Attributes
    ----------
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    features : str
        What the column of samples is called, for messages.
    source : str, optional
        What the column of sources is called; without it, all samples are of the first source.
    sources : array of shape (n_sources,)
        The names of the sources.
    """

    W: Float
    sigma2: Float
    prior: Float
    features: str
    source: str | None = None
    sources: NDArray[Any] = field(default_factory=lambda: np.array([0]))

    def __call__(self, column: Any, source: Any = None) -> Any:
        """Return the memberships of a batch.

        Parameters
        ----------
        column : pyarrow.Array
            The samples: vectors of pyspark.ml or lists, n of them.
        source : pyarrow.Array, optional
            Their sources.

        Returns
        -------
        pyarrow.ListArray
            n lists of r numbers.
        """
        Xt = self._rows(column)
        block = Block(Xt, 0 if source is None else self._codes(source))
        Ht = np.empty((len(column), self.W.shape[1]))
        taken = block.without(origin_of(self.W, block.dtype))
        h_step = HStep.at(self.W, self.prior, self.sigma2, block.dtype, taken)
        # There is a worker for each core already.
        with one_blas_thread():
            for chunk in block.chunks(taken):
                Ht[chunk.rows] = h_step.memberships(chunk)
        ends = np.arange(len(column) + 1, dtype=np.int32) * Ht.shape[1]
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(Ht.ravel()))

    def _rows(self, column: Any) -> Any:
        m = len(self.W)
        if not len(column):
            return np.zeros((0, m))
        Xt = to_rows(pa.table([column], [self.features]), [self.features], _Batch("A batch of rows"))
        if Xt.shape[1] != m:
            raise DataError(
                f"The column {self.features!r} has vectors of size {Xt.shape[1]}, the model has {m} features."
            )
        entry = not_finite(Xt)
        if entry is not None:
            raise DataError(
                f"The column {self.features!r} has a vector with {entry.value} at place {entry.column}. "
                "DBMD takes finite numbers only: drop or impute such rows first."
            )
        return Xt

    def _codes(self, column: Any) -> NDArray[np.intp]:
        """Return the number of the source of each sample, shape (n,)."""
        assert self.source is not None
        numbers = {name: number for number, name in enumerate(self.sources.tolist())}
        values, codes = distinct(column, _Batch("A batch of rows"), 0, self.source)
        names = as_named(values, self.sources)
        unknown = [name for name in names if name not in numbers]
        if unknown:
            known = ", ".join(map(repr, list(numbers)[:5])) + (", ..." if len(numbers) > 5 else "")
            raise DataError(
                f"The column {self.source!r} has the source {unknown[0]!r}, which the model does not know. "
                f"It knows {known}. The noise level of a new source must be estimated from all of its rows: leave them "
                "out here, and hand them to the transform of dbmd.DBMD (attribute 'model')."
            )
        return np.array([numbers[name] for name in names], dtype=np.intp)[codes]


class _Batch(Place):
    """Of a batch nobody knows which rows of all it has."""

    def where(self, row: int) -> str:
        """Return nothing but the place in the batch."""
        return f"row {row + 1} of the batch"
