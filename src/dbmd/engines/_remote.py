"""What engines over other processes have in common: questions, answers, and recovery after a loss.

Every question has a number. The cache of a node that a question changed (all but its block) is kept on its worker under
that number. The next question says which number it expects. If the cache is not there (the worker is gone, or another
worker has the node now), a question that needs the block only is answered nevertheless. A question that
:func:`~dbmd.model.node.continues` is answered ``Lost``, and asked again together with all the questions that filled the
cache. So nothing has to be saved during a fit: what is lost is computed again from the data and W.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from dbmd._utils.threads import one_blas_thread
from dbmd.engines._at_node import run
from dbmd.errors import EngineError
from dbmd.model.node import Node, does_continue
from dbmd.protocols import NodeFunction, Reply

# Of the questions that filled the caches, the first is kept and so many of the last. No solver depends on earlier ones
# except ADMM, whose duals recover from any start.
LOOKS_BACK = 16


class Sent(NamedTuple):
    """Bytes that were sent between the driver and a node. It adds.

    Attributes
    ----------
    asks : int
        Questions.
    down : int
        Bytes that were broadcast to each node.
    up : int
        Bytes of the replies of the node that sent most.
    functions : int
        Bytes of the rest: the function with its parameters, and the numbers of the expected caches.
    """

    asks: int = 0
    down: int = 0
    up: int = 0
    functions: int = 0

    def __add__(self, other: tuple[Any, ...]) -> Sent:
        return Sent(*map(add, self, other))

    def __sub__(self, other: Sent) -> Sent:
        return Sent(*(mine - its for mine, its in zip(self, other, strict=True)))


class Question(NamedTuple):
    """A question to all nodes.

    Attributes
    ----------
    function, broadcast : bytes
        Pickled.
    continues : bool
        Whether it needs the cache of the nodes.
    number : int
        From 1.
    """

    function: bytes
    broadcast: bytes
    continues: bool
    number: int


@dataclass(frozen=True)
class Call:
    """What is sent to the workers: questions, of which the last is to be answered.

    Attributes
    ----------
    questions : tuple of Question
        One, or also those that filled the cache.
    expected : dict of int to int
        For each node the number of the question that last changed it. Nodes without a cache are left out.
    engine : str
        Name of the engine, for messages.
    """

    questions: tuple[Question, ...]
    expected: dict[int, int]
    engine: str


@dataclass(frozen=True)
class PartialSum:
    """The sum of the replies of consecutive nodes.

    Attributes
    ----------
    first, stop : int
        Number of the first node, and of the one after the last.
    reply : bytes
        Pickled.
    largest : int
        Bytes of the largest reply of a single node.
    changed : tuple of int
        Numbers of the nodes that have a new cache.
    """

    first: int
    stop: int
    reply: bytes
    largest: int
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lost:
    """A node does not have the cache that a question needs, or not even its block."""

    first: int


@dataclass(frozen=True)
class Failed:
    """A node function raised."""

    first: int
    error: bytes


Outcome = PartialSum | Lost | Failed


class Caches(Protocol):
    """Where a worker keeps the caches of its nodes."""

    def recall(self, index: int, number: int) -> Node | None:
        """Return the cache of a node after a question; None if it is not there."""

    def keep(self, index: int, number: int, held: Node) -> None:
        """Keep the cache of a node after a question, and the one before it, but no older ones."""


def answer(node: Node, index: int, call: Call, caches: Caches) -> Outcome:
    """On the worker: answer the last question of a call.

    Parameters
    ----------
    node : Node
        With its block, without a cache.
    index : int
        Its number.
    call : Call
        The questions.
    caches : Caches
        Where its cache is kept.
    """
    *before, last = call.questions
    expected = call.expected.get(index, 0)
    if not before and expected:
        held = caches.recall(index, expected)
        if held is not None:
            node = replace(held, block=node.block)
        elif last.continues:
            return Lost(index)
    try:
        with one_blas_thread():
            node = _with_cache(node, before, call.engine)
            found, reply = run(*_unpacked(last, node), call.engine)
    except Exception as error:
        return Failed(index, pickled_error(error))
    changed = found is not node
    if changed or before:
        caches.keep(index, last.number if changed else expected, replace(found, block=None))
    packed = pickle.dumps(reply, 5)
    return PartialSum(index, index + 1, packed, len(packed), (index,) if changed else ())


def _with_cache(node: Node, questions: Sequence[Question], engine: str) -> Node:
    """Return a node after the questions that filled its cache."""
    for question in questions:
        try:
            node, _ = run(*_unpacked(question, node), engine)
        except Exception:
            # It did not fail when it was first asked: now an earlier question is missing, which is too old to be kept.
            # What it left in the cache is as old.
            if question is questions[0]:
                raise
    return node


def added(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return outcomes in the order of the nodes, with the replies of consecutive nodes added."""
    groups: list[list[Any]] = []
    for outcome in sorted(outcomes, key=lambda o: o.first):
        before = groups[-1][-1] if groups else None
        if isinstance(outcome, PartialSum) and isinstance(before, PartialSum) and before.stop == outcome.first:
            groups[-1].append(outcome)
        else:
            groups.append([outcome])
    return [group[0] if len(group) == 1 else _sum(group) for group in groups]


