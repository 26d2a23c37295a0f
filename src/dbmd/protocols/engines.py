"""What an engine must offer, and what it runs at the nodes."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from dbmd.model.node import Node

__all__ = ["Ask", "Engine", "MakeEngine", "NodeFunction", "Reply"]

Reply = TypeVar("Reply")
Reply_co = TypeVar("Reply_co", covariant=True)


class NodeFunction(Protocol[Reply_co]):
    """A function that an engine runs at every node.

    It must be picklable (a function of a module, or a ``functools.partial`` of one) and must not change its arguments.
    It may rely on ``node.block`` only: everything else at a node is a cache that may be lost. A function that needs the
    cache is marked with :func:`dbmd.model.node.continues`.
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
    everything but the block of a node; then it must run a function that :func:`~dbmd.model.node.continues` only after
    the functions that filled the cache (:mod:`dbmd.engines._remote` does this for engines whose nodes are in other
    processes).

    An engine with a faster processor than the driver's may lend it: ``engine.work_on(Xt, work)`` returns ``work(Xt)``,
    where Xt are dense samples, here or where the engine computes, and work takes them as an array of any kind and
    returns arrays of NumPy. Others have no such method.
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
