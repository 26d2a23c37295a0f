"""Memberships of columns of Arrow, as a worker of Spark computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Block
from dbmd.data.finite import first_nonfinite
from dbmd.data.recipe import as_names, distinct
from dbmd.data.row_labels import PartitionRows
from dbmd.data.vectors import to_rows
from dbmd.errors import DataError
from dbmd.memberships import MembershipModel, memberships
from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Projector:
    """Computes the memberships of samples in columns of Arrow, batch by batch: all of a model that a worker needs.

    Attributes
    ----------
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    features : str
        Name of the column of samples, for messages.
    source : str, optional
        Name of the column of sources; without it, all samples are of the first source.
    source_names : array of shape (n_sources,)
        The names of the sources.
    """

    W: Float
    sigma2: Float
    prior: Float
    features: str
    source: str | None = None
    source_names: NDArray[Any] = field(default_factory=lambda: np.array([0]))

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
        # There is a worker for each core already.
        with one_blas_thread():
            memberships(block, MembershipModel.plain(self.W, self.sigma2, self.prior), out=Ht)
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
        entry = first_nonfinite(Xt)
        if entry is not None:
            raise DataError(
                f"The column {self.features!r} has a vector with {entry.value} at place {entry.column}. "
                "DBMD takes finite numbers only: drop or impute such rows first."
            )
        return Xt

    def _codes(self, column: Any) -> NDArray[np.intp]:
        """Return the source codes of the samples, shape (n,)."""
        assert self.source is not None
        numbers = {name: number for number, name in enumerate(self.source_names.tolist())}
        values, codes = distinct(column, _Batch("A batch of rows"), 0, self.source)
        names = as_names(values, self.source_names)
        unknown = [name for name in names if name not in numbers]
        if unknown:
            known = ", ".join(map(repr, list(numbers)[:5])) + (", ..." if len(numbers) > 5 else "")
            raise DataError(
                f"The column {self.source!r} has the source {unknown[0]!r}, which the model does not know. "
                f"It knows {known}. The noise level of a new source must be estimated from all of its rows: leave them "
                "out here, and hand them to the transform of dbmd.DBMD (attribute 'model')."
            )
        return np.array([numbers[name] for name in names], dtype=np.intp)[codes]


class _Batch(PartitionRows):
    """Names rows by their position in a batch: which rows of the DataFrame they are is unknown."""

    def where(self, row: int) -> str:
        """Return the position in the batch."""
        return f"row {row + 1} of the batch"