def _sum(sums: Sequence[PartialSum]) -> PartialSum:
    total = reduce(add, (pickle.loads(each.reply) for each in sums))
    changed = tuple(index for each in sums for index in each.changed)
    return PartialSum(sums[0].first, sums[-1].stop, pickle.dumps(total, 5), max(each.largest for each in sums), changed)


class Remote(ABC):
    """An engine whose nodes are in other processes. Subclasses say how a call gets there.

    Attributes
    ----------
    sent : Sent
        Bytes sent so far.
    """

    name: str
    n_nodes: int = 0

    def __init__(self) -> None:
        self.sent = Sent()
        self._asked = 0
        self._expected: dict[int, int] = {}
        self._since: tuple[Question, ...] = ()  # the questions that filled the caches

    @abstractmethod
    def _send(self, call: Call, at: Sequence[int] | None) -> list[Outcome]:
        """Return the outcomes of a call at some nodes (None: at all); replies of consecutive nodes may be added."""

    @abstractmethod
    def close(self) -> None:
        """Remove the caches of the nodes."""

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run node_function(node, *broadcast) -> (node, reply) at every node; return the sum of the replies."""
        self._asked += 1
        question = Question(
            pickle.dumps(node_function, 5), pickle.dumps(broadcast, 5), does_continue(node_function), self._asked
        )
        outcomes = self._send(Call((question,), self._expected, self.name), None)
        lost = [outcome.first for outcome in outcomes if isinstance(outcome, Lost)]
        if lost:
            outcomes = [outcome for outcome in outcomes if outcome.first not in lost]
            outcomes += self._send(Call((*self._since, question), self._expected, self.name), lost)
        sums = _checked(outcomes)
        self._note(question, sums)
        return reduce(add, (pickle.loads(each.reply) for each in sums))

    def _note(self, question: Question, sums: Sequence[PartialSum]) -> None:
        """Note the bytes that were sent, and which nodes have a new cache."""
        largest = max(each.largest for each in sums)
        overhead = len(question.function) + len(pickle.dumps(self._expected, 5))
        self.sent += Sent(1, len(question.broadcast), largest, overhead)
        changed = [index for each in sums for index in each.changed]
        if changed:
            self._expected = self._expected | dict.fromkeys(changed, question.number)
            if not question.continues and len(changed) == self.n_nodes:
                self._since = ()  # no cache depends on an earlier question
            self._since = (*self._since[:1], *self._since[1:][1 - LOOKS_BACK :], question)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def loaded(node: Node) -> Node:
    """On the worker: return a node that stays there; a block in files is read into memory if it is meant to be."""
    load = getattr(node.block, "loaded", None)
    return node if load is None else replace(node, block=load())


def _unpacked(question: Question, node: Node) -> tuple[NodeFunction[Any], Node, tuple[Any, ...]]:
    return pickle.loads(question.function), node, pickle.loads(question.broadcast)


def pickled_error(error: Exception) -> bytes:
    """On the worker: return an error in a form that can be sent, or one with the same message."""
    try:
        packed = pickle.dumps(error, 5)
        pickle.loads(packed)  # some can be written and not read
        return packed
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return pickle.dumps(plain, 5)


def _checked(outcomes: Sequence[Outcome]) -> list[PartialSum]:
    """Return partial sums in the order of the nodes; raise the error of the first node that failed."""
    ordered = sorted(outcomes, key=lambda o: o.first)
    for outcome in ordered:
        if isinstance(outcome, Failed):
            raise pickle.loads(outcome.error)
    sums = [outcome for outcome in ordered if isinstance(outcome, PartialSum)]
    if len(sums) < len(ordered):
        raise EngineError("Nodes were lost again and again.")
    return sums
