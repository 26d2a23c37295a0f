"""Whole fits, start included, of samples on the device and in host memory; k-means beside them, on GPU and CPU."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.data import mixture
from benchmarks.gpu.device import spread
from benchmarks.plan import Record, Task
from dbmd._utils.arrays import namespace

CORES = 2  # of the CPU that the peers get
SETS = 2  # data that take turns
WARM_UPS = 4  # fits before those that count: with each of the data, both what is compiled and what is kept is there


def dbmd(task: Task) -> Record:
    """Return milliseconds of ``DBMD.fit`` with samples on the device, or in host memory, from one seed to the next."""
    import cupy

    from dbmd import DBMD

    data = [mixture(task["n"], task["m"], task["r"], task["seed"] + number)[0] for number in range(SETS)]
    if task["where"] == "device":
        data = [cupy.asarray(X) for X in data]
    models = []

    def fit(turn: int) -> None:
        model = DBMD(task["r"], engine="gpu", random_state=turn)
        models.append(model.fit(data[turn % SETS]))

    walls = _clock(fit, task["repeats"], cupy.cuda.Device().synchronize, warm_ups=WARM_UPS)
    last = models[-1]
    return {
        **spread(walls[WARM_UPS:]),
        "first_ms": walls[0],
        "warm_ups": WARM_UPS,
        "iterations": [model.n_iter_ for model in models[WARM_UPS:]],
        "seconds_of_iterations": sum(record.seconds for record in last.history_),
        "phases": _phases(task["r"], data[0]),
    }


def _phases(r: int, X: Any) -> dict[str, float]:
    """Return milliseconds of each phase of one more fit."""
    from dbmd import DBMD
    from dbmd.dataset import in_memory
    from dbmd.estimator._fitting import fit_dataset

    phases: dict[str, float] = {}
    name, clock = "reading", time.perf_counter()

    def note(words: str, *_: Any) -> None:
        nonlocal name, clock
        now = time.perf_counter()
        phases[name] = phases.get(name, 0.0) + 1e3 * (now - clock)
        name, clock = words, now

    fit_dataset(DBMD(r, engine="gpu", random_state=0), in_memory(X), None, lambda state: None, on_phase=note)
    note("")
    return phases


def on_two_cores(task: Task) -> Record:
    """Return milliseconds of scikit-learn's KMeans and of ``DBMD.fit`` on two cores of the CPU."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from dbmd import DBMD

    X, _ = mixture(task["n"], task["m"], task["r"], task["seed"])
    centres = first_centres(X, task["r"], task["seed"])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    os.environ["DBMD_NUM_THREADS"] = str(CORES)
    with threadpool_limits(CORES), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged is in the record
        k_means = KMeans(task["r"], init=centres, n_init=1, max_iter=task["most"], tol=1e-4)
        DBMD(task["r"], random_state=0, max_iter=3).fit(X[:2_000])
        k_means.fit(X[:2_000])
        clock = time.perf_counter()
        k_means.fit(X)
        middle = time.perf_counter()
        model = DBMD(task["r"], random_state=0).fit(X)
        end = time.perf_counter()
    return {
        "k_means": {"ms": 1e3 * (middle - clock), "iterations": k_means.n_iter_, "inertia": float(k_means.inertia_)},
        "dbmd": {"ms": 1e3 * (end - middle), "iterations": model.n_iter_},
        "most": task["most"],
        "cores": CORES,
    }


def k_means(task: Task) -> Record:
    """Return milliseconds of k-means on the device, from the centres that scikit-learn's starts from, too."""
    import cupy

    host, _ = mixture(task["n"], task["m"], task["r"], task["seed"])
    centres = first_centres(host, task["r"], task["seed"])
    X = cupy.asarray(host)
    found: list[tuple[int, Any]] = []

    def fit(turn: int) -> None:
        found.append(lloyd(X, cupy.asarray(centres), task["most"]))

    walls = _clock(fit, task["repeats"], cupy.cuda.Device().synchronize)
    iterations, last = found[-1]
    return {**spread(walls[1:]), "iterations": iterations, "inertia": inertia(X, last), "most": task["most"]}


def first_centres(X: NDArray[Any], r: int, seed: int) -> NDArray[Any]:
    """Return r samples far from each other, k-means++ of some of them, shape (r, m)."""
    from sklearn.cluster import kmeans_plusplus

    rows = np.sort(np.random.default_rng(seed).permutation(len(X))[:20_000])
    return kmeans_plusplus(X[rows], r, random_state=seed)[0]


def lloyd(X: Any, centres: Any, most: int, tol: float = 1e-4) -> tuple[int, Any]:
    """Return iterations and centres of k-means with two products an iteration, for arrays of either kind.

    Parameters
    ----------
    X : array of shape (n, m)
        The samples.
    centres : array of shape (r, m)
        Where to start.
    most : int
        Iterations at most.
    tol : float
        As in scikit-learn: the squared move of all centres, relative to the mean variance of a feature, to stop at.
    """
    clusters = namespace(X).arange(len(centres))
    stop = tol * float(X.var(axis=0).mean())
    change, iteration = float("inf"), 0
    while change > stop and iteration < most:
        iteration += 1
        members = (_nearest(X, centres)[:, None] == clusters).astype(X.dtype)
        moved = (members.T @ X) / members.sum(axis=0)[:, None].clip(1.0, None)
        change = float(((moved - centres) ** 2).sum())
        centres = moved
    return iteration, centres


def _nearest(X: Any, centres: Any) -> Any:
    scores = X @ (-2.0 * centres.T)
    scores += (centres * centres).sum(axis=1)
    return scores.argmin(axis=1)


def inertia(X: Any, centres: Any) -> float:
    """Return the sum of squared distances to the nearest centre, of arrays of either kind."""
    total = 0.0
    for start in range(0, len(X), 50_000):
        rows = X[start : start + 50_000]
        total += float(((rows - centres[_nearest(rows, centres)]) ** 2).sum(dtype=np.float64))
    return total


def _clock(
    action: Callable[[int], object], repeats: int, wait: Callable[[], object], *, warm_ups: int = 1
) -> list[float]:
    """Return milliseconds of an action by the clock on the wall, of some turns to warm up and those asked for."""
    walls = []
    for turn in range(warm_ups + repeats):
        wait()
        clock = time.perf_counter()
        action(turn)
        wait()
        walls.append(1e3 * (time.perf_counter() - clock))
    return walls
