"""How long messages take over links with a latency and a bandwidth: an engine around an engine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Generic

from dbmd.engines._metered import Metered, Traffic, count_floats
from dbmd.model.node import Node
from dbmd.protocols import Engine, NodeFunction, Reply

BITS = 64  # of a number


@dataclass(frozen=True)
class Link:
    """The connection between a node and the driver. Every node has its own, and all work at the same time.

    A message of k numbers takes ``latency + 64 k / bandwidth``. Nothing else is counted: no headers, no loss, no time
    to set up a connection. If the nodes share one line to the driver, the numbers of all pass it one after the other:
    that is ``Link(latency, bandwidth / n_nodes)``.

    Parameters
    ----------
    latency : float
        Seconds, one way.
    bandwidth : float
        Bits a second, each way.

    Examples
    --------
    >>> from dbmd.engines import Link, Traffic
    >>> wide_area = Link(latency=0.05, bandwidth=1e8)
    >>> round(wide_area.message(100_000), 3)
    0.114
    >>> round(wide_area.seconds(Traffic(asks=10, floats_down=100_000, floats_up=100_000)), 3)
    1.128
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not (self.latency >= 0.0 and self.bandwidth > 0.0):
            raise ValueError(
                "A link needs a latency >= 0 (seconds) and a bandwidth > 0 (bits a second). "
                f"Got latency={self.latency!r}, bandwidth={self.bandwidth!r}."
            )

    def message(self, floats: int) -> float:
        """Return the seconds that a message takes one way."""
        return self.latency + BITS * floats / self.bandwidth

    def seconds(self, traffic: Traffic) -> float:
        """Return the seconds that questions and their replies take, one question after the other."""
        return 2 * traffic.asks * self.latency + BITS * (traffic.floats_down + traffic.floats_up) / self.bandwidth


class Linked(Metered):
    """An engine that computes how long its messages would take over links, or really takes that long.

    Parameters
    ----------
    engine : Engine
        The engine that does the work.
    link : Link
        The connection of every node.
    wait : bool
        Whether the nodes wait for their messages, down and up. They wait at the same time if the engine runs them at
        the same time; the local engine needs as many threads as nodes for that.

    Examples
    --------
    >>> import numpy as np
    >>> from dbmd import DBMD
    >>> from dbmd.engines import Link, Linked
    >>> from dbmd.engines.local import Engine
    >>> made = []
    >>> def over_links(nodes):
    ...     made.append(Linked(Engine(nodes), Link(latency=0.05, bandwidth=1e8)))
    ...     return made[-1]
    >>> X = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    >>> model = DBMD(2, engine=over_links, n_nodes=5, random_state=0).fit(X)
    >>> round(made[0].seconds / made[0].traffic.asks, 2)  # there and back
    0.1
    """

    def __init__(self, engine: Engine, link: Link, *, wait: bool = False) -> None:
        super().__init__(engine)
        self.link = link
        self.wait = wait

    @property
    def seconds(self) -> float:
        """Seconds that the messages take by this model, so far, without the work of the nodes and the driver."""
        return self.link.seconds(self.traffic)

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and add the replies, counting both ways."""
        return super().ask(_Waiting(node_function, self.link) if self.wait else node_function, *broadcast)


@dataclass(frozen=True)
class _Waiting(Generic[Reply]):
    """A node function that begins when the question has arrived, and ends when the reply has."""

    func: NodeFunction[Reply]
    link: Link

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, Reply]:
        time.sleep(self.link.message(count_floats(broadcast)))
        node, reply = self.func(node, *broadcast)
        time.sleep(self.link.message(count_floats(reply)))
        return node, reply
