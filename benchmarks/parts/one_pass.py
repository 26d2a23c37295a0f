"""A whole pass, memberships and statistics, beside the two bare products that are in it: X @ W and H.T @ X."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks import sets
from benchmarks.plan import Plan, Record, Task
from benchmarks.timing import in_turns

TYPES = {"covtype": ("float32", "float64"), "kdd99": ("float64",), "mnist": ("float32",), "cells": ("float32",)}


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each data set, type and repetition."""
    return [
        {"data": data, "type": dtype, "seed": seed, "threads": plan.threads, **sets.place(plan)}
        for data in plan.data
        for dtype in TYPES[data]
        for seed in range(plan.repeats)
    ]


def h_step_of_a_fit(W: NDArray[np.float64], engine: Any, dtype: np.dtype[Any], inference: str = "evidence") -> Any:
    """Return what a fit from W asks its nodes in every pass."""
    from dbmd.config import Config
    from dbmd.model.draw import moments
    from dbmd.model.evidence import Evidence
    from dbmd.model.noise import Noise
    from dbmd.start import Setting, begin
    from dbmd.sweep import sweep

    r = W.shape[1]
    state = begin(Setting(engine, Config(r, inference=inference), 1, dtype), W)
    evidence = None
    if inference == "evidence":
        evidence = Evidence.of(np.ones(1), sum(each.n for each in engine.ask(moments).values()), r)
    near_zero = Noise("source", 1, state.floor).is_near_zero(state.origin, dtype)
    fixed = {"sigma2": state.sigma2, "prior": np.zeros(r), "evidence": evidence}
    return partial(sweep, **fixed, origin=state.origin, near_zero=near_zero)


def run(task: Task) -> Record:
    """Return seconds of a pass that starts from the last memberships, of one that does not, and of the products.

    From pass to pass W moves by a thousandth, as in a fit that is well on its way. NumPy's products are timed on one
    thread and on as many as the pass has, and the faster counts; those of SciPy, for sparse samples, always take one.
    """
    from sklearn.cluster import KMeans

    from dbmd.data import partition
    from dbmd.engines.local import Engine

    samples = sets.of_task(task)
    X, r = samples.X.astype(task["type"], copy=False), samples.r
    n, m = X.shape
    rng = np.random.default_rng(task["seed"])
    rows = np.sort(rng.permutation(n)[:20_000])
    W = KMeans(r, n_init=1, max_iter=20, random_state=task["seed"]).fit(X[rows]).cluster_centers_.T.astype(np.float64)
    Wt, Ht = W.astype(X.dtype), rng.dirichlet(np.full(r, 0.3), n).astype(X.dtype)
    with Engine(partition(X, 0, task["threads"]), task["threads"]) as engine:
        evidence, peak = (h_step_of_a_fit(W, engine, X.dtype, inference) for inference in ("evidence", "map"))

        def a_pass(step: Any = evidence, *, warm: bool) -> Callable[[], object]:
            return lambda: engine.ask(partial(step, warm=warm), W * (1.0 + 1e-3 * rng.normal(size=W.shape)))

        def bare(threads: int) -> None:
            with threadpool_limits(threads):
                _ = (X @ Wt, X.T @ Ht) if sparse.issparse(X) else (X @ Wt, Ht.T @ X)

        # On a busy machine threads of BLAS wait for each other, up to a hundred times as long as one takes alone. The
        # pass is compared with what is faster: anything else would flatter it.
        # All threads come last: for a while they are in the way of what is next, and one thread leaves them room.
        actions = {"one_thread": partial(bare, 1), "warm": a_pass(warm=True)}
        actions |= {"warm_map": a_pass(peak, warm=True), "cold": a_pass(warm=False)}
        actions["all_threads"] = partial(bare, task["threads"])
        seconds = in_turns(actions, turns=5)
    seconds["bare"] = min(seconds["one_thread"], seconds["all_threads"])
    return {"n": n, "m": m, "r": r, **seconds}
