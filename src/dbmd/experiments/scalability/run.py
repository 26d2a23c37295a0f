"""Measure: fits on the cores that there are, the same with nodes that work alone, and passes over data of all sizes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import Config
from dbmd.data import partition
from dbmd.data.datasets import load
from dbmd.dataset import in_memory
from dbmd.engines import Link
from dbmd.engines.local import Engine, available_threads
from dbmd.errors import EngineError
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.scalability.simulation import Work
from dbmd.experiments.scalability.timing import measure, works

QUESTIONS = 15  # that do nothing, to see what a question costs on Spark


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each engine, rule of stopping and solver, and one for each size of the data.

    Spark runs by the first rule only: it is slow, and the second has nothing new for it.
    """
    first = next(iter(setting["rules"]))
    speed_ups = [
        {"part": "speed-up", "engine": engine, "rule": rule, "solver": solver}
        for engine in setting["engines"]
        for rule, methods in setting["rules"].items()
        for solver in methods
        if engine == "local" or rule == first
    ]
    costs = [
        {"part": "cost", "against": name, "value": value}
        for name, values in setting["cost"]["against"].items()
        for value in values
    ]
    return speed_ups + costs


def run(task: Task, setting: Setting) -> list[Record]:
    """Return the records of one task."""
    if task["part"] == "cost":
        return cost(task, setting)
    return on_spark(task, setting) if task["engine"] == "spark" else on_this_machine(task, setting)


def on_this_machine(task: Task, setting: Setting) -> list[Record]:
    """Return the time of an iteration for each number of nodes: simulated, and measured where there is a core for each.

    They take turns, so that what else goes on at the machine hits all alike. Of each time, the least of the repeats.
    """
    X, config, seed = samples(setting), configuration(task, setting), setting["seed"]
    alone: dict[int, list[list[Work]]] = {p: [] for p in setting["nodes"]}
    measured: dict[int, list[tuple[float, list[float]]]] = {p: [] for p in measurable(setting)}
    for _ in range(setting["repeats"]):
        for p in setting["nodes"]:
            alone[p].append(works(partition(X, 0, p), config, X.dtype, seed))
            if p in measured:
                with Engine(partition(X, 0, p), p) as engine:
                    measured[p].append(measure(engine, config, X.dtype, seed))
    about = {"rows": len(X), "data": setting["data"], **setting["link"]}
    return [
        *(simulated(p, repeats, Link(**setting["link"])) | about for p, repeats in alone.items()),
        *(measured_at(p, repeats) for p, repeats in measured.items()),
    ]


def simulated(p: int, repeats: Sequence[Sequence[Work]], link: Link) -> Record:
    """Return the record of p nodes that worked alone, as if each had a machine of its own; means of an iteration."""
    best = [Work.least(same) for same in zip(*repeats, strict=True)]
    parts: dict[str, list[float]] = {
        "seconds": [work.seconds(link) for work in best],
        "slowest_seconds": [work.slowest for work in best],
        "centre_seconds": [work.driver for work in best],
        "message_seconds": [work.messages(link) for work in best],
        "asks": [work.traffic.asks for work in best],
        "floats_down": [work.traffic.floats_down for work in best],
        "floats_up": [work.traffic.floats_up for work in best],
    }
    return {"how": "simulated", "nodes": p} | {name: statistics.fmean(values) for name, values in parts.items()}


def measured_at(p: int, repeats: Sequence[tuple[float, Sequence[float]]], **more: Any) -> Record:
    """Return the record of p nodes that worked at the same time; the mean of an iteration, and all of the fit."""
    best = [min(same) for same in zip(*(iterations for _, iterations in repeats), strict=True)]
    fit = min(seconds for seconds, _ in repeats)
    return {"how": "measured", "nodes": p, "seconds": statistics.fmean(best), "fit_seconds": fit, **more}


