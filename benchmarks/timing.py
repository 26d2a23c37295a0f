"""Timing things that take turns, so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turns(actions: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Return for each action the median of its seconds.

    In its turn an action is done twice, and the second time counts: after a product, threads of BLAS look for the next
    one for up to 0.1 s, and would be in the way of what comes then.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(turns):
        for name, action in actions.items():
            action()
            clock = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - clock)
    return {name: statistics.median(found) for name, found in times.items()}
