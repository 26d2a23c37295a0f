"""What a fit holds beyond the samples and their memberships."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.peak import MB, measured
from benchmarks.plan import Plan, Record, Task

M, R = 784, 10


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each repetition."""
    return [{"n": 4_000 if plan.quick else 400_000, "seed": seed} for seed in range(plan.repeats)]


def run(task: Task) -> Record:
    """Return the peak of a fit of float32 samples beyond X and H, in MB."""
    from dbmd import DBMD

    n, rng = task["n"], np.random.default_rng(task["seed"])
    X = np.empty((n, M), np.float32)
    for start in range(0, n, 10_000):
        rows = X[start : start + 10_000]
        rows[:] = rng.random(rows.shape, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DBMD(3, max_iter=2).fit(X[:2_000, :20])
        _, found = measured(lambda: DBMD(R, max_iter=3, random_state=task["seed"]).fit(X))
    beyond = None if found["peak_mb"] is None else found["peak_mb"] - n * R * X.itemsize / MB
    return {"m": M, "r": R, "beyond_mb": beyond}
