"""Proportions of cell lines in mixtures, from counts of genes in batches of different depth."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF

from dbmd import DBMD
from dbmd.data.datasets import load
from dbmd.experiments.experiment import Record, Setting, Task

Float = NDArray[np.floating[Any]]
Batches = NDArray[np.intp]
LINES, CELLS = 3, 9  # cell lines, and cells in a mixture


class Mixtures(NamedTuple):
    """Counts of genes, shape (n, m), the batch of each mixture, shape (n,), and its proportions, shape (n, 3)."""

    counts: Float
    batch: Batches
    truth: Float


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each data set, number of genes and run."""
    return [
        {"data": data, "genes": genes, "run": run}
        for data in setting["data"]
        for genes in setting["genes"]
        for run in range(setting["runs"])
    ]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return for each method the error of the proportions, overall and by batch.

    The memberships of NMF are its coefficients, divided by their sum.
    """
    real = task["data"] != "simulated"
    counts, batch, truth = _load(task["data"]) if real else simulate(**setting["simulated"], seed=setting["seed"])
    X, seed = prepare(counts, task["genes"]), setting["seed"] + task["run"]

    found: dict[str, tuple[Float, Float | None]] = {}
    for noise in ("shared", "source"):
        model = DBMD(LINES, noise=noise, random_state=seed, **setting["fit"])
        found[noise] = model.fit_transform(X, source=batch), np.sqrt(model.noise_variance_)
    parts = NMF(LINES, init="random", random_state=seed, max_iter=1000).fit_transform(X)
    found["nmf"] = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-12), None
    common = {
        "depths": [np.median(counts[batch == c].sum(axis=1)) for c in range(batch.max() + 1)],
        "error_of_equal_parts": np.abs(truth - 1 / LINES).mean(),
    }
    return [
        {"method": method, "sigmas_found": sigmas} | common | errors(memberships, truth, batch)
        for method, (memberships, sigmas) in found.items()
    ]


def prepare(counts: Float, n_genes: int) -> NDArray[np.float32]:
    """Return relative counts of the genes that vary most, each with variance one, shape (n, n_genes).

    Counts of a mixture are mixed counts, so there is no logarithm, which would bend the line between two cell lines.
    Counting alone makes a variance that is equal to the mean, so genes are chosen by the ratio of the two. Each has a
    variance of one in the end because the model, like least squares, takes the noise to be the same in all features.
    """
    depth = counts.sum(axis=1, keepdims=True)
    shares = counts / depth * np.median(depth)
    mean, variance = shares.mean(axis=0), shares.var(axis=0)
    genes = np.argsort(-variance / np.maximum(mean, 1e-12), kind="stable")[:n_genes]
    return np.ascontiguousarray(shares[:, genes] / np.sqrt(variance[genes]), np.float32)


def errors(memberships: Float, truth: Float, batch: Batches) -> Record:
    """Return mean absolute errors of proportions, both of shape (n, 3), and their correlation.

    The truth names the components, in the order that comes nearest to it, and has no other part in this.
    """
    orders = map(list, permutations(range(LINES)))
    found = min((memberships[:, order] for order in orders), key=lambda named: float(np.abs(named - truth).sum()))
    off = np.abs(found - truth)
    return {
        "error": off.mean(),
        "error_by_batch": [off[batch == c].mean() for c in range(batch.max() + 1)],
        "correlation": np.corrcoef(found.ravel(), truth.ravel())[0, 1],
    }


def simulate(genes: int, cells: int, depths: list[int], seed: int) -> Mixtures:
    """Return counts like those of cellmix, with counting noise and no other.

    Parameters
    ----------
    genes : int
        Their number.
    cells : int
        Mixtures in each batch.
    depths : list of int
        Expected counts of a mixture, for each batch.
    seed : int
        Of everything.
    """
    rng = np.random.default_rng(seed)
    # Genes differ by orders of magnitude; a line differs from the others by a factor, and in few genes by a large one.
    common = rng.lognormal(sigma=1.5, size=genes)
    profiles = common * rng.lognormal(sigma=0.8 * rng.random(genes) ** 2, size=(LINES, genes))
    profiles /= profiles.sum(axis=1, keepdims=True)
    designs = np.array([(a, b, CELLS - a - b) for a in range(CELLS + 1) for b in range(CELLS + 1 - a)])
    truth = designs[rng.integers(len(designs), size=cells * len(depths))] / CELLS
    batch = np.repeat(np.arange(len(depths)), cells)
    counts = rng.poisson(np.array(depths)[batch, None] * (truth @ profiles)).astype(np.float32)
    return Mixtures(counts[:, counts.any(axis=0)], batch, truth)


@lru_cache(maxsize=1)
def _load(name: str) -> Mixtures:
    found = load(name)
    assert found.source is not None
    assert found.truth is not None
    return Mixtures(found.X, np.unique(found.source, return_inverse=True)[1], found.truth)
