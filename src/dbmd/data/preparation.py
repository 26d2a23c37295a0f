"""What is done to samples while they are read: logarithm, scaling, and numbers that stand in for gaps.

A fit sees prepared samples through an engine around the engine (:meth:`Preparation.around`), whatever kind of data its
nodes hold; neither the algorithm nor the nodes know. What is found from the data, such as standard deviations, takes
one pass (:func:`dbmd.data.features.find_preparation`), and is kept with the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, is_sparse, namespace, rows_here, to_host, with_data
from dbmd.data.block import Chunk, Samples, Window, float_type
from dbmd.data.engine_around import EngineAround
from dbmd.data.finite import has_nan
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.model.statistics import squared_norms
from dbmd.protocols import Engine, NodeFunction, Reply
from dbmd.registry import load_kernel

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Preparation:
    """What is done to each sample before anything else: logarithm, then scaling, then what stands in for its gaps.

    Memberships sum to one, so that nothing has to be subtracted: sparse samples stay sparse.

    Attributes
    ----------
    log : bool
        Whether x becomes log(1 + x).
    by_sample : {"sum", "l2"}, optional
        Samples are divided by their sum or norm; a sample of zeros stays as it is. Of a sample with gaps it is that of
        the entries that are there, times m over their number.
    scale : array of shape (m,), optional
        Features are divided by it.
    fill : array of shape (m,), optional
        What stands in for missing entries, as prepared. None: they stay NaN.
    drops : bool
        Whether samples with missing entries are left out: their weight becomes zero.
    """

    log: bool = False
    by_sample: Literal["sum", "l2"] | None = None
    scale: Float | None = None
    fill: Float | None = None
    drops: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether samples stay as they are."""
        return not (self.log or self.drops or self.by_sample) and self.scale is None and self.fill is None

    @property
    def changes_entries(self) -> bool:
        """Whether entries that are not missing become others."""
        return self.log or self.by_sample is not None or self.scale is not None

    @property
    def allows_gaps(self) -> bool:
        """Whether samples may have missing entries."""
        return self.drops or self.fill is not None

    def of(self, samples: Samples) -> Samples:
        """Return samples as they are prepared."""
        return samples if self.is_identity else PreparedSamples(samples, self)

    def around(self, engine: Engine) -> Engine:
        """Return an engine whose node functions see prepared samples."""
        return engine if self.is_identity else EngineAround(engine, partial(PreparedFunction, preparation=self))

    def apply(self, Xt: Any) -> Any:
        """Return rows after logarithm and scaling. Missing entries stay NaN.

        Parameters
        ----------
        Xt : array or CSR array of shape (n, m)
            The rows, which are not changed.

        Returns
        -------
        array or CSR array of shape (n, m), of the floating-point type to compute with
        """
        dtype = float_type(Xt.dtype)
        return self.applied(Xt.astype(dtype, copy=not is_sparse(Xt)), 0)

    def applied(self, Xt: Any, first: int | NDArray[np.integer]) -> Any:
        """Return rows after logarithm and scaling; dense rows are changed in place.

        Parameters
        ----------
        Xt : array or CSR array of shape (n, m)
            The rows.
        first : int or array of int of shape (n,)
            The number of the first row, or of each, for error messages.
        """
        values = Xt.data[: int(Xt.indptr[-1])].copy() if is_sparse(Xt) else Xt
        if self.log:
            if (values <= -1.0).any():
                raise self._no_logarithm(Xt, first)
            np.log1p(values, out=values)
        if is_sparse(Xt):
            Xt = with_data(Xt, values)
        if self.by_sample is not None:
            factors = self._factors(Xt, first)
            values *= np.repeat(factors, np.diff(Xt.indptr)) if is_sparse(Xt) else factors[:, None]
        if self.scale is not None:
            factors = namespace(Xt).asarray(1.0 / self.scale, values.dtype)
            values *= factors[Xt.indices] if is_sparse(Xt) else factors
        return Xt

    def to_data_units(self, W: Float) -> Float:
        """Return components, shape (r, m), in the units of the data.

        Where samples are divided by their own sum or norm, these are the units of the divided samples.
        """
        W = W if self.scale is None else W * self.scale
        return np.expm1(W) if self.log else W

    def to_data_units_of_std(self, std: Float, W: Float) -> Float:
        """Return standard deviations of components, shape (r, m), in the units of the data.

        Parameters
        ----------
        std, W : arrays of shape (r, m)
            Standard deviations and components, in the units of the scaled data.
        """
        scale = 1.0 if self.scale is None else self.scale
        return np.asarray(std * scale * np.exp(W * scale) if self.log else std * scale)

    def _factors(self, Xt: Any, first: int | NDArray[np.integer]) -> NDArray[Any]:
        """Return what each row is multiplied by, shape (n,): one over its sum or norm."""
        m = Xt.shape[1]
        here: Any = m
        if is_sparse(Xt):
            sizes = Xt.sum(axis=1, dtype=np.float64) if self.by_sample == "sum" else _squares(Xt)
        else:
            observed = Xt
            if has_nan(Xt):
                is_there = ~np.isnan(Xt)
                observed, here = np.where(is_there, Xt, 0), np.maximum(is_there.sum(axis=1), 1)
            if self.by_sample == "sum":
                sizes = observed.sum(axis=1, dtype=np.float64)
            else:
                sizes = squared_norms(observed.astype(np.float64, copy=False))
        sizes = namespace(Xt).asarray(sizes, np.float64).ravel()
        negative = np.flatnonzero(sizes < 0.0)
        if len(negative):
            row = int(negative[0])
            raise DataError(
                "Samples cannot be divided by their sums, which must not be negative. Got "
                f"{float(sizes[row]):.6g} in row {_number(first, row)}, counted from 0. Scale by 'l2' if entries have "
                "signs."
            )
        sizes = sizes * (m / here)
        sizes = sizes if self.by_sample == "sum" else np.sqrt(sizes)
        return (1.0 / np.where(sizes > 0.0, sizes, 1.0)).astype(Xt.dtype)

    def _no_logarithm(self, Xt: Any, first: int | NDArray[np.integer]) -> DataError:
        """Return the error for rows of which an entry has no logarithm."""
        if is_sparse(Xt):
            entry = int(np.flatnonzero(Xt.data <= -1.0)[0])
            row, column = int(np.searchsorted(to_host(Xt.indptr), entry, side="right")) - 1, int(Xt.indices[entry])
            value = float(Xt.data[entry])
        else:
            row, column = map(int, np.argwhere(Xt <= -1.0)[0])
            value = float(Xt[row, column])
        return DataError(
            f"The logarithm log(1 + x) cannot be taken of the data, which must be greater than -1. Got {value:.6g} in "
            f"row {_number(first, row)}, column {column}, counted from 0."
        )


