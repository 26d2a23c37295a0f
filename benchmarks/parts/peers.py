"""Whole fits, each method with its defaults on the same samples."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks import sets
from benchmarks.methods import METHODS, NEED_NONNEGATIVE, Fitted
from benchmarks.peak import measured
from benchmarks.plan import Plan, Record, Task
from dbmd.metrics import clustering_accuracy


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each data set, repetition and method; methods take turns."""
    return [
        {"data": data, "method": method, "seed": seed, **sets.place(plan)}
        for data in plan.data
        for seed in range(plan.repeats)
        for method in plan.methods
        if sets.SETS[data].nonnegative or method not in NEED_NONNEGATIVE
    ]


def run(task: Task) -> Record:
    """Return seconds, passes, memory and accuracy of one fit."""
    samples = sets.of_task(task)
    with METHODS[task["method"]](samples, task["seed"]) as fit, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged is in the record

        def timed() -> tuple[Fitted, float]:
            clock = time.perf_counter()
            found = fit()
            return found, time.perf_counter() - clock

        (found, seconds), memory = measured(timed)
        labels = found.labels()
    n, m = samples.X.shape
    return {
        "n": n,
        "m": m,
        "r": samples.r,
        "type": samples.X.dtype.name,
        "seconds": seconds,
        **memory,
        "accuracy": clustering_accuracy(samples.y, labels),
        "clusters": len(np.unique(labels)),
        **found.about,
    }
