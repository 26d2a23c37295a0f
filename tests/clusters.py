"""Samples in clusters, and what tests of distances and starts ask of them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dbmd.data import partition
from dbmd.engines.local import Engine

DATA = {
    "dense": lambda Xt: Xt,
    "CSR": sparse.csr_array,
    "float32": lambda Xt: Xt.astype(np.float32),
}


def clusters(rng, n=300, m=5, r=4, noise=0.3, distance=6.0):
    """Return samples around r centres, and the centres."""
    centres = distance * rng.normal(size=(r, m))
    return centres[rng.integers(0, r, n)] + noise * rng.normal(size=(n, m)), centres


def clusters_of_two_sources(rng, ratio, n=2000, m=6, r=4):
    """Return samples of which every other is ``ratio`` times as noisy, their sources, and the centres."""
    centres = 5.0 * rng.normal(size=(r, m))
    source = np.arange(n) % 2
    noise = 0.1 * np.where(source == 1, ratio, 1.0)[:, None] * rng.normal(size=(n, m))
    return centres[rng.integers(0, r, n)] + noise, source, centres


def engine(Xt, sources=0, n_nodes=1):
    """Return a local engine over samples."""
    return Engine(partition(Xt, sources, n_nodes), n_threads=1)


def squared_distances(Xt, W):
    """Return ||x - w||^2 for all rows x and columns w."""
    return ((Xt[:, None, :] - W.T) ** 2).sum(axis=2)
