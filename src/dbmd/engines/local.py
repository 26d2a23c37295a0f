"""Nodes in this process, in a pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from types import TracebackType
from typing import Any, Self

from dbmd._utils.threads import available_threads, one_blas_thread
from dbmd.engines._at_node import run
from dbmd.model.node import Node
from dbmd.protocols import NodeFunction, Reply

__all__ = ["Engine", "available_threads"]


class Engine:
    """Run node functions in a pool of threads.

    The functions that take time (BLAS, the kernels) release the GIL. While they run, BLAS is limited to one thread,
    because the nodes run in parallel already. Replies are added in the order of the nodes, so the number of
    threads does not change the result.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes.
    n_threads : int, optional
        Threads; by default :func:`available_threads`.
    """

    def __init__(self, nodes: Sequence[Node], n_threads: int | None = None) -> None:
        self.nodes = list(nodes)
        threads = min(n_threads or available_threads(), len(self.nodes))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dbmd") if threads > 1 else None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run node_function(node, *broadcast) -> (node, reply) at every node; return the sum of the replies."""

        def at(node: Node) -> tuple[Node, Reply]:
            return run(node_function, node, broadcast, "local")

        with one_blas_thread():
            answers = list(self._pool.map(at, self.nodes) if self._pool else map(at, self.nodes))
        self.nodes = [node for node, _ in answers]
        return reduce(add, (reply for _, reply in answers))

    def close(self, *, wait: bool = True) -> None:
        """End the threads; without ``wait``, return at once and start nothing more."""
        if self._pool:
            self._pool.shutdown(wait=wait, cancel_futures=not wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A user who interrupts a fit does not want to wait for the end of a pass.
        self.close(wait=kind is None or issubclass(kind, Exception))
