"""Fits of a fixed number of iterations, by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from dbmd.algorithm import descend
from dbmd.config import Config
from dbmd.engines import Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.experiments.scalability.simulation import Work
from dbmd.model.node import Node
from dbmd.model.result import Iteration, State
from dbmd.model.start import random_samples
from dbmd.protocols import Engine, NodeFunction, Reply
from dbmd.start import Setting, begin


class Alone(LocalEngine):
    """An engine whose nodes work one after the other, in this thread, and which measures how long each takes.

    The clock is that of the thread (CPU time): what the work takes on a core that nobody else has.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes, n_threads=1)
        self.seconds: list[tuple[float, ...]] = []  # of each node, for each question

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node, note how long each takes, and add the replies."""
        clocked = super().ask(_Clocking(node_function), *broadcast)
        self.seconds.append(clocked.seconds)
        return clocked.reply


@dataclass(frozen=True)
class _Clocked(Generic[Reply]):
    """A reply and how long it took; of added replies, how long each took."""

    reply: Reply
    seconds: tuple[float, ...]

    def __add__(self, other: _Clocked[Reply]) -> _Clocked[Reply]:
        reply: Reply = self.reply + other.reply  # type: ignore[operator]
        return _Clocked(reply, self.seconds + other.seconds)


@dataclass(frozen=True)
class _Clocking(Generic[Reply]):
    """A node function by the clock."""

    func: NodeFunction[Reply]

    def __call__(self, node: Node, *broadcast: Any) -> tuple[Node, _Clocked[Reply]]:
        clock = time.thread_time()
        node, reply = self.func(node, *broadcast)
        return node, _Clocked(reply, (time.thread_time() - clock,))


def iterate(
    engine: Engine,
    config: Config,
    dtype: np.dtype[Any],
    seed: int,
    on_iteration: Callable[[State], object] = lambda state: None,
) -> tuple[Iteration, ...]:
    """Fit from random samples on nodes of one source, and return the records of the iterations.

    ``on_iteration`` is called with the state before the first iteration and after each one.
    """
    setting = Setting(engine, config, 1, dtype)
    state = begin(setting, random_samples(engine.ask, config.r, seed))
    on_iteration(state)
    return descend(state, setting, on_iteration).history


def warm_up(engine: Engine, config: Config, dtype: np.dtype[Any], seed: int) -> None:
    """Run one iteration from another start: workers and compiled code are there then, and nothing that is of use."""
    iterate(engine, replace(config, max_iter=1), dtype, seed + 1)


def measure(engine: Engine, config: Config, dtype: np.dtype[Any], seed: int) -> tuple[float, list[float]]:
    """Return the seconds from the start to the end of the last iteration, and those of each iteration."""
    warm_up(engine, config, dtype, seed)
    clock = time.perf_counter()
    history = iterate(engine, config, dtype, seed)
    return time.perf_counter() - clock, [record.seconds for record in history]


def works(nodes: Sequence[Node], config: Config, dtype: np.dtype[Any], seed: int) -> list[Work]:
    """Return what each iteration takes at nodes that work one after the other, each alone on one core."""
    engine = Alone(nodes)
    warm_up(engine, config, dtype, seed)
    marks: list[tuple[int, float]] = []
    history = iterate(
        engine, config, dtype, seed, lambda state: marks.append((len(engine.seconds), time.thread_time()))
    )
    found = []
    for record, (first, began), (last, ended) in zip(history, marks[:-1], marks[1:], strict=True):
        seconds = np.array(engine.seconds[first:last])
        traffic = Traffic(last - first, record.total_floats_down, record.total_floats_up)
        found.append(Work(seconds, ended - began - float(seconds.sum()), traffic))
    return found
