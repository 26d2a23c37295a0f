"""Time per sample and pass as the samples become more: it should be constant."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.parts.one_pass import h_step_of_a_fit
from benchmarks.plan import Plan, Record, Task
from benchmarks.timing import in_turns

M, R = 41, 11  # the shape of KDD-99
SIZES = (100_000, 300_000, 1_000_000, 5_000_000)
QUICK = (1_000, 3_000, 10_000)


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each repetition, in which all sizes take turns."""
    sizes = list(QUICK if plan.quick else SIZES)
    return [{"seed": seed, "sizes": sizes, "threads": plan.threads} for seed in range(plan.repeats)]


def run(task: Task) -> Record:
    """Return microseconds a sample and pass by number of samples, float32."""
    from dbmd.data import partition
    from dbmd.engines.local import Engine

    rng = np.random.default_rng(task["seed"])
    W = rng.normal(size=(M, R))
    X = np.empty((max(task["sizes"]), M), np.float32)
    for start in range(0, len(X), 100_000):
        rows = X[start : start + 100_000]
        rows[:] = rng.dirichlet(np.full(R, 0.3), len(rows)) @ W.T
        rows += 0.3 * rng.standard_normal(rows.shape, dtype=np.float32)
    engines = {n: Engine(partition(X[:n], 0, task["threads"]), task["threads"]) for n in task["sizes"]}
    step = h_step_of_a_fit(W, engines[min(engines)], X.dtype)

    # Of few samples several passes, so that all sizes are timed over a like while.
    times = {n: max(1, min(10, 1_000_000 // n)) for n in task["sizes"]}

    def passes(n: int) -> None:
        for _ in range(times[n]):
            engines[n].ask(step, W * (1.0 + 1e-3 * rng.normal(size=W.shape)))

    seconds = in_turns({str(n): partial(passes, n) for n in task["sizes"]}, turns=5)
    for engine in engines.values():
        engine.close()
    each = {n: 1e6 * taken / (int(n) * times[int(n)]) for n, taken in seconds.items()}
    return {"m": M, "r": R, "type": X.dtype.name, "microseconds": each}
