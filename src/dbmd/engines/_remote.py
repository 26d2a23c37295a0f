"""What engines over other processes share: how they ask, how nodes answer, and how a fit goes on after a loss.

Every question has a number. A node that was changed by an answer keeps what it holds besides its block under that
number, wherever the engine has a place for it. The next question says which number it expects to find. If that is not
there (the worker is gone, or another one has the node now), a question that needs nothing but the block is answered
all the same; one that :func:`~dbmd.model.node.continues` is answered ``Lost``, and asked again with all the questions
that led there. So nothing is saved while all is well, and what is lost is worked out again from data and W.
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
from dbmd.model.node import does_continue
from dbmd.protocols import NodeFunction, Reply

# Of the questions that led to what the nodes hold, the first is kept and so many of the last. No solver looks back
# further, but ADMM, whose duals recover from any start.
LOOKS_BACK = 16


class Sent(NamedTuple):
    """What was really sent between the centre and a node, in bytes. It adds.

    Attributes
    ----------
    asks : int
        Questions.
    down : int
        Bytes of what was broadcast to each node.
    up : int
        Bytes of the replies of the node that sent most.
    functions : int
        Bytes of what was sent along: the function with its parameters, and what the nodes are expected to hold.
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
    """What is asked of all nodes.

    Attributes
    ----------
    function, broadcast : bytes
        Pickled.
    continues : bool
        Whether it goes on from what is at the nodes.
    number : int
        From 1.
    """

    function: bytes
    broadcast: bytes
    continues: bool
    number: int


@dataclass(frozen=True)
class Call:
    """What goes to the workers: questions, the last of which is to be answered.

    Attributes
    ----------
    questions : tuple of Question
        One, or all that led there.
    expected : dict of int to int
        For each node the number of the question that last changed it; nodes that were never changed are not in it.
    engine : str
        Name of the engine, for messages.
    """

    questions: tuple[Question, ...]
    expected: dict[int, int]
    engine: str


@dataclass(frozen=True)
class Run:
    """The sum of the replies of consecutive nodes.

    Attributes
    ----------
    first, stop : int
        Number of the first of them, and of the one after the last.
    reply : bytes
        Pickled.
    largest : int
        Bytes of the largest reply of a single node.
    changed : tuple of int
        Numbers of those that hold something new.
    """

    first: int
    stop: int
    reply: bytes
    largest: int
    changed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lost:
    """A node has not what a question goes on from, or not even its block."""

    first: int


@dataclass(frozen=True)
class Failed:
    """A node function raised."""

    first: int
    error: bytes


Outcome = Run | Lost | Failed


class Memory(Protocol):
    """Where the nodes of a worker keep what they hold besides their blocks."""

    def recall(self, index: int, number: int) -> Any:
        """Return what a node held after a question, None if it is not there."""

    def keep(self, index: int, number: int, held: Any) -> None:
        """Keep what a node holds after a question, and no longer what it held two changes before."""


def answer(node: Any, index: int, call: Call, memory: Memory) -> Outcome:
    """At the worker: answer the last question of a call.

    Parameters
    ----------
    node : Node
        With its block and nothing else.
    index : int
        Its number.
    call : Call
        The questions.
    memory : Memory
        Where it is kept what the node holds.
    """
    *before, last = call.questions
    expected = call.expected.get(index, 0)
    if not before and expected:
        held = memory.recall(index, expected)
        if held is not None:
            node = replace(held, block=node.block)
        elif last.continues:
            return Lost(index)
    try:
        with one_blas_thread():
            node = _led_there(node, before, call.engine)
            found, reply = run(*_unpacked(last, node), call.engine)
    except Exception as error:
        return Failed(index, pickled_error(error))
    changed = found is not node
    if changed or before:
        memory.keep(index, last.number if changed else expected, replace(found, block=None))
    packed = pickle.dumps(reply, 5)
    return Run(index, index + 1, packed, len(packed), (index,) if changed else ())


