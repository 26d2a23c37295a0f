"""Nodes in the memory of Dask's workers: a chunk or partition is a node.

A block is a future, which stays on the worker that computed it, and tasks on it are sent there. The cache of a node is
kept in the memory of the worker, not as a future: with a chain of futures the scheduler would compute a whole fit again
when a worker is lost.

While the driver waits for a result, it checks on the scheduler and the workers: a scheduler that is lost or does not
answer is an error, and blocks of a lost worker are made again on another one. The scheduler decides by heartbeats which
worker is lost (its setting ``worker-ttl``), so that a task may take any time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from dbmd._utils.threads import one_blas_thread
from dbmd.engines._device_arrays import device_of
from dbmd.engines._remote import Call, Outcome, Remote, added, answer, loaded
from dbmd.engines.local import available_threads
from dbmd.errors import EngineError, needs
from dbmd.model.node import Node

with needs("engine 'dask'", "distributed", "dask"):
    import dask
    import distributed
    from distributed import Client, LocalCluster

    from dbmd.engines._dask_collections import columns_of, map_rows, to_nodes

__all__ = ["Engine", "Placement", "Session", "columns_of", "distribute", "map_rows"]

TRIES = 4  # of a call, when workers are lost
FAN_IN = 8  # replies that are added in one task
LOOK_EVERY = 1.0  # seconds after which the loss of a worker is noticed
SILENCE = 300.0  # seconds without an answer of the scheduler, or without a worker, after which a fit fails
TIDY = 10.0  # largest number of seconds for tidying up

# For a cluster of our own on this machine: threads of this process, which nobody else can reach. They are as fast as
# processes, because functions that take time release the GIL, and they need no copy of the samples.
OWN_CLUSTER: dict[str, Any] = {
    "n_workers": 1,
    "processes": False,
    "protocol": "inproc://",
    "memory_limit": 0,  # no limit: the driver would wait for a worker that is paused for lack of memory
    # Any free port, which is closed at once: without an address the scheduler takes 8787.
    "dashboard_address": "127.0.0.1:0",
    "scheduler_kwargs": {"dashboard": False},
    "silence_logs": logging.ERROR,  # no warnings while numba compiles, or when a user interrupts
}
OWN_CONFIG: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Threads of this process cannot be lost, but a laptop that wakes up has missed their heartbeats.
    "distributed.scheduler.worker-ttl": None,
}


class Engine(Remote):
    """Run node functions on the workers of Dask.

    Parameters
    ----------
    nodes : sequence of Node, or Placement
        Nodes to send to the workers, or nodes that were made there.
    """

    name = "dask"

    def __init__(self, nodes: Sequence[Node] | Placement) -> None:
        super().__init__()
        self._owns_blocks = not isinstance(nodes, Placement)
        self._placement = nodes if isinstance(nodes, Placement) else Placement.from_client(nodes)
        self._id = uuid.uuid4().hex
        self.n_nodes = self._placement.n_nodes

    def _send(self, call: Call, at: Sequence[int] | None) -> list[Outcome]:
        return self._placement.run(call, self._id, range(self.n_nodes) if at is None else at)

    def close(self) -> None:
        """Remove the caches of the nodes, and the blocks if this engine sent them."""
        self._placement.forget(self._id)
        if self._owns_blocks:
            self._placement.close()


def distribute(
    data: Any,
    to_node: Callable[..., Node],
    *,
    n_nodes: int | None,
    names: Sequence[str] = (),
    sources: Any = None,
    weights: Any = None,
) -> Placement:
    """Make a node of each chunk or partition of a collection, on the worker that computes it; see :func:`.to_nodes`."""
    nodes = to_nodes(data, to_node, n_nodes=n_nodes, names=names, sources=sources, weights=weights)
    return Placement.from_delayed(nodes)


class Gone(Exception):
    """A worker that tasks are bound to is lost, or the connection to the scheduler was."""


# What the loss of a worker leads to: for tasks bound to it, for its results, in talking to it, or after several deaths.
LOSSES = (
    Gone,
    distributed.client.FutureCancelledError,
    distributed.CancelledError,
    distributed.comm.CommClosedError,
    distributed.KilledWorker,
)


class Placement:
    """Blocks on workers, and how to make them again; see :class:`dbmd.protocols.Placement`.

    Parameters
    ----------
    session : Session
        Dask.
    make_futures : callable
        ``make_futures(session)`` returns a future of each node.
    """

    def __init__(self, session: Session, make_futures: Callable[[Session], list[Any]]) -> None:
        self.session, self._make_futures = session, make_futures
        self._blocks: list[Any] = []
        self._homes: list[list[str]] = []
        try:
            self._tried(self._make_blocks)
        except BaseException:
            session.close()
            raise
        self.n_nodes = len(self._blocks)

    @classmethod
    def from_client(cls, nodes: Sequence[Node]) -> Placement:
        """Send nodes to the workers."""

        def scatter(session: Session) -> list[Any]:
            # Scattered, not part of a task: a large task would be sent through the scheduler.
            sent = session.wait(lambda: session.client.scatter(list(nodes), hash=False, timeout=SILENCE))
            return [session.client.submit(loaded, node, pure=False) for node in sent]

        return cls(Session(), scatter)

    @classmethod
    def from_delayed(cls, nodes: Sequence[Any]) -> Placement:
        """Make nodes of delayed ones, on the workers that have their data."""
        return cls(Session(), lambda session: session.client.compute(list(nodes)))

    def engine(self) -> Engine:
        """Return an engine on these nodes. Closing it leaves the nodes where they are."""
        return Engine(self)

    def run(self, call: Call, engine: str, at: Sequence[int]) -> list[Outcome]:
        """Return the outcomes of a call, with the replies of consecutive nodes added in a tree."""
        with one_blas_thread():  # here, too: the workers may be threads of this process
            outcomes: list[Outcome] = self._tried(lambda: self._run(call, engine, at))
        return outcomes

    def _tried(self, attempt: Callable[[], Any]) -> Any:
        """Return ``attempt()``; after a loss, look again where the blocks are and try once more."""
        failure: BaseException
        for _ in range(TRIES):
            self.session.await_scheduler()
            try:
                return attempt()
            except LOSSES as error:
                failure = error
                self._homes = []
        raise EngineError(f"Dask lost workers {TRIES} times in one pass: {failure!r}.") from None

    def _run(self, call: Call, engine: str, at: Sequence[int]) -> list[Outcome]:
        client = self.session.client
        homes = self._find_homes()
        # One copy is sent to one worker; the workers pass it on to each other.
        sent = self.session.wait(lambda: client.scatter(call, hash=False, timeout=SILENCE))
        level = [client.submit(_answer, self._blocks[i], i, sent, engine, pure=False, workers=homes[i]) for i in at]
        begun = [sent, *level]
        try:
            while len(level) > 1:
                groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
                level = [client.submit(_added, group, pure=False) for group in groups]
                begun += level
            outcomes: list[Outcome] = self.session.wait(level[0].result, {home for its in homes for home in its})
            return outcomes
        except BaseException:
            self.session.tidy(lambda: client.cancel(begun))  # nobody waits for them any more
            raise
        finally:
            for future in begun:
                future.release()

    def _make_blocks(self) -> None:
        """Make the blocks, or make them again if Dask cannot compute one of them."""
        if not self._blocks or any(block.status in ("lost", "cancelled") for block in self._blocks):
            self._blocks = self._make_futures(self.session)

    def _find_homes(self) -> list[list[str]]:
        """Return for each node the workers that have its block.

        Tasks of the node are bound to them, because its cache is there. Dask would send small blocks to idle workers.
        """
        if not self._homes:
            client = self.session.client
            self._make_blocks()

            async def computed() -> Any:
                with client.as_current():
                    await distributed.wait(self._blocks)
                return await client.who_has(self._blocks)

            homes = self.session.wait(computed)
            self._homes = [list(homes[block.key]) for block in self._blocks]
        return self._homes

    def forget(self, engine: str) -> None:
        """Remove the caches of the nodes of an engine from all workers."""
        self.session.tidy(lambda: self.session.client.run(_forget, engine))

    def close(self) -> None:
        """Release the blocks, and stop Dask if it was started for them."""
        self._blocks = []
        self.session.close()


class Session:
    """The client of the user, or one of our own with a cluster in this process, which :meth:`close` stops."""

    def __init__(self) -> None:
        try:
            self.client, self._cluster = distributed.get_client(), None
        except ValueError:
            self._folder = tempfile.TemporaryDirectory(prefix="dbmd-")
            self._cluster = _start(self._folder.name)
            self.client = Client(self._cluster)  # it becomes the current one: the next Session finds it
        self._address = self.client.scheduler.address

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""
        return sum(self._threads().values())

    def read(self, data: Any) -> Any:
        """Return paths as they are: dbmd reads them on the workers."""
        return data

    def wait(self, begin: Callable[[], Any], homes: Collection[str] = ()) -> Any:
        """Return the result of a call of the client, and check on scheduler and workers while waiting for it.

        Parameters
        ----------
        begin : callable
            Makes the call. It runs in the thread of the client, where calls return awaitables.
        homes : collection of str
            Workers that the call depends on.
        """
        under_way = self._begin(begin)
        try:
            had_workers = time.monotonic()
            while not concurrent.futures.wait([under_way], LOOK_EVERY).done:
                workers = self._threads().keys()
                if workers:
                    had_workers = time.monotonic()
                elif time.monotonic() - had_workers > SILENCE:
                    raise EngineError(
                        f"Dask has had no worker for {SILENCE:g} seconds. Start workers for the scheduler "
                        f"{self._address}, and fit again."
                    )
                if not set(homes) <= workers:
                    raise Gone
            return under_way.result()
        except Exception:
            if self.client.status != "running":  # other errors follow from this
                raise Gone from None
            raise
        finally:
            under_way.cancel()

    def tidy(self, begin: Callable[[], Any]) -> None:
        """Make a call of the client, and give up if it takes long or fails."""
        if self.client.status == "running":
            with suppress(Exception):
                self._begin(begin).result(TIDY)

    def await_scheduler(self) -> None:
        """Wait while the client reconnects to its scheduler; raise an EngineError if it does not succeed."""
        end = time.monotonic() + SILENCE
        while self.client.status == "connecting" and time.monotonic() < end:
            time.sleep(LOOK_EVERY / 10)
        if self.client.status != "running":
            raise EngineError(
                f"Dask lost its scheduler, {self._address}, and did not find it again. See in its log why it ended, "
                "start it and its workers, and fit again with a new client."
            )

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker."""
        asked = self._begin(lambda: self.client.nthreads())
        try:
            threads: dict[str, int] = asked.result(SILENCE)
            return threads
        except TimeoutError:
            if asked.done():
                raise
            raise EngineError(
                f"The scheduler of Dask, {self._address}, has not answered for {SILENCE:g} seconds. See in its log "
                "what it is at, and fit again."
            ) from None
        finally:
            asked.cancel()

    def _begin(self, begin: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        async def awaited() -> Any:
            return await begin()

        return asyncio.run_coroutine_threadsafe(awaited(), self.client.loop.asyncio_loop)

    def close(self) -> None:
        """Stop the cluster if it is our own."""
        if self._cluster is not None:
            self.client.close()
            self._cluster.sync(_end_workers, self._cluster)
            self._cluster.close()
            self._cluster = None
            self._folder.cleanup()


def _start(folder: str) -> Any:
    """Start a cluster on the cores of this machine, with its files in a folder."""
    with dask.config.set(OWN_CONFIG | {"temporary-directory": folder}):
        cluster = LocalCluster(threads_per_worker=available_threads(), **OWN_CLUSTER)
    cluster.sync(_stop_listening, cluster)
    return cluster


async def _stop_listening(cluster: Any) -> None:
    """Close the HTTP ports, the only open ports of such a cluster: Dask always opens them."""
    for server in (cluster.scheduler, *cluster.workers.values()):
        server.http_server.stop()


async def _end_workers(cluster: Any) -> None:
    """End the workers without waiting for their tasks: a user who interrupts does not want to wait."""
    for worker in list(cluster.workers.values()):
        await worker.close(executor_wait=False)


# -- on the workers ------------------------------------------------------------------------------------------------


class _InMemory:
    """The caches of the nodes of an engine on this worker.

    Attributes
    ----------
    held : dict of int to dict
        For each node its caches after the last two questions that changed it, by the number of the question.
    """

    def __init__(self) -> None:
        self.held: dict[int, dict[int, Node]] = {}

    def recall(self, index: int, number: int) -> Node | None:
        """Return the cache of a node after a question; None if it is not there."""
        return self.held.get(index, {}).get(number)

    def keep(self, index: int, number: int, held: Node) -> None:
        """Keep the cache of a node after a question, and the one before it."""
        before = self.held.get(index, {})
        self.held[index] = {n: before[n] for n in sorted(n for n in before if n < number)[-1:]} | {number: held}


_CACHES: dict[str, _InMemory] = {}
_LOCK = threading.Lock()


def _answer(node: Node, index: int, call: Call, engine: str) -> list[Outcome]:
    with _LOCK:
        caches = _CACHES.setdefault(engine, _InMemory())
    with device_of(getattr(node.block, "Xt", None)):  # a worker may have several
        return [answer(node, index, call, caches)]


def _added(groups: list[list[Outcome]]) -> list[Outcome]:
    return added(outcome for group in groups for outcome in group)


def _forget(engine: str) -> None:
    _CACHES.pop(engine, None)
