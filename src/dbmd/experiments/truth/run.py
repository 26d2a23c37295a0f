"""Two parts: the errors of all methods on all sets, and the error of DBMD against iterations."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.dataset import in_memory
from dbmd.errors import DataError
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.truth.data import Float, Mixtures, made, membership_error, pattern_error
from dbmd.experiments.truth.methods import METHODS, NONNEGATIVE
from dbmd.memberships import MembershipModel, write_memberships
from dbmd.model.result import State

SHOWN = 40  # points of a curve, at equal distances on a logarithmic axis


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each set, run and method, then one for each curve.

    Sets with several noise levels have as many negative as positive numbers: there is no NMF of them.
    """
    errors = [
        {"part": "errors", "data": about["name"], "run": run, "method": method}
        for about in setting["sets"]
        for method in setting["methods"]
        for run in range(about.get("fewer", {}).get(method, setting["runs"]))
        if not (about["kind"] == "levels" and method in NONNEGATIVE)
    ]
    curves = [
        {"part": "iterations", "data": name, "run": 0, "method": method}
        for name in setting["iterations"]["sets"]
        for method in ("map", "evidence")
    ]
    return errors + curves


def run(task: Task, setting: Setting) -> list[Record]:
    """Return one record; if files or a package are missing, it says so."""
    about = next(about for about in setting["sets"] if about["name"] == task["data"])
    described = {"kind": about["kind"], "alpha": about.get("alpha")}
    try:
        data = made(about, task["run"])
        part = _errors if task["part"] == "errors" else _curve
        found = part(data, task, setting) | {"n": len(data.X), "m": data.X.shape[1], "sigmas": data.sigmas}
    except (DataError, ImportError) as error:
        return [described | {"missing": str(error)}]
    return [described | found]


def _errors(data: Mixtures, task: Task, setting: Setting) -> Record:
    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is in the records
        found = METHODS[task["method"]](data, task["run"], setting)
    seconds = time.perf_counter() - clock
    truth = data.memberships if found.rows is None else data.memberships[found.rows]
    known = data.patterns is not None and found.patterns is not None
    return {
        "error": membership_error(found.memberships, truth),
        "pattern_error": pattern_error(found.patterns, data.patterns) if known else None,  # type: ignore[arg-type]
        "sigmas_found": found.sigmas,
        "iterations": found.iterations,
        "samples": len(truth),
        "negative": float((data.X < 0).mean()),
        "seconds": seconds,
    }


def _curve(data: Mixtures, task: Task, setting: Setting) -> Record:
    """Return the error after some of the iterations, on all samples, from the centres of k-means."""
    r, last = data.memberships.shape[1], setting["iterations"]["max_iter"]
    start = KMeans(r, n_init=10, random_state=task["run"]).fit(data.X).cluster_centers_
    shown = np.unique(np.geomspace(1, last, SHOWN).round().astype(int))
    rows: list[Record] = []

    def on_iteration(state: State) -> None:
        if len(state.history) in shown:
            rows.append({"iteration": len(state.history)} | _distance(data, state.V))

    names = None if data.source is None else np.unique(data.source)
    codes: Any = 0 if data.source is None else data.source
    with in_memory(data.X, names, codes) as dataset, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # with tol = 0 it never does
        model = DBMD(r, inference=task["method"], init=start, tol=0.0, max_iter=last)
        model.fit_data(dataset, on_iteration=on_iteration)
    return {"curve": rows}


def _distance(data: Mixtures, W: Float) -> Record:
    """Return the errors of memberships and patterns for a W of shape (m, r)."""
    return {
        "error": membership_error(_memberships(data, W), data.memberships),
        "pattern_error": None if data.patterns is None else pattern_error(W.T, data.patterns),
    }


def _memberships(data: Mixtures, W: Float) -> Float:
    """Return the memberships of all samples for a W of shape (m, r); the noise does not move them."""
    out = np.empty(data.memberships.shape, data.X.dtype)
    model = MembershipModel.plain(np.asarray(W, float), np.ones(1), np.zeros(W.shape[1]))
    with in_memory(data.X) as dataset, dataset.on("local", None, W.shape[1]) as engine:
        engine.ask(partial(write_memberships, out=out), model)
    return out
