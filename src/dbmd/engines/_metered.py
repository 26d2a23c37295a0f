"""Counting the numbers that are sent: an engine around an engine."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from types import TracebackType
from typing import Any, Generic, Self

import numpy as np

from dbmd.model.node import Node
from dbmd.protocols import Engine, NodeFunction, Reply


@dataclass(frozen=True)
class Traffic:
    """Messages between the driver and a node.

    Attributes
    ----------
    asks : int
        Questions: calls of ``ask``.
    floats_down : int
        Numbers sent to each node.
    floats_up : int
        Numbers received from the node that sent most.
    """

    asks: int = 0
    floats_down: int = 0
    floats_up: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.asks + other.asks, self.floats_down + other.floats_down, self.floats_up + other.floats_up)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.asks - other.asks, self.floats_down - other.floats_down, self.floats_up - other.floats_up)


class Metered:
    """An engine that counts the numbers that another engine sends and receives.

    Parameters
    ----------
    engine : Engine
        The engine that does the work.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.traffic = Traffic()  # so far
        self.last = Traffic()  # of the last question

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.engine.n_nodes

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and add the replies, counting both ways."""
        counted = self.engine.ask(_Counting(node_function), *broadcast)
        self.last = Traffic(1, count_floats(broadcast), counted.floats)
        self.traffic += self.last
        return counted.reply

    def close(self) -> None:
        """Close the engine that does the work."""
        self.engine.close()

    def __enter__(self) -> Self:
        self.engine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.__exit__(kind, error, trace)


@dataclass(frozen=True)
class _Counted(Generic[Reply]):
    """A reply and its size; of added replies, the largest size."""

    reply: Reply
    floats: int

    def __add__(self, other: _Counted[Reply]) -> _Counted[Reply]:
        reply: Reply = self.reply + other.reply  # type: ignore[operator]
        return _Counted(reply, max(self.floats, other.floats))


@dataclass(frozen=True)
class _Counting(Generic[Reply]):
    """A node function that counts its reply at the node."""

    func: NodeFunction[Reply]

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, _Counted[Reply]]:
        node, reply = self.func(node, *broadcast)
        return node, _Counted(reply, count_floats(reply))


def count_floats(message: Any) -> int:
    """Return how many numbers a message carries."""
    if isinstance(message, _Counted):  # from an engine around this one; its count is not part of the message
        return message.floats
    if isinstance(message, np.ndarray):
        return int(message.size)
    if isinstance(message, int | float | np.number):
        return 1
    if isinstance(message, dict):
        return sum(count_floats(value) for value in message.values())
    if isinstance(message, tuple | list):
        return sum(count_floats(value) for value in message)
    if is_dataclass(message):
        return sum(count_floats(getattr(message, field.name)) for field in fields(message))
    return 0
