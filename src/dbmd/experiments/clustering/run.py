"""Cluster: each method on each data set, timed, and its clusters set against the classes."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from dbmd.data.datasets import Labelled, load
from dbmd.experiments.clustering import methods
from dbmd.experiments.clustering.methods import Samples
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.metrics import agreement

# What is decided by the data alone is run once.
DETERMINISTIC = ("nmf", "nmf, as picked")


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each data set, setting, method and run; those on the same numbers come one after the other."""
    return [
        {"data": data["name"], "setting": name, "method": method, "run": run}
        for data in setting["data"]
        for name in data["settings"]
        for method in data["methods"]
        for run in range(1 if method in DETERMINISTIC else data.get("fewer", {}).get(method, data["runs"]))
    ]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return how well the clusters agree with the classes, and the seconds of the fit, loading and labels left out."""
    data = next(data for data in setting["data"] if data["name"] == task["data"])
    how = setting["settings"][task["setting"]]
    labelled = _labelled(data["load"], data.get("n"))
    samples = _samples(data["load"], data.get("n"), how["standardise"], data.get("largest"), data.get("multiply", 1))
    X, classes = samples.X, samples.classes
    r = int(classes.max()) + 1
    about = {
        "name": labelled.name,
        "surrogate": labelled.surrogate,
        "n": len(X),
        "m": X.shape[1],
        "standardised": how["standardise"],
    }
    if task["method"] == "k-means||":
        reason = methods.no_spark()
        if reason:
            return [about | {"missing": reason}]
    if task["method"] in how["options"]:
        given = {"init": data["start"], "lam": data["lam"]} if task["setting"] == "paper" else {}
        options = {"solver": task["method"], "solver_options": how["options"][task["method"]]}
        fit = methods.dbmd(**how["fit"], **given, **options)
    else:
        fit = methods.COMPETITORS[task["method"]]
    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is in the records
        found = fit(samples, r, task["run"])
    seconds = found.seconds if found.seconds is not None else time.perf_counter() - clock
    counts = np.zeros((r, r), int)
    np.add.at(counts, (classes, found.labels), 1)
    sizes = np.sort(counts.sum(axis=0))[::-1]
    measured = {"seconds": seconds, "iterations": found.iterations, "largest_cluster": sizes[0] / len(X)}
    return [about | asdict(agreement(counts)) | measured]


@lru_cache(1)
def _labelled(name: str, n: int | None) -> Labelled:
    return load(name, n=n)


@lru_cache(1)
def _samples(name: str, n: int | None, standardise: bool, largest: float | None, multiply: float) -> Samples:
    """Return the samples as they are, times a number, or standardised.

    Those with a number above ``largest`` are left out of the first.
    """
    data = _labelled(name, n)
    X, classes = data.X, np.unique(data.y, return_inverse=True)[1]
    if standardise:
        return Samples(standardised(X), classes)
    if largest is not None:
        keep = X.max(axis=1) <= largest
        X, classes = X[keep], classes[keep]
    return Samples(X * X.dtype.type(multiply), classes)


def standardised(X: NDArray[Any]) -> NDArray[np.float32]:
    """Return each feature less its mean, over its standard deviation; those that do not vary become zero."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    out = np.empty(X.shape, np.float32)
    for start in range(0, len(X), 100_000):  # no second array of the size of X
        out[start : start + 100_000] = (X[start : start + 100_000] - mean) / scale
    return out
