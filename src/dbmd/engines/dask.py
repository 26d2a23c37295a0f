"""Nodes in the memory of Dask's workers: a chunk or partition is a node.

A block is a future, which stays on the worker that computed it, and tasks on it are sent there. What a node holds
besides is kept in the worker's memory, not as a future: a chain of futures would make the scheduler compute a whole fit
again when a worker is lost.

Nothing is waited for without looking up: a scheduler that is lost or silent is an error, and what a worker had that is
gone is made again elsewhere. Which worker is gone is for the scheduler to say, by the heartbeats (its setting
``worker-ttl``): a task may take as long as it takes.
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
from dbmd.engines._remote import Call, Outcome, Remote, added, answer, settled
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
LOOK_EVERY = 1.0  # seconds: how soon it is noticed that a worker is gone
SILENCE = 300.0  # seconds without an answer of the scheduler, or without a worker, that end a fit
TIDY = 10.0  # seconds for what need not be done, such as forgetting

# Of a cluster on this machine that we start: threads of this process, which nobody else can reach. They are as quick as
# processes (what is heavy releases the GIL) and need no copy of the samples.
OWN_CLUSTER: dict[str, Any] = {
    "n_workers": 1,
    "processes": False,
    "protocol": "inproc://",
    "memory_limit": 0,  # as for the local engine: a worker that is stopped for want of memory would be waited for
    # Any free port, for as long as it takes to close it: with no address at all the scheduler takes 8787.
    "dashboard_address": "127.0.0.1:0",
    "scheduler_kwargs": {"dashboard": False},
    "silence_logs": logging.ERROR,  # numba compiles for seconds, a user interrupts: no news
}
OWN_CONFIG: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # A part of this process does not freeze alone, but a laptop that wakes up has missed its heartbeats.
    "distributed.scheduler.worker-ttl": None,
}


class Engine(Remote):
    """Run node functions on the workers of Dask.

    Parameters
    ----------
    nodes : sequence of Node, or Placement
        Nodes to send to the workers, or such as were made there.
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
        """Remove what the nodes hold, and the blocks if they came with the engine."""
        self._placement.forget(self._id)
        if self._owns_blocks:
            self._placement.close()


def distribute(
    data: Any, to_node: Callable[..., Node], *, n_nodes: int | None, names: Sequence[str] = (), sources: Any = None
) -> Placement:
    """Make a node of each chunk or partition of a collection, on the worker that computes it; see :func:`.to_nodes`."""
    return Placement.from_delayed(to_nodes(data, to_node, n_nodes=n_nodes, names=names, sources=sources))


class Gone(Exception):
    """A worker that tasks are held to is gone, or the connection to the scheduler was."""


