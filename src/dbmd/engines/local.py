"""Nodes in this process, one thread each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from operator import add
from types import TracebackType
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


def available_threads() -> int:
    """Return how many threads to use: DBMD_NUM_THREADS, else the CPUs that this process may run on."""
    asked = os.environ.get("DBMD_NUM_THREADS")
    if asked:
        return max(1, int(asked))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Engine:
    """Run node functions in a pool of threads.

    The heavy functions (BLAS, our kernels) release the GIL. While they run, BLAS is held to one thread: the nodes are
    the parallelism, and two levels of it would fight. Replies are added in the order of the nodes, so the number of
    threads does not change the result.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes.
    n_threads : int, optional
        Threads; by default :func:`available_threads`.
    """

    def __init__(self, nodes: Sequence[Any], n_threads: int | None = None) -> None:
        self.nodes = list(nodes)
        threads = min(n_threads or available_threads(), len(self.nodes))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dbmd") if threads > 1 else None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def ask(self, node_function: Callable[..., Any], *broadcast: Any) -> Any:
        """Run node_function(node, *broadcast) -> (node, reply) at every node; return the sum of the replies."""

        def run(node: Any) -> Any:
            try:
                # OpenBLAS now and then raises the flag "invalid" for padding that is no part of a product of finite
                # float32 arrays. Data are checked before they get here.
                with np.errstate(invalid="ignore"):
                    return node_function(node, *broadcast)
            except Exception as error:
                error.add_note(f"at node {node.name!r} of the local engine")
                raise

        with _controller().limit(limits=1, user_api="blas"):
            answers = list(self._pool.map(run, self.nodes) if self._pool else map(run, self.nodes))
        self.nodes = [node for node, _ in answers]
        return reduce(add, (reply for _, reply in answers))

    def close(self, *, wait: bool = True) -> None:
        """End the threads, when they are done or, without waiting for them, as soon as they are."""
        if self._pool:
            self._pool.shutdown(wait=wait, cancel_futures=not wait)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # One who interrupts does not want to wait for the end of a pass.
        self.close(wait=kind is None or issubclass(kind, Exception))


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded BLAS libraries takes milliseconds; a round of a solver may take microseconds.
    return ThreadpoolController()
