"""The evidence for the defaults of alpha, tol and the start: accuracies, iterations and objectives on real data.

Digits come with scikit-learn; MNIST and CoverType from the folder named by DBMD_DATA or by a download, Jasper Ridge
from that folder alone. Those that cannot be had are left out, with a line that says so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.cluster import KMeans

from dbmd import DBMD
from dbmd.config import INITS
from dbmd.data.datasets import load
from dbmd.errors import DataError
from dbmd.metrics import clustering_accuracy
from dbmd.model import start

SEEDS = range(4)
PLAIN = {"inference": "map", "tol": 1e-3}  # the paper's estimator, the same for all
SEEDS_OF_STARTS = range(16)  # starts differ by less than two seeds of one do


def data_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield name, X, classes, sources."""
    rng = np.random.default_rng(0)
    digits = load("digits")
    X, y = digits.X.astype(float), digits.y
    yield "digits", X, y, None
    source = rng.integers(0, 3, len(X))
    yield "digits, noise 0.5, 4, 12", X + rng.normal(size=X.shape) * np.array([0.5, 4, 12])[source][:, None], y, source
    for make in (mnist, covtype, jasper):
        try:
            yield from make(rng)
        except (DataError, FileNotFoundError) as error:
            print(f"Left out: {error}")


def mnist(rng):
    data = load("mnist")
    yield "MNIST, first 10,000", data.X[:10_000], data.y[:10_000], None


def covtype(rng):
    data = load("covtype")
    rows = rng.permutation(len(data.y))[:30_000]
    X, y = data.X[rows].astype(float), data.y[rows]
    yield "CoverType, 30,000, raw", X, y, None
    yield "CoverType, 30,000, standardised", (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9), y, None


def jasper(rng):
    file = loadmat(Path(os.environ.get("DBMD_DATA", ".")) / "hsi_jasper/jasperRidge2_R198.mat")
    yield "Jasper Ridge", np.ascontiguousarray(file["Y"].T / 5000.0), file["A"].argmax(axis=0), None


def compare_starts(X, y, source, r):
    for init in INITS:
        models = [DBMD(r, random_state=seed, init=init, **PLAIN).fit(X, source=source) for seed in SEEDS_OF_STARTS]
        accuracies = [clustering_accuracy(y, model.labels_) for model in models]
        objectives = [model.objective_ for model in models]
        print(
            f"  init {init:31} {mean_and_error(accuracies, 3)}, objective {mean_and_error(objectives, 0)}", flush=True
        )


def mean_and_error(values, digits):
    return f"{np.mean(values):.{digits}f} +- {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def main() -> None:
    warnings.simplefilter("ignore")  # not converging in 200 iterations is a result here
    settings = [
        ("alpha 1, tol 1e-3 (default)", {}, 5),
        ("no passes of k-means in the start", {}, 0),
        ("alpha 1.1", {"alpha": 1.1}, 5),
        ("alpha 2", {"alpha": 2.0}, 5),
        ("alpha 5", {"alpha": 5.0}, 5),
        ("tol 1e-2", {"tol": 1e-2}, 5),
        ("tol 1e-4", {"tol": 1e-4}, 5),
        ("tol 1e-5, max_iter 1000", {"tol": 1e-5, "max_iter": 1000}, 5),
    ]
    for name, X, y, source in data_sets():
        r = len(np.unique(y))
        kmeans = [KMeans(r, n_init=1, random_state=seed).fit_predict(X) for seed in SEEDS]
        print(f"{name}: k-means {np.mean([clustering_accuracy(y, labels) for labels in kmeans]):.3f}")
        for setting, parameters, refinements in settings:
            start.REFINEMENTS = refinements
            models = [DBMD(r, random_state=seed, **PLAIN | parameters).fit(X, source=source) for seed in SEEDS]
            accuracy = np.mean([clustering_accuracy(y, model.labels_) for model in models])
            iterations = np.mean([model.n_iter_ for model in models])
            print(f"  {setting:36} {accuracy:.3f} in {iterations:.0f} iterations", flush=True)
        start.REFINEMENTS = 5
        compare_starts(X, y, source, r)


if __name__ == "__main__":
    main()
