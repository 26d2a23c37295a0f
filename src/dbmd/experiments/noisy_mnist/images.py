"""Clusters of images of which a part is noisier than the others."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.config import Config
from dbmd.data.datasets import Labelled, load
from dbmd.dataset import in_memory
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.metrics import match
from dbmd.model.start import STARTS

Images = NDArray[np.float32]
Groups = NDArray[np.intp]


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each noise level of the last group and each run."""
    return [{"last_sigma": sigma, "run": run} for sigma in setting["last_sigma"] for run in range(setting["runs"])]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return for each method its accuracy, overall and by group, and the noise levels it found.

    All fits of DBMD begin at the same W, the library's own start. Two methods are there to tell why the others differ:
    k-means from that start, and a level for each source stopped after as many iterations as one for all took.
    """
    images, seed = _images(setting["data"], setting["n"], setting["seed"]), setting["seed"] + task["run"]
    r, sigmas = setting["components"], [*setting["sigmas"], task["last_sigma"]]
    X, group = add_noise(np.divide(images.X, setting["pixel_range"], dtype=np.float32), setting["shares"], sigmas, seed)
    W = start(X, group, r, seed)

    def dbmd(**parameters: Any) -> DBMD:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # one of them is stopped early on purpose
            return DBMD(r, init=W, **setting["fit"] | parameters).fit(X, source=group)

    shared, source = dbmd(noise="shared"), dbmd(noise="source")
    models = {
        "k-means": KMeans(r, n_init=1, random_state=seed).fit(X),
        "k-means, same start": KMeans(r, init=W.astype(X.dtype), n_init=1).fit(X),
        "shared": shared,
        "source": source,
        "source, same iterations": dbmd(noise="source", max_iter=shared.n_iter_),
    }
    return [
        {
            "method": method,
            "data": setting["data"],
            "n": len(X),
            "sigmas": sigmas,
            "shares": setting["shares"],
            "sigmas_found": np.sqrt(model.noise_variance_) if isinstance(model, DBMD) else None,
            "iterations": model.n_iter_,
        }
        | accuracies(images.y, model.labels_, group)
        for method, model in models.items()
    ]


def add_noise(X: Images, shares: list[float], sigmas: list[float], seed: int) -> tuple[Images, Groups]:
    """Return the images with noise, shape (n, m), and the group of each, shape (n,).

    A seed gives the same groups and the same noise, but for its scale, whatever the standard deviations: along the
    axis of the figure nothing changes but sigma_3.
    """
    rng = np.random.default_rng(seed)
    ends = np.round(np.cumsum(shares) * len(X))
    group = rng.permutation(np.searchsorted(ends, np.arange(len(X)), side="right"))
    noise = rng.standard_normal(X.shape, dtype=np.float32)
    return X + np.asarray(sigmas, np.float32)[group, None] * noise, group


def start(X: Images, group: Groups, r: int, seed: int) -> NDArray[np.float64]:
    """Return the start of the library, shape (r, m): k-means, in which sources count by their precision."""
    with in_memory(X, np.unique(group), group) as data, data.on("local", None, r) as engine:
        return STARTS[str(Config().init)](engine.ask, r, seed).T


def accuracies(classes: NDArray[Any], clusters: NDArray[Any], group: Groups) -> Record:
    """Return the part of the images that one matching of clusters to classes gets right: overall, and by group."""
    y = np.unique(classes, return_inverse=True)[1]
    counts = np.zeros((y.max() + 1, clusters.max() + 1), int)
    np.add.at(counts, (y, clusters), 1)
    matched, by = match(counts)
    class_of = np.full(counts.shape[1], -1)
    class_of[by] = matched
    right = class_of[clusters] == y
    return {
        "accuracy": right.mean(),
        "accuracy_by_group": [right[group == c].mean() for c in range(group.max() + 1)],
        "largest_class": counts.sum(axis=1).max() / len(classes),  # what a single cluster gets right
    }


@lru_cache(maxsize=1)
def _images(name: str, n: int, seed: int) -> Labelled:
    return load(name, n=n, seed=seed)
