"""The H-step alone, on one thread: how its time grows with r."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.plan import Plan, Record, Task
from benchmarks.timing import in_turns

SIZES = {7: 40_000, 10: 40_000, 20: 20_000, 50: 4_000, 100: 1_000}  # samples by r


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each repetition, in which all r take turns."""
    sizes = [[10, 400], [50, 100]] if plan.quick else [[r, n] for r, n in SIZES.items()]
    return [{"seed": seed, "sizes": sizes} for seed in range(plan.repeats)]


def run(task: Task) -> Record:
    """Return microseconds a sample by r, type and alpha, from nothing (cold) and from the solution (warm)."""
    from dbmd.kernels import cpu

    rng = np.random.default_rng(task["seed"])
    actions, n_of = {}, {}
    for r, n in task["sizes"]:
        W = rng.normal(size=(200, r))
        H = rng.dirichlet(np.full(r, 0.3), n)
        X = H @ W.T + 0.3 * rng.normal(size=(n, 200))
        centred = W - W.mean(axis=1, keepdims=True)
        Q, B = centred.T @ centred, (X - W.mean(axis=1)) @ centred
        for dtype in ("float32", "float64"):
            Bt = B.astype(dtype)
            for alpha in (1.0, 2.0):
                a = np.full(r, 0.09 * (alpha - 1.0))
                name = f"{r} {dtype} {alpha:g}"
                actions[f"{name} cold"] = partial(cpu.solve_h, Q, Bt, a)
                actions[f"{name} warm"] = partial(cpu.solve_h, Q, Bt, a, cpu.solve_h(Q, Bt, a))
                n_of[f"{name} cold"] = n_of[f"{name} warm"] = n
    seconds = in_turns(actions, turns=7)
    rows = []
    for name, taken in seconds.items():
        r, dtype, alpha, start = name.split()
        each = 1e6 * taken / n_of[name]
        rows.append({"r": int(r), "type": dtype, "alpha": float(alpha), "start": start, "microseconds": each})
    return {"rows": rows}