def _led_there(node: Any, questions: Sequence[Question], engine: str) -> Any:
    """Return a node after the questions that led to what it held."""
    for question in questions:
        try:
            node, _ = run(*_unpacked(question, node), engine)
        except Exception:
            # It did not fail when it was asked. What it went on from is too far back to be kept; so is what it left.
            if question is questions[0]:
                raise
    return node


def added(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return outcomes in the order of the nodes, with the replies of neighbours added."""
    groups: list[list[Any]] = []
    for outcome in sorted(outcomes, key=lambda o: o.first):
        before = groups[-1][-1] if groups else None
        if isinstance(outcome, Run) and isinstance(before, Run) and before.stop == outcome.first:
            groups[-1].append(outcome)
        else:
            groups.append([outcome])
    return [group[0] if len(group) == 1 else _sum(group) for group in groups]


def _sum(runs: Sequence[Run]) -> Run:
    total = reduce(add, (pickle.loads(run.reply) for run in runs))
    changed = tuple(index for run in runs for index in run.changed)
    return Run(runs[0].first, runs[-1].stop, pickle.dumps(total, 5), max(run.largest for run in runs), changed)


class Remote(ABC):
    """An engine whose nodes live in other processes. Subclasses say how a call gets to them.

    Attributes
    ----------
    sent : Sent
        What was sent so far.
    """

    name: str
    n_nodes: int = 0

    def __init__(self) -> None:
        self.sent = Sent()
        self._asked = 0
        self._expected: dict[int, int] = {}
        self._since: tuple[Question, ...] = ()  # the questions that led to what the nodes hold

    @abstractmethod
    def _send(self, call: Call, at: Sequence[int] | None) -> list[Outcome]:
        """Return the outcomes of a call at some nodes (None: at all), with the replies of neighbours added or not."""

    @abstractmethod
    def close(self) -> None:
        """Remove what the nodes hold."""

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
        runs = _sound(outcomes)
        self._note(question, runs)
        return reduce(add, (pickle.loads(run.reply) for run in runs))

    def _note(self, question: Question, runs: Sequence[Run]) -> None:
        """Note what was sent, and what the nodes hold from now on."""
        largest = max(run.largest for run in runs)
        overhead = len(question.function) + len(pickle.dumps(self._expected, 5))
        self.sent += Sent(1, len(question.broadcast), largest, overhead)
        changed = [index for run in runs for index in run.changed]
        if changed:
            self._expected = self._expected | dict.fromkeys(changed, question.number)
            if not question.continues and len(changed) == self.n_nodes:
                self._since = ()  # no node goes on from what was before
            self._since = (*self._since[:1], *self._since[1:][1 - LOOKS_BACK :], question)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def settled(node: Any) -> Any:
    """At the worker: return a node that has come to stay; a block in files that may be kept decoded is read now."""
    settle = getattr(node.block, "loaded", None)
    return node if settle is None else replace(node, block=settle())


def _unpacked(question: Question, node: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    return pickle.loads(question.function), node, pickle.loads(question.broadcast)


def pickled_error(error: Exception) -> bytes:
    """At the worker: return an error in a form that can be sent; if it has none, one that says the same."""
    try:
        packed = pickle.dumps(error, 5)
        pickle.loads(packed)  # some can be written and not read
        return packed
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return pickle.dumps(plain, 5)


def _sound(outcomes: Sequence[Outcome]) -> list[Run]:
    """Return runs in the order of the nodes; raise what the first node that failed raised."""
    ordered = sorted(outcomes, key=lambda o: o.first)
    for outcome in ordered:
        if isinstance(outcome, Failed):
            raise pickle.loads(outcome.error)
    runs = [outcome for outcome in ordered if isinstance(outcome, Run)]
    if len(runs) < len(ordered):
        raise EngineError("Nodes were lost again and again.")
    return runs
