"""What an engine must offer beside asking if collections of a cluster can be fitted where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dbmd.protocols.engines import Engine

if TYPE_CHECKING:
    from dbmd.model.node import Node

__all__ = ["Cluster", "Placement", "Session"]


class Session(Protocol):
    """A connection to a cluster: the user's own, or one that was started and ends with :meth:`close`."""

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""

    def read(self, paths: Any, /) -> Any:
        """Return the collection of files that only the cluster can read; other paths as they are."""

    def close(self) -> None:
        """Close the connection, and end the cluster if it was started for it."""


class Placement(Protocol):
    """Nodes that were made on the workers of a cluster, one for each partition of a collection."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""

    def engine(self) -> Engine:
        """Return an engine on these nodes. Closing it leaves the nodes where they are."""

    def close(self) -> None:
        """Release the nodes."""


class Cluster(Protocol):
    """An engine whose collections can be fitted where they are: a module of :mod:`dbmd.engines`.

    It has the class ``Engine`` of every engine, and what follows.
    """

    def Session(self) -> Session:
        """Return a connection to the cluster that is in use, or to a new one on this machine."""

    def columns_of(self, data: Any, /) -> Mapping[str, str] | None:
        """Return for each column of a DataFrame "number", "vector", or the name of its type; None for arrays."""

    def distribute(
        self,
        data: Any,
        to_node: Callable[..., Node],
        /,
        *,
        n_nodes: int | None,
        names: Sequence[str] = ...,
        sources: Any = ...,
        weights: Any = ...,
    ) -> Placement:
        """Make a node of each partition of a collection, on the worker that has or computes it.

        Parameters
        ----------
        data : collection
            A DataFrame, or whatever arrays the cluster has.
        to_node : callable
            ``to_node(table, index)`` makes a node of a ``pyarrow.Table``, ``to_node(array, index, sources, weights)``
            of an array of shape (n_i, m). It runs on the workers. What it raises is raised here.
        n_nodes : int or None
            Number of nodes; None: one for each partition.
        names : sequence of str
            The columns of a DataFrame that are needed. Empty for arrays.
        sources : array of shape (n,), optional
            The source of each row of an array.
        weights : array of shape (n,), optional
            The weight of each row of an array.
        """
