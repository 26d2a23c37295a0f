"""Passes over samples that stay in host memory, beside the bus that they have to cross."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.ceilings import bus
from benchmarks.gpu.data import repeated
from benchmarks.gpu.device import little_memory, spread
from benchmarks.parts.one_pass import h_step_of_a_fit
from benchmarks.plan import Record, Task

PART = 0.85  # of the free host memory that may be taken


def run(task: Task) -> Record:
    """Return seconds of a pass, and the part of the bus that it uses.

    Most of the device's memory is taken beforehand, so that the data cannot move there. What comes before the first
    pass (registering memory, the moments of the start) and the first pass itself are told apart from those that follow.
    """
    import cupy

    from dbmd.data import partition
    from dbmd.engines.gpu import Engine

    m, r = task["m"], task["r"]
    n = int(min(task["bytes"], PART * free_host_memory())) // (4 * m)
    clock = time.perf_counter()
    X, W = repeated(n, m, r, task["seed"])
    made = time.perf_counter() - clock
    across = bus(task["bus_bytes"])["to_device_gbs"]
    rng = np.random.default_rng(task["seed"])
    pool = cupy.get_default_memory_pool()
    with little_memory(task["room"]):
        taken, clock = int(pool.used_bytes()), time.perf_counter()
        with Engine(partition(X, 0, 1)) as engine:
            step = h_step_of_a_fit(W, engine, X.dtype)
            begun = time.perf_counter() - clock

            def ask() -> float:
                V = W * (1.0 + 1e-3 * rng.normal(size=W.shape))
                clock = time.perf_counter()
                engine.ask(partial(step, warm=True), V)
                cupy.cuda.Device().synchronize()
                return 1e3 * (time.perf_counter() - clock)

            first = ask()
            walls = [ask() for _ in range(task["repeats"])]
            held = int(pool.total_bytes()) - taken
    if held >= X.nbytes:
        raise RuntimeError(f"The data were not streamed: the device holds {held:,} bytes.")
    found: dict[str, Any] = spread(walls)
    rate = X.nbytes / found["ms"] / 1e6
    return {
        "n": n,
        "bytes": X.nbytes,
        "bus_gbs": across,
        "gbs": rate,
        "of_the_bus": rate / across,
        **found,
        "first_ms": first,
        "beginning_seconds": begun,
        "making_seconds": made,
        "held_bytes": held,
    }


def free_host_memory() -> int:
    """Return bytes of host memory that can be had: what Linux tells, else half of all."""
    try:
        with open("/proc/meminfo") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
