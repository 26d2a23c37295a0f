"""How near to its limit the default ``tol`` stops, and after how many passes.

The limit is where a fit ends that goes on from there with ``tol=1e-9``. Distances are relative to the size of the
simplex: the norm of the components about their mean.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks import sets
from benchmarks.counted import counted
from benchmarks.plan import Plan, Record, Task

LONG = 100  # iterations at most, beyond the default fit


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each data set and seed."""
    long = 20 if plan.quick else LONG
    return [
        {"data": data, "seed": seed, "long": long, **sets.place(plan)}
        for data in plan.data
        for seed in range(plan.repeats)
    ]


def run(task: Task) -> Record:
    """Return passes, seconds and accuracy where the default stops, and how far that is from the limit."""
    from dbmd import DBMD

    samples = sets.of_task(task)
    X, y = samples.X, samples.y
    model = DBMD(n_components=samples.r, random_state=task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DBMD(samples.r, max_iter=3, random_state=0).fit(X[:2_000])  # compiles
        with counted(X.shape[0]) as count:
            clock = time.perf_counter()
            model.fit(X)
            seconds = time.perf_counter() - clock
            at_stop = count.record()
        stop = {"seconds": seconds, "iterations": model.n_iter_, "objective": model.objective_}
        stop |= {"tol": model.tol, "stopped_by_itself": model.fit_info_["converged"], "accuracy": _accuracy(model, y)}
        W, fixed = model.components_.astype(np.float64), model.effective_features_
        # The same excess of noise: else it would be another problem.
        model.set_params(warm_start=True, tol=1e-9, max_iter=task["long"], effective_features=fixed).fit(X)
    limit = model.components_.astype(np.float64)
    size = float(np.linalg.norm(limit - limit.mean(axis=0)))
    return {
        **stop,
        **at_stop,
        "distance": float(np.linalg.norm(W - limit)) / size,
        "effective_features": fixed,
        "limit_accuracy": _accuracy(model, y),
        "limit_objective": model.objective_,
        "limit_iterations": model.n_iter_,
        "limit_reached": model.fit_info_["converged"],
    }


def _accuracy(model: Any, y: Any) -> float:
    from dbmd.metrics import clustering_accuracy

    return float(clustering_accuracy(y, model.labels_))