# How it shows that a worker is gone: where it was held to, in what it had, in talking to it, or when too many died.
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
            # Scattered, not part of a task: large tasks would pass through the scheduler.
            sent = session.wait(lambda: session.client.scatter(list(nodes), hash=False, timeout=SILENCE))
            return [session.client.submit(settled, node, pure=False) for node in sent]

        return cls(Session(), scatter)

    @classmethod
    def from_delayed(cls, nodes: Sequence[Any]) -> Placement:
        """Make delayed nodes, where their data are."""
        return cls(Session(), lambda session: session.client.compute(list(nodes)))

    def engine(self) -> Engine:
        """Return an engine on these nodes. Closing it leaves the nodes where they are."""
        return Engine(self)

    def run(self, call: Call, engine: str, at: Sequence[int]) -> list[Outcome]:
        """Return the outcomes of a call, with the replies of neighbours added, as a tree."""
        with one_blas_thread():  # here too, and longer than any of them, should the workers be threads of this process
            outcomes: list[Outcome] = self._tried(lambda: self._run(call, engine, at))
        return outcomes

    def _tried(self, attempt: Callable[[], Any]) -> Any:
        """Return attempt(), after a loss that of another one, which looks anew where the blocks are."""
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
        # One copy to one worker; the others get it from each other.
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
            self.session.tidy(lambda: client.cancel(begun))  # what nobody waits for any more need not be done
            raise
        finally:
            for future in begun:
                future.release()

    def _make_blocks(self) -> None:
        """Make the blocks, or make them again if any cannot be computed from what Dask knows."""
        if not self._blocks or any(block.status in ("lost", "cancelled") for block in self._blocks):
            self._blocks = self._make_futures(self.session)

    def _find_homes(self) -> list[list[str]]:
        """Return for each node the workers that have its block.

        Its tasks are held to them: there is what it holds besides. Dask would send a small block to whoever has time.
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
        """Let the workers forget what the nodes of an engine held."""
        self.session.tidy(lambda: self.session.client.run(_forget, engine))

    def close(self) -> None:
        """Let go of the blocks, and end Dask if it was begun for them."""
        self._blocks = []
        self.session.close()


class Session:
    """The client that the user has, or one of our own with a cluster in this process, which :meth:`close` ends."""

    def __init__(self) -> None:
        try:
            self.client, self._cluster = distributed.get_client(), None
        except ValueError:
            self._folder = tempfile.TemporaryDirectory(prefix="dbmd-")
            self._cluster = _start(self._folder.name)
            self.client = Client(self._cluster)  # the current one for a while: who asks next finds it
        self._address = self.client.scheduler.address

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""
        return sum(self._threads().values())

    def read(self, data: Any) -> Any:
        """Return paths as they are: dbmd reads them at the workers."""
        return data

    def wait(self, begin: Callable[[], Any], homes: Collection[str] = ()) -> Any:
        """Return what a call of the client gives; look after scheduler and workers until it does.

        Parameters
        ----------
        begin : callable
            Makes the call. It runs in the thread of the client, where calls give what can be awaited.
        homes : collection of str
            Workers that it cannot do without.
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
            if self.client.status != "running":  # all else follows from it
                raise Gone from None
            raise
        finally:
            under_way.cancel()

    def tidy(self, begin: Callable[[], Any]) -> None:
        """Make a call of the client if that can be done soon, and do without it if not."""
        if self.client.status == "running":
            with suppress(Exception):
                self._begin(begin).result(TIDY)

    def await_scheduler(self) -> None:
        """Wait while the client looks for a scheduler that it lost; raise an EngineError if it does not find it."""
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
        """End the cluster if it is our own."""
        if self._cluster is not None:
            self.client.close()
            self._cluster.sync(_end_workers, self._cluster)
            self._cluster.close()
            self._cluster = None
            self._folder.cleanup()


def _start(folder: str) -> Any:
    """Start a cluster on the cores of this machine, which keeps its files in a folder."""
    with dask.config.set(OWN_CONFIG | {"temporary-directory": folder}):
        cluster = LocalCluster(threads_per_worker=available_threads(), **OWN_CLUSTER)
    cluster.sync(_stop_listening, cluster)
    return cluster


async def _stop_listening(cluster: Any) -> None:
    """Close the ports of HTTP, the only ones that are open in such a cluster: Dask always opens them."""
    for server in (cluster.scheduler, *cluster.workers.values()):
        server.http_server.stop()


async def _end_workers(cluster: Any) -> None:
    """End workers without waiting for what they are at: one who interrupts does not want to."""
    for worker in list(cluster.workers.values()):
        await worker.close(executor_wait=False)


# -- at the workers ------------------------------------------------------------------------------------------------


class _InMemory:
    """What the nodes of an engine hold at this worker.

    Attributes
    ----------
    held : dict of int to dict
        For each node, what it held after the last questions that changed it.
    """

    def __init__(self) -> None:
        self.held: dict[int, dict[int, Any]] = {}

    def recall(self, index: int, number: int) -> Any:
        """Return what a node held after a question, None if it is not there."""
        return self.held.get(index, {}).get(number)

    def keep(self, index: int, number: int, held: Any) -> None:
        """Keep what a node holds after a question."""
        before = self.held.get(index, {})
        self.held[index] = {n: before[n] for n in sorted(n for n in before if n < number)[-1:]} | {number: held}


_MEMORIES: dict[str, _InMemory] = {}
_LOCK = threading.Lock()


def _answer(node: Node, index: int, call: Call, engine: str) -> list[Outcome]:
    with _LOCK:
        memory = _MEMORIES.setdefault(engine, _InMemory())
    return [answer(node, index, call, memory)]


def _added(groups: list[list[Outcome]]) -> list[Outcome]:
    return added(outcome for group in groups for outcome in group)


def _forget(engine: str) -> None:
    _MEMORIES.pop(engine, None)