def _number(first: int | NDArray[np.integer], row: int) -> int:
    return first + row if isinstance(first, int) else int(first[row])


def _squares(Xt: Any) -> Float:
    """Return ||x||^2 for every row of a CSR array, shape (n,), in float64."""
    return with_data(Xt, np.square(Xt.data, dtype=np.float64)).sum(axis=1)


@dataclass(frozen=True)
class PreparedSamples(Samples):
    """Samples, prepared while they are read. A chunk is valid only until the next one.

    Attributes
    ----------
    samples : Samples
        The samples as they are.
    preparation : Preparation
        What is done to them.
    as_type : dtype, optional
        Type to compute with; by default that of the samples.
    """

    samples: Samples
    preparation: Preparation
    as_type: np.dtype[Any] | None = None

    @property
    def first_row(self) -> int:  # type: ignore[override]
        """Number of the first sample in the whole data."""
        return self.samples.first_row

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.samples.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return self.as_type or self.samples.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return self.samples.is_sparse

    @property
    def is_contiguous(self) -> bool:
        """Whether the samples are consecutive in memory."""
        return self.samples.is_contiguous

    @property
    def allows_gaps(self) -> bool:
        """Whether samples may have missing entries."""
        return self.preparation.allows_gaps

    @property
    def kernel(self) -> str:
        """Name of the kernel for the chunks."""
        return self.samples.kernel

    def windows(self) -> Iterator[Window]:
        """Yield the samples in order, as they are stored: not prepared."""
        return self.samples.windows()

    def chunks_of(self, window: Window, shift: Float | None = None) -> Iterator[Chunk]:
        """Yield the samples of a window as they are prepared, minus a shift if given."""
        may_have_gaps = self.preparation.allows_gaps and window.Xt.dtype.kind == "f" and not is_sparse(window.Xt)
        for chunk in self._scaled(window, shift):
            gaps = np.isnan(chunk.Xt) if may_have_gaps else None
            yield chunk if gaps is None or not gaps.any() else self._filled(chunk, gaps, shift)

    def _scaled(self, window: Window, shift: Float | None) -> Iterator[Chunk]:
        """Yield the samples of a window after logarithm and scaling, minus a shift if given. Gaps stay NaN."""
        if not self.preparation.changes_entries:
            yield from window.chunks(self.dtype, shift)
            return
        # Dense chunks minus a shift are in a buffer, where they can be changed.
        zero = np.zeros(self.shape[1])
        shift = None if shift is None else namespace(window.Xt).asarray(shift, self.dtype)
        for chunk in window.chunks(self.dtype, zero):
            prepared = chunk._replace(Xt=self._applied(chunk))
            if shift is not None and not is_sparse(prepared.Xt):
                np.subtract(prepared.Xt, shift, out=prepared.Xt)
            yield prepared

    def _applied(self, chunk: Chunk) -> Any:
        """Return the samples of a chunk after logarithm and scaling; dense ones are changed in place."""
        Xt = chunk.Xt
        if not is_sparse(Xt) or is_here(Xt):
            return self.preparation.applied(Xt, self.first_row + chunk.numbers)
        # On a device a CSR matrix stays the same from pass to pass. It keeps what it becomes, which in turn keeps what
        # the kernel made of it.
        known = getattr(Xt, "_prepared", None)
        if known is None or known[0] is not self.preparation:
            known = Xt._prepared = self.preparation, self.preparation.applied(Xt, self.first_row + chunk.numbers)
        return known[1]

    def _filled(self, chunk: Chunk, gaps: NDArray[np.bool_], shift: Float | None) -> Chunk:
        """Return a chunk whose gaps are known and filled; or, if samples with gaps are left out, have no weight.

        Parameters
        ----------
        chunk : Chunk
            Samples, NaN where an entry is missing.
        gaps : array of bool of shape (rows, m)
            Where that is.
        shift : array of shape (m,), optional
            What was subtracted from them.
        """
        kernel = load_kernel(self.kernel)  # NumPy would take five times as long
        places = kernel.locate(gaps)
        if shift is None and not self.preparation.changes_entries:
            chunk = chunk._replace(Xt=chunk.Xt.copy())  # else it is in a buffer
        if self.preparation.fill is not None:
            fill = self.preparation.fill if shift is None else self.preparation.fill - shift
            kernel.put(chunk.Xt, places, fill)
        if not self.preparation.drops:
            return chunk._replace(gaps=gaps, places=places)
        dropped: Any = gaps.any(axis=1)
        weights = np.ones_like(dropped, np.float64) if chunk.weights is None else chunk.weights
        return chunk._replace(weights=np.where(dropped, 0.0, weights), dropped=dropped)

    def dropped(self) -> NDArray[np.bool_] | None:
        """Return which samples are left out because they have gaps, shape (n_i,); None: none."""
        if not self.preparation.drops:
            return None
        found = np.zeros(self.shape[0], bool)
        for chunk in self.chunks():
            if chunk.dropped is not None:
                found[rows_here(chunk.rows)] = to_host(chunk.dropped)
        return found if found.any() else None


@dataclass(frozen=True)
class PreparedFunction(Generic[Reply]):
    """A node function on prepared samples, for nodes that hold them as they are.

    Attributes
    ----------
    func : callable
        The node function.
    preparation : Preparation
        What is done to the samples.
    """

    func: NodeFunction[Reply]
    preparation: Preparation

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, Reply]:
        """Run the function at a node."""
        if node.block is None:
            return self.func(node, *broadcast)
        before = replace(node, block=self.preparation.of(node.block))
        after, reply = self.func(before, *broadcast)
        return node if after is before else replace(after, block=node.block), reply
