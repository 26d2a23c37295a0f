"""Memberships of columns of Arrow, as a worker of Spark computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.threads import one_blas_thread
from dbmd.config import Missing
from dbmd.data.block import Block, Samples
from dbmd.data.finite import first_unusable
from dbmd.data.preparation import Preparation
from dbmd.data.recipe import as_names, distinct
from dbmd.data.row_labels import PartitionRows
from dbmd.data.vectors import to_rows
from dbmd.errors import DataError
from dbmd.memberships import MembershipModel, memberships


@dataclass(frozen=True)
class Projector:
    """Computes the memberships of samples in columns of Arrow, batch by batch: all of a model that a worker needs.

    Attributes
    ----------
    model : MembershipModel
        Components, offsets and noise levels.
    preparation : Preparation, optional
        How samples are scaled, and what stands in for missing values; None: they are taken as they are.
    features : str
        Name of the column of samples, for messages.
    missing : {"error", "allow", "drop"}
        What to do with missing values.
    source : str, optional
        Name of the column of sources; without it, all samples are of the first source.
    source_names : array of shape (n_sources,)
        The names of the sources.
    """

    model: MembershipModel
    preparation: Preparation | None
    features: str
    missing: Missing = "error"
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
            n lists of r + 1 numbers: memberships, and the brightness.
        """
        samples: Samples = Block(self._rows(column), 0 if source is None else self._codes(source))
        if self.preparation is not None:
            samples = self.preparation.of(samples)
        r = self.model.parts.n_components
        found = np.empty((len(column), r + 1))
        # There is a worker for each core already.
        with one_blas_thread():
            memberships(samples, self.model, out=found[:, :r], brightness=found[:, r])
        ends = np.arange(len(column) + 1, dtype=np.int32) * (r + 1)
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(found.ravel()))

    def _rows(self, column: Any) -> Any:
        m = len(self.model.V)
        if not len(column):
            return np.zeros((0, m))
        Xt = to_rows(pa.table([column], [self.features]), [self.features], _Batch("A batch of rows"))
        if Xt.shape[1] != m:
            raise DataError(
                f"The column {self.features!r} has vectors of size {Xt.shape[1]}, the model has {m} features."
            )
        entry = first_unusable(Xt, self.missing, rows_may_be_empty=False)
        if entry is not None:
            remedy = "drop or impute such rows first"
            if np.isnan(entry.value) and not sparse.issparse(Xt):
                remedy += ", or fit a model with missing='allow'"
            raise DataError(
                f"The column {self.features!r} has a vector with {entry.value} at place {entry.column}. "
                f"DBMD takes finite numbers only: {remedy}."
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
                f"It knows {known}. What belongs to a new source must be estimated from all of its rows: leave them "
                "out here, and hand them to the transform of dbmd.DBMD (attribute 'model')."
            )
        return np.array([numbers[name] for name in names], dtype=np.intp)[codes]


class _Batch(PartitionRows):
    """Names rows by their position in a batch: which rows of the DataFrame they are is unknown."""

    def where(self, row: int) -> str:
        """Return the position in the batch."""
        return f"row {row + 1} of the batch"
