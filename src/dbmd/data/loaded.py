"""Loading files into memory: decoded once, in the narrowest type that holds the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dbmd.data.block import Block, Samples, Window, float_type
from dbmd.data.scan import Scan
from dbmd.data.stream import Stream
from dbmd.model.node import Node


def storage_type(types: Sequence[np.dtype[Any]], found: Scan, dtype: np.dtype[Any], *, encodes: bool) -> np.dtype[Any]:
    """Return the narrowest type that holds the numbers: that of the files, or for whole numbers in text less.

    Parameters
    ----------
    types : sequence of dtype
        Of the columns of the files.
    found : Scan
        What is in them: missing entries, NaN, need a floating-point type.
    dtype : dtype
        Type to compute with, which is wide enough.
    encodes : bool
        Whether there are columns to one-hot code.
    """
    stored = np.result_type(*types) if types else np.dtype(np.int8)
    if stored == np.float64 and found.whole and found.entries:
        stored = np.result_type(np.min_scalar_type(int(found.low)), np.min_scalar_type(int(found.high)))
    if found.n_missing and stored.kind != "f":
        stored = float_type(stored)
    if encodes and stored == np.bool_:
        stored = np.dtype(np.int8)
    return stored if stored.itemsize <= dtype.itemsize else dtype


def stored_bytes(shape: tuple[int, int], found: Scan, stored: np.dtype[Any], *, is_sparse: bool) -> int:
    """Return how many bytes the data take in memory."""
    n, m = shape
    return found.entries * (stored.itemsize + 4) + 8 * n if is_sparse else n * m * stored.itemsize


class ArrayLoader:
    """Arrays in memory, of which each node fills its own rows.

    Parameters
    ----------
    shape : tuple of int
        Number of samples and of features.
    stored : dtype
        Type of the numbers.
    is_sparse : bool
        Whether the samples are CSR.
    has_classes, has_weights : bool
        Whether the samples have known classes, and weights.

    Attributes
    ----------
    source_codes : array of int of shape (n,)
        The source of each sample.
    class_codes : array of int of shape (n,), optional
        The class of each sample.
    weights : array of shape (n,), optional
        The weight of each sample.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        stored: np.dtype[Any],
        *,
        is_sparse: bool,
        has_classes: bool,
        has_weights: bool = False,
    ) -> None:
        self.stored = stored
        self.source_codes = np.zeros(shape[0], np.intp)
        self.class_codes = np.zeros(shape[0], np.intp) if has_classes else None
        self.weights = np.ones(shape[0]) if has_weights else None
        self._dense = None if is_sparse else np.empty(shape, stored)
        self._sparse: dict[int, Any] = {}

    def load(self, node: Node) -> tuple[Node, int]:
        """Node: read its samples into the arrays. Only for nodes in this process."""
        assert node.block is not None
        self.fill(node.block)
        return node, 0

    def fill(self, block: Samples) -> None:
        """Read the samples of a block into the arrays."""
        for window in block.windows():
            first = block.first_row + window.first
            rows = slice(first, first + window.Xt.shape[0])
            self.source_codes[rows] = window.source_codes
            if self.class_codes is not None and window.class_codes is not None:
                self.class_codes[rows] = window.class_codes
            if self.weights is not None and window.weights is not None:
                self.weights[rows] = window.weights
            if self._dense is None:
                self._sparse[first] = window.Xt.astype(self.stored)
            else:
                self._dense[rows] = window.Xt

    def samples(self) -> Any:
        """Return all samples, shape (n, m), dense or CSR."""
        if self._dense is not None:
            return self._dense
        return sparse.csr_array(sparse.vstack([self._sparse[i] for i in sorted(self._sparse)], "csr"))


@dataclass(frozen=True)
class DeferredBlock(Samples):
    """Samples in files, which a worker loads into memory when it receives them.

    Attributes
    ----------
    stream : Stream
        The samples.
    stored : dtype
        Type of the numbers in memory.
    first_row : int
        Number of the first sample in the whole data.
    """

    stream: Stream
    stored: np.dtype[Any]
    first_row: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.stream.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return self.stream.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return self.stream.is_sparse

    def windows(self) -> Iterator[Window]:
        """Yield the samples as they are stored in the files."""
        return self.stream.windows()

    def loaded(self) -> Block:
        """Return the samples in memory."""
        recipe = self.stream.recipe
        loader = ArrayLoader(
            self.shape,
            self.stored,
            is_sparse=self.is_sparse,
            has_classes=recipe.class_names is not None,
            has_weights=recipe.selection.sample_weight is not None,
        )
        loader.fill(replace(self.stream, first_row=0))
        return Block(
            loader.samples(), loader.source_codes, self.first_row, self.dtype, loader.class_codes, loader.weights
        )
