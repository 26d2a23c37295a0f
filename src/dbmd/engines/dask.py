"""Nodes in the memory of Dask's workers: a chunk or partition is a node.

A block is a future, which stays on the worker that computed it, and tasks on it are sent there. What a node holds
besides is kept in the worker's memory, not as a future: a chain of futures would make the scheduler compute a whole fit
again when a worker is lost.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dbmd.engines._remote import Call, Outcome, Remote, added, answer, settled
from dbmd.engines.local import available_threads
from dbmd.errors import EngineError, first_line, needs
from dbmd.model.node import Node

with needs("engine 'dask'", "distributed", "dask"):
    import distributed
    from distributed import Client, LocalCluster

    from dbmd.engines._dask_collections import columns_of, map_rows, to_nodes

__all__ = ["Engine", "Placed", "Session", "columns_of", "map_rows", "place"]

TRIES = 4  # of a call, when workers are lost
FAN_IN = 8  # replies that are added in one task
LOOK_EVERY = 1.0  # seconds: how soon it is noticed that a worker is gone

OWN_CLUSTER = {
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    # Any free port: with no address at all the scheduler takes 8787, and warns if another has it.
    "dashboard_address": "127.0.0.1:0",
}


class Engine(Remote):
    """Run node functions on the workers of Dask.

    Parameters
    ----------
    nodes : sequence of Node, or Placed
        Nodes to send to the workers, or such as were made there.
    """

    name = "dask"

    def __init__(self, nodes: Sequence[Node] | Placed) -> None:
        super().__init__()
        self._owns_blocks = not isinstance(nodes, Placed)
        self._placed = nodes if isinstance(nodes, Placed) else Placed.from_client(nodes)
        self._id = uuid.uuid4().hex
        self.n_nodes = self._placed.n_nodes

    def _send(self, call: Call, at: Sequence[int] | None) -> list[Outcome]:
        failure: BaseException
        for _ in range(TRIES):
            try:
                return self._placed.run(call, self._id, range(self.n_nodes) if at is None else at)
            except LOSSES as error:
                failure = error
                self._placed.place_again()
        raise EngineError(f"Dask lost workers {TRIES} times in one pass: {failure!r}.") from None

    def close(self) -> None:
        """Remove what the nodes hold, and the blocks if they came with the engine."""
        self._placed.forget(self._id)
        if self._owns_blocks:
            self._placed.close()


def place(data: Any, to_node: Callable[..., Node], **how: Any) -> Placed:
    """Make nodes of a collection, where its chunks are computed; see :func:`.to_nodes`."""
    return Placed.from_delayed(to_nodes(data, to_node, **how))


class Gone(Exception):
    """A worker that tasks are held to is gone."""


# How it shows that a worker is gone: where it was held to, in what it had, in talking to it, or when too many died.
LOSSES = (
    Gone,
    distributed.client.FutureCancelledError,
    distributed.CancelledError,
    distributed.comm.CommClosedError,
    distributed.KilledWorker,
)


class Placed:
    """Blocks on workers, and the way to make them again.

    Parameters
    ----------
    session : Session
        Dask.
    place : callable
        ``place(client)`` returns for each node a future of it.
    """

    def __init__(self, session: Session, place: Callable[[Any], list[Any]]) -> None:
        self.session, self._place = session, place
        try:
            self._blocks = place(session.client)
        except BaseException:
            session.close()
            raise
        self.n_nodes = len(self._blocks)
        self._homes: list[list[str]] = []

    @classmethod
    def from_client(cls, nodes: Sequence[Node]) -> Placed:
        """Send nodes to the workers."""

        def scatter(client: Any) -> list[Any]:
            # Scattered, not part of a task: large tasks would pass through the scheduler.
            return [client.submit(settled, node, pure=False) for node in client.scatter(list(nodes), hash=False)]

        return cls(Session(), scatter)

    @classmethod
    def from_delayed(cls, nodes: Sequence[Any]) -> Placed:
        """Make delayed nodes, where their data are."""
        return cls(Session(), lambda client: client.compute(list(nodes)))

    def place_again(self) -> None:
        """After a loss: make the blocks again if any cannot be computed from what Dask knows; look where they are."""
        self._homes = []
        if any(block.status in ("lost", "cancelled") for block in self._blocks):
            self._blocks = self._place(self.session.client)

    def run(self, call: Call, engine: str, at: Sequence[int]) -> list[Outcome]:
        """Return the outcomes of a call, with the replies of neighbours added, as a tree."""
        client = self.session.client
        homes = self._find_homes()
        # One copy to one worker; the others get it from each other.
        sent = client.scatter(call, hash=False)
        level = [client.submit(_answer, self._blocks[i], i, sent, engine, pure=False, workers=homes[i]) for i in at]
        begun = [sent, *level]
        try:
            while len(level) > 1:
                groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
                level = [client.submit(_added, group, pure=False) for group in groups]
                begun += level
            return self._wait(level[0], homes)
        except BaseException:
            with suppress(Exception):
                client.cancel(begun)  # what nobody waits for any more need not be done
            raise
        finally:
            for future in begun:
                future.release()

    def _wait(self, last: Any, homes: list[list[str]]) -> list[Outcome]:
        """Return the result of a task, unless a worker that others are held to is gone."""
        while True:
            try:
                outcomes: list[Outcome] = last.result(timeout=LOOK_EVERY)
                return outcomes
            except TimeoutError:
                if last.status == "error":  # it is not we who waited
                    raise
                if not {home for its in homes for home in its} <= self.session.client.nthreads().keys():
                    raise Gone from None

    def _find_homes(self) -> list[list[str]]:
        """Return for each node the workers that have its block.

        Its tasks are held to them: there is what it holds besides. Dask would send a small block to whoever has time.
        """
        if not self._homes:
            client = self.session.client
            with client.as_current():
                distributed.wait(self._blocks)
            homes = client.who_has(self._blocks)
            self._homes = [list(homes[block.key]) for block in self._blocks]
        return self._homes

    def forget(self, engine: str) -> None:
        """Let the workers forget what the nodes of an engine held."""
        with suppress(OSError, RuntimeError, ValueError):
            self.session.client.run(_forget, engine)

    def close(self) -> None:
        """Let go of the blocks, and end Dask if it was begun for them."""
        self._blocks = []
        self.session.close()


class Session:
    """The client that the user has, or one of our own with a cluster on this machine, which :meth:`close` ends."""

    def __init__(self) -> None:
        try:
            self.client, self._cluster = distributed.get_client(), None
        except ValueError:
            self._cluster = _start()
            self.client = Client(self._cluster)  # the current one for a while: who asks next finds it

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""
        return sum(self.client.nthreads().values())

    def read(self, data: Any) -> Any:
        """Return paths as they are: dbmd reads them at the workers."""
        return data

    def close(self) -> None:
        """End the cluster if it is our own."""
        if self._cluster is not None:
            self.client.close()
            self._cluster.close()
            self._cluster = None


def _start() -> Any:
    """Start a cluster on the cores of this machine."""
    try:
        return LocalCluster(n_workers=available_threads(), **OWN_CLUSTER)
    except RuntimeError as error:
        raise EngineError(
            f"Dask could not start workers on this machine ({first_line(error)}). In a script, what starts them must "
            "stand under: if __name__ == '__main__':"
        ) from error


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
