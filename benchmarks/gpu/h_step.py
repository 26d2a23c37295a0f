"""The H-step alone, for data of the kind that the CPU's is measured with."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.data import mixed
from benchmarks.gpu.device import timed
from benchmarks.plan import Record, Task
from dbmd._utils.arrays import to_host

ENOUGH = 200_000_000  # bytes of inputs that take turns: more than a cache holds
FEATURES = 200


def run(task: Task) -> Record:
    """Return milliseconds of ``solve_h``, from nothing (cold) and from the solution of a W a little off (warm)."""
    from dbmd.registry import load

    kernel = load("kernels", "gpu")
    n, r = task["n"], task["r"]
    rng = np.random.default_rng(task["seed"])
    W = rng.normal(size=(FEATURES, r))
    c = W.mean(axis=1)
    centred = W - c[:, None]
    moved = centred * (1.0 + 1e-3 * rng.normal(size=centred.shape))
    Q, a = centred.T @ centred, np.zeros(r)
    sets = min(8, 2 + ENOUGH // (8 * n * r))
    inputs, starts = [], []
    for number in range(sets):
        X = mixed(W, n, 0.3, task["seed"] + number) - c.astype(np.float32)
        inputs.append(kernel.asarray(X @ centred.astype(np.float32)))
        starts.append(kernel.solve_h(moved.T @ moved, kernel.asarray(X @ moved.astype(np.float32)), a))
    out = kernel.empty((n, r), np.float32)

    def poison(turn: int) -> None:
        out.fill(np.nan)

    def solve(turn: int, *, warm: bool) -> Any:
        place = turn % sets
        return kernel.solve_h(Q, inputs[place], a, starts[place] if warm else None, out)

    inside = (to_host(starts[0]) > 1e-6).sum(axis=1)
    found: Record = {"inside": float(inside.mean()), "sets": sets}
    for start in ("cold", "warm"):
        action = partial(solve, warm=start == "warm")
        found[start] = timed(action, repeats=task["repeats"], before=poison, ahead=True)
        found[start]["wall_ms"] = timed(action, repeats=task["repeats"], before=poison)["wall_ms"]
        if not np.allclose(to_host(out).sum(axis=1), 1.0, atol=1e-4):
            raise RuntimeError("Memberships were not written: they do not sum to one.")
    return found
