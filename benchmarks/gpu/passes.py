"""One pass as a fit makes it, from the question to the statistics on the host; and the pieces that it is made of."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.data import mixture, sparse_cells
from benchmarks.gpu.device import poisoned, timed
from benchmarks.parts.one_pass import h_step_of_a_fit
from benchmarks.plan import Record, Task

WRONG = 1e-3  # of statistics, relative to what the CPU finds
WARM_UP = 1.0  # seconds of passes before those that count: half of a short pass is the host's


def dense(task: Task) -> Record:
    """Return milliseconds of a pass over dense samples, warm and cold."""
    X, W = mixture(task["n"], task["m"], task["r"], task["seed"], task["type"])
    return _pass(X, W, task)


def csr(task: Task) -> Record:
    """Return the same over a CSR matrix; W are means of cells that have the same program."""
    X = sparse_cells(task["n"], task["m"], task["r"], task["seed"])
    rng = np.random.default_rng(task["seed"])
    some = X[np.sort(rng.permutation(X.shape[0])[:50_000])]
    nearest = rng.integers(task["r"], size=some.shape[0])
    for _ in range(5):  # a few rounds of k-means from random clusters
        W = np.stack([np.asarray(some[nearest == k].mean(axis=0)).ravel() for k in range(task["r"])], axis=1)
        nearest = np.argmin(np.square(W).sum(axis=0) - 2.0 * (some @ W), axis=1)
        nearest[: task["r"]] = np.arange(task["r"])  # so that no cluster is empty
    return {"filled": X.nnz / np.prod(X.shape), **_pass(X, W.astype(np.float64), task)}


def _pass(X: Any, W: Any, task: Task) -> Record:
    from dbmd._utils.threads import one_blas_thread
    from dbmd.data import partition
    from dbmd.engines.gpu import Engine
    from dbmd.engines.local import Engine as Local

    rng = np.random.default_rng(task["seed"])
    moved = [W * (1.0 + 1e-3 * rng.normal(size=W.shape)) for _ in range(20)]
    with Engine(partition(X, 0, 1)) as engine, one_blas_thread():  # as a fit asks
        step = h_step_of_a_fit(W, engine, X.dtype)

        def ask(turn: int, *, warm: bool) -> Any:
            return engine.ask(partial(step, warm=warm), moved[turn % len(moved)])

        found: Record = {
            start: timed(partial(ask, warm=start == "warm"), repeats=task["repeats"], seconds=WARM_UP)
            for start in ("cold", "warm")
        }
        cold = partial(step, warm=False)
        on_device = engine.ask(cold, W)
        with poisoned():
            again = engine.ask(cold, W)
    with Local(partition(X, 0, task["threads"]), task["threads"]) as engine:
        found["off"] = difference(on_device, engine.ask(partial(step, warm=False), W))
    if difference(on_device, again) > 0.0:
        raise RuntimeError("In memory that holds no old results, a pass gives other statistics.")
    if not found["off"] < WRONG:
        raise RuntimeError(f"Statistics are not those of the CPU: they are off by {found['off']:.1g}.")
    return found


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between the statistics of two passes, relative to the size of each.

    Not a number counts as a difference.
    """
    worst = 0.0
    for code in one:
        for name in ("XHt", "HHt", "sq_norm", "h_cost"):
            a, b = np.asarray(getattr(one[code], name)), np.asarray(getattr(other[code], name))
            off = float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-300))
            worst = max(worst, off) if np.isfinite(off) else float("inf")
    return worst


def pieces(task: Task) -> Record:
    """Return milliseconds of what a pass calls, each alone: the rest of a pass is launches, copies and the host."""
    from dbmd.model.evidence import Evidence
    from dbmd.registry import load

    kernel = load("kernels", "gpu")
    X, W = mixture(task["n"], task["m"], task["r"], task["seed"], task["type"])
    c = W.mean(axis=1)
    centred = W - c[:, None]
    Q, a = centred.T @ centred, np.zeros(task["r"])
    Xt, on_device = kernel.asarray(X), kernel.asarray(np.ascontiguousarray(centred, X.dtype))
    offset = kernel.asarray((c @ centred).astype(X.dtype))
    Bt = kernel.products(Xt, on_device, offset)
    Ht = kernel.solve_h(Q, Bt, a)
    every = Evidence.of([1.0], task["n"], task["r"]).one_in  # covariances of a part of the samples, as in a fit

    def sums(turn: int) -> Any:
        found = kernel.Sums(task["m"], task["r"], X.dtype)
        found.add(Xt, Ht)
        return found.total()

    def covariance(turn: int) -> Any:
        found = kernel.FaceCovariance(Q, 0.09)
        found.add(Ht[: len(Ht) // every])
        return found.total()

    actions = {
        "products": lambda turn: kernel.products(Xt, on_device, offset),
        "h_step": lambda turn: kernel.solve_h(Q, Bt, a, Ht),
        "sums": sums,
        "covariance": covariance,
    }
    return {name: timed(action, repeats=task["repeats"], ahead=True) for name, action in actions.items()}
