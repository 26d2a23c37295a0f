"""What all kinds of datasets share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dbmd.data.finite import Missing
from dbmd.model.node import Node
from dbmd.protocols import Engine, MakeEngine
from dbmd.registry import default_n_nodes, load_engine

MEMBERSHIPS_DIVISOR = 4  # memberships and the like may take a quarter of the memory that is allowed for the data


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset(ABC):
    """Samples with their sources. :func:`dbmd.open_data` returns one.

    It is a context manager that closes itself.

    Attributes
    ----------
    shape : tuple of int
        Number of samples and of features.
    dtype : dtype
        Type to compute with.
    source_names : array of shape (n_sources,), optional
        Names of the sources. None if all samples are from one source without a name.
    feature_names : sequence of str, optional
        Names of the features.
    class_names : array of shape (n_classes,), optional
        Names of the known classes.
    about : dict, optional
        Where the data come from, for the record: paths, columns, fingerprint.
    missing : {"error", "allow", "drop"}
        Whether samples may have missing entries, NaN; with "drop", those that have any are to be left out.
    map_shape : tuple of int, optional
        Height and width, if the samples are the pixels of a picture, line by line.
    memory : int or None
        Bytes, of which memberships may take a quarter. None: no limit.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    source_names: NDArray[Any] | None = None
    feature_names: Sequence[str] | None = None
    class_names: NDArray[Any] | None = None
    about: Mapping[str, Any] | None = None
    missing: Missing = "error"
    map_shape: tuple[int, int] | None = None
    memory: int | None = None

    @property
    @abstractmethod
    def description(self) -> str:
        """Where the samples are, for people."""

    @property
    def framework(self) -> str | None:
        """The engine that holds the samples: a cluster, "spark" or "dask", or "gpu"; None if any can fit them."""
        return None

    @property
    def returns_labels(self) -> bool:
        """Whether a fit collects the labels of all samples in this process."""
        return True

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return 1 if self.source_names is None else len(self.source_names)

    @property
    def model_sources(self) -> NDArray[Any]:
        """The ``sources_`` of a model of these data, shape (n_sources,): a source without a name is called 0."""
        return np.array([0]) if self.source_names is None else self.source_names

    def keeps_rows(self, r: int) -> bool:
        """Return whether there is memory for r memberships of each sample."""
        # Beside the memberships, the start keeps a distance and a number.
        bytes_per_row = r * self.dtype.itemsize + self.dtype.itemsize + 4
        return self.memory is None or self.shape[0] * bytes_per_row <= self.memory // MEMBERSHIPS_DIVISOR

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return a new array of the type to compute with, for results about the samples, in the memory that they use.

        Its entries may be anything.
        """
        return np.empty(shape, self.dtype)

    @abstractmethod
    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the samples as nodes, which keep r memberships of each sample if there is memory for them.

        Parameters
        ----------
        n_nodes : int or None
            Number of nodes, as far as the data can be split; None: as suits the data.
        r : int
            Number of components.

        Raises
        ------
        ValueError
            If the samples are on a cluster.
        """

    def on(self, engine: str | MakeEngine, n_nodes: int | None, r: int) -> Engine:
        """Return an engine with the samples as its nodes. It is a context manager.

        Parameters
        ----------
        engine : str or callable
            Name of the engine, or what makes an engine of a list of nodes.
        n_nodes, r : int
            See :meth:`nodes`. An engine may have a number of nodes of its own, for callers without a wish.
        """
        if not isinstance(engine, str):
            return engine(self.nodes(n_nodes, r))
        return load_engine(engine)(self.nodes(n_nodes or default_n_nodes(engine), r))

    def close(self) -> None:  # noqa: B027 (most kinds hold nothing that has to be released)
        """Release what a cluster holds of the data."""

    def common_fields(self) -> dict[str, Any]:
        """Return the fields that all kinds have, by name: to make another kind of the same data."""
        return {field.name: getattr(self, field.name) for field in fields(Dataset)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
