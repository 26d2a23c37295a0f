"""Samples in the memory of this process, or of a GPU that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbmd._utils.arrays import is_here, is_sparse, namespace
from dbmd.data import partition
from dbmd.data.block import canonical, float_type
from dbmd.data.finite import Missing
from dbmd.data.weights import check_weights
from dbmd.dataset._base import Dataset
from dbmd.engines._device_arrays import device_of
from dbmd.engines.local import available_threads
from dbmd.model.node import Node
from dbmd.protocols import Engine, MakeEngine


@dataclass(frozen=True, kw_only=True, eq=False)
class InMemory(Dataset):
    """Samples in the memory of this process, or of a GPU that it uses.

    Attributes
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples, numbers of any type: of NumPy and SciPy, or arrays of CuPy, which stay where they are.
    source_codes : array of int of shape (n,), or an int
        The source of each sample, or of all: an index into ``source_names``.
    class_codes : array of int of shape (n,), optional
        The known class of each sample: an index into ``class_names``.
    weights : array of shape (n,), optional
        For how many samples each stands; by default for itself.
    default_n_nodes : int, optional
        Number of nodes if the caller has no wish; by default the number of threads.
    """

    Xt: Any
    source_codes: NDArray[np.intp] | int = 0
    class_codes: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    default_n_nodes: int | None = None

    @property
    def description(self) -> str:
        """Where the samples are, for people."""
        return "in memory" if self.framework is None else "on the GPU"

    @property
    def framework(self) -> str | None:
        """The engine that the samples belong to: "gpu", if they are there; None if any engine can fit them."""
        return None if is_here(self.Xt) else "gpu"

    def on(self, engine: str | MakeEngine, n_nodes: int | None, r: int) -> Engine:
        """Return an engine with the samples as its nodes; see :meth:`Dataset.on`."""
        if isinstance(engine, str) and self.framework not in (None, engine):
            raise ValueError(f"The data are on the GPU: fit them with engine={self.framework!r}. Got {engine!r}.")
        return super().on(engine, n_nodes, r)

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return a new array of the type to compute with, beside the samples; its entries may be anything."""
        with device_of(self.Xt):
            return namespace(self.Xt).empty(shape, self.dtype)

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the samples as nodes; see :meth:`Dataset.nodes`."""
        n_nodes = n_nodes or self.default_n_nodes or available_threads()
        keeps = self.keeps_rows(r)
        with device_of(self.Xt):
            nodes = partition(self.Xt, self.source_codes, n_nodes, self.dtype, self.class_codes, self.weights)
        return [replace(node, keeps_rows=keeps) for node in nodes]


def in_memory(
    Xt: Any,
    source_names: NDArray[Any] | None = None,
    source_codes: NDArray[np.intp] | int = 0,
    feature_names: Any = None,
    sample_weight: ArrayLike | None = None,
    missing: Missing = "error",
    about: Mapping[str, Any] | None = None,
    dtype: np.dtype[Any] | None = None,
) -> InMemory:
    """Return arrays as a dataset.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    source_names : array of shape (n_sources,), optional
        Names of the sources.
    source_codes : array of int of shape (n,), or an int
        The source of each sample, or of all: an index into ``source_names``.
    feature_names : array of str of shape (m,), optional
        Names of the features.
    sample_weight : array-like of shape (n,), optional
        For how many samples each stands; by default for itself.
    missing : {"error", "allow", "drop"}
        Whether the samples may have missing entries, NaN.
    about : dict, optional
        The columns that sources and weights come from.
    dtype : dtype, optional
        Type to compute with; by default the narrowest that holds the numbers.
    """
    return InMemory(
        shape=Xt.shape,
        dtype=float_type(Xt.dtype) if dtype is None else dtype,
        source_names=source_names,
        feature_names=feature_names,
        missing=missing,
        about=about,
        Xt=canonical(Xt) if is_sparse(Xt) else Xt,
        source_codes=source_codes,
        weights=check_weights(sample_weight, Xt.shape[0]),
    )
