"""What plug-ins must offer: engines, solvers and kernels.

A plug-in is one module in ``dbmd.engines``, ``dbmd.solvers`` or ``dbmd.kernels``. The name of the module is the name of
the plug-in, and the suites in ``tests/*/test_conformance.py`` test every plug-in that they find there.

Shapes use the letters of the model: m features, r components, n samples, n_i samples of node i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from dbmd.data.formats import Reader
    from dbmd.data.location import Location
    from dbmd.model.node import Node

__all__ = [
    "Ask",
    "Cluster",
    "Engine",
    "FaceCovariance",
    "Format",
    "Kernel",
    "NodeFunction",
    "Placement",
    "Session",
    "Solver",
]

Reply = TypeVar("Reply")
Reply_co = TypeVar("Reply_co", covariant=True)

# -- the algorithm -------------------------------------------------------------------------------------------------


class NodeFunction(Protocol[Reply_co]):
    """A function that an engine runs at every node.

    It must be picklable (a function of a module, or a ``functools.partial`` of one) and must not change its arguments.
    It may rely on ``node.block`` and ``node.weights`` only: everything else at a node is a cache that may be lost. A
    function that needs the cache is marked with :func:`dbmd.model.node.continues`.
    """

    def __call__(self, node: Node, /, *broadcast: Any, **options: Any) -> tuple[Node, Reply_co]:
        """Return the node with its cache renewed, and a reply.

        Parameters
        ----------
        node : Node
            Some of the samples, and a cache.
        *broadcast : arrays
            What the driver sends to all nodes, usually W of shape (m, r). Their entries are counted as traffic.
        **options
            Parameters that are bound by ``functools.partial``. They are not counted.

        Returns
        -------
        Node
            The same node, or one with another cache; its block is the same.
        reply
            Anything that supports ``+`` and pickling. Replies of a size that does not depend on the number of samples
            are what makes an engine scale.
        """


class Ask(Protocol):
    """The one verb between the driver and the nodes: the method ``ask`` of an engine."""

    def __call__(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run ``node_function(node, *broadcast)`` at every node and return the sum of the replies.

        Replies are added in the order of the nodes, so that the sum does not depend on which node is the first to
        reply. An exception in a node function is raised here, with a note that names the node.
        """


class Engine(Protocol):
    """Where the nodes are: threads, or the workers of a cluster.

    An engine is a module with a class ``Engine`` that satisfies this Protocol and is made from a list of nodes,
    ``Engine(nodes)``. It keeps the node that a function returns and passes it to the next function. It may lose
    everything but the block and the weights of a node; then it must run a function that
    :func:`~dbmd.model.node.continues` only after the functions that filled the cache (:mod:`dbmd.engines._remote` does
    this for engines whose nodes are in other processes).
    """

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and return the sum of the replies; see :class:`Ask`."""

    def close(self) -> None:
        """Release all that the engine holds. It is not used again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


MakeEngine = Callable[[list["Node"]], Engine]


# -- data --


class Format(Protocol):
    """A file format: a module of :mod:`dbmd.data.formats`."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """Endings of file names, with the dot and in lower case: ``(".csv", ".csv.gz")``. No two formats share one."""

    def open_file(
        self,
        location: Location,
        /,
        *,
        header: bool | None = ...,
        delimiter: str | None = ...,
        memory: int = ...,
    ) -> Reader:
        """Open a file and return a reader, which can be pickled and read by several threads at once.

        Parameters
        ----------
        location : Location
            The file, on this machine or elsewhere: ``location.open()`` returns it open for reading.
        header : bool or None
            Whether the first line has the names of the columns; None: to be found out. Only csv needs it.
        delimiter : str or None
            What separates fields; None: to be found out. Only csv needs it.
        memory : int
            Bytes. A damaged file may claim any size: before something of that size is allocated, it must be compared
            with this. A format takes the keywords that it needs, and ``**hints``, which it ignores.

        Returns
        -------
        Reader
            A subclass of :class:`dbmd.data.formats.Reader` with ``columns`` and ``_batches``.

        Raises
        ------
        DataError
            If the file cannot be read: with its name, what is wrong, and a remedy. Errors of libraries may pass: the
            caller turns them into a DataError.
        """


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
    ) -> Placement:
        """Make a node of each partition of a collection, on the worker that has or computes it.

        Parameters
        ----------
        data : collection
            A DataFrame, or whatever arrays the cluster has.
        to_node : callable
            ``to_node(table, index)`` makes a node of a ``pyarrow.Table``, ``to_node(array, index, sources)`` of an
            array of shape (n_i, m). It runs on the workers. What it raises is raised here.
        n_nodes : int or None
            Number of nodes; None: one for each partition.
        names : sequence of str
            The columns of a DataFrame that are needed. Empty for arrays.
        sources : array of shape (n,), optional
            The source of each row of an array.
        """