def on_spark(task: Task, setting: Setting) -> list[Record]:
    """Return the time of an iteration on Spark with one core for each node, or why there is none.

    Each number of cores has a process of its own, in which Spark is started with so many.
    """
    records = []
    for p in measurable(setting):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            try:
                records.append(process.submit(at_spark, task, setting, p).result())
            except (ImportError, EngineError) as error:
                records.append({"how": "missing", "nodes": p, "reason": str(error)})
    return records


def at_spark(task: Task, setting: Setting, p: int) -> Record:
    """Return the record of p nodes on Spark, with what a question costs that does nothing but travel.

    To be called in a process of its own: it starts Spark on p cores.
    """
    os.environ["MASTER"] = f"local[{p}]"
    X, config = samples(setting), configuration(task, setting)
    W = np.zeros((X.shape[1], config.r))
    clock = time.perf_counter()
    with in_memory(X).on("spark", p, config.r) as engine:
        engine.ask(echo, W)
        start = time.perf_counter() - clock
        repeats = [measure(engine, config, X.dtype, setting["seed"]) for _ in range(setting["repeats"])]
        question = statistics.median(_seconds(partial(engine.ask, echo, W)) for _ in range(QUESTIONS))
    return measured_at(p, repeats, start_seconds=start, question_seconds=question)


def echo(node: Any, W: Any) -> tuple[Any, Any]:
    """Node: send back what came."""
    return node, W


def cost(task: Task, setting: Setting) -> list[Record]:
    """Return the time of a pass over data of a size, by one node on one core.

    A pass is the H-step with its statistics, as in a fit: the first starts from nothing, the others from the
    memberships of the one before; these are called warm, and the median of them counts.
    """
    sizes = setting["cost"]
    n, m, r = (task["value"] if task["against"] == name else sizes[name] for name in ("n", "m", "r"))
    X = mixtures(n, m, r, setting["seed"])
    config = Config(r, **_given(setting), max_iter=1 + sizes["warm_passes"], init="random", tol=0.0)
    repeats = [works(partition(X, 0, 1), config, X.dtype, setting["seed"]) for _ in range(setting["repeats"])]
    first, *warm = [Work.least(same).slowest for same in zip(*repeats, strict=True)]
    return [{"n": n, "m": m, "r": r, "seconds": statistics.median(warm), "first_seconds": first}]


def measurable(setting: Setting) -> list[int]:
    """Return the numbers of nodes that have a core each."""
    return [p for p in setting["nodes"] if p <= available_threads()]


def configuration(task: Task, setting: Setting) -> Config:
    """Return the parameters of the fit of a task."""
    return Config(
        setting["components"],
        solver=task["solver"],
        **_given(setting),
        init="random",
        max_iter=setting["iterations"],
        tol=0.0,
        solver_options=setting["rules"][task["rule"]][task["solver"]],
    )


def _given(setting: Setting) -> dict[str, Any]:
    # Plain alternation, the paper's: as many passes as iterations, whatever the solver.
    return {name: setting[name] for name in ("noise", "alpha", "lam")} | {"inference": "map"}


def samples(setting: Setting) -> NDArray[np.float32]:
    """Return the samples in random order, shape (n, m), so that nodes that get consecutive ones are alike."""
    n, seed = setting["rows"], setting["seed"]
    if setting["data"] == "synthetic":
        return mixtures(n, setting["features"], setting["components"], seed)
    return load(setting["data"], n=n, seed=seed).X


def mixtures(n: int, m: int, r: int, seed: int) -> NDArray[np.float32]:
    """Return samples that mix r random profiles, with noise a tenth of their range; shape (n, m)."""
    rng = np.random.default_rng(seed)
    profiles = rng.uniform(0.0, 1000.0, (r, m)).astype(np.float32)
    X = rng.standard_normal((n, m), dtype=np.float32)
    X *= 100.0
    parts = rng.standard_exponential((n, r), dtype=np.float32)
    parts /= parts.sum(axis=1, keepdims=True)
    X += parts @ profiles
    return X


def _seconds(action: Any) -> float:
    clock = time.perf_counter()
    action()
    return time.perf_counter() - clock
