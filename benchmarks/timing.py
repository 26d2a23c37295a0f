"""Timing things that take turns, so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turns(actions: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return for each action the median of its seconds, after one turn to warm up."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(turns + 1):
        for name, action in actions.items():
            clock = time.perf_counter()
            action()
            if turn:
                times[name].append(time.perf_counter() - clock)
    return {name: statistics.median(found) for name, found in times.items()}
