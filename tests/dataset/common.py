"""Tables of mixtures in files, and fits of them."""

import warnings
from functools import cache

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.dataset import open_data
from tables import Table

KEPT, STREAMED = DEFAULT_MEMORY, 0


@cache
def mixed(n=400, m=5, r=3, kind="quarters", seed=3):
    """Return a table of samples that are mixtures, of three sources of different noise."""
    rng = np.random.default_rng(seed)
    sources, classes = rng.integers(0, 3, n), rng.integers(0, r, n)
    Ht = 0.8 * np.eye(r)[classes] + 0.2 * rng.dirichlet(np.ones(r), n)
    centres = 8.0 + 4.0 * rng.normal(size=(r, m))
    X = Ht @ centres + np.array([0.3, 0.7, 1.5])[sources, None] * rng.normal(size=(n, m))
    X = np.clip(np.round(X), 0, 100) if kind == "whole" else np.round(4 * X) / 4
    return Table(X, sources, classes, tuple(f"n{i % 7}" for i in range(n)))


def fitted(X, **options):
    parameters = {"n_components": 3, "random_state": 0, "max_iter": 15, "tol": 0.0}
    source = options.pop("source", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**parameters | options).fit(X, source=source)


def opened(written, **options):
    return open_data(written.path, columns=written.features, source=written.source, **options)


def blocks(data, n_nodes=None):
    return [node.block for node in data.nodes(n_nodes, 1)]


def assert_same_fit(one, other, atol=1e-6):
    assert_allclose(one.components_, other.components_, atol=atol, rtol=atol)
    assert_allclose(one.noise_variance_, other.noise_variance_, rtol=10 * atol)
    assert_allclose(one.objective_, other.objective_, rtol=atol)
    assert_array_equal(one.profile_.n, other.profile_.n)
    assert_allclose(one.cluster_sizes_, other.cluster_sizes_, rtol=1e-4)
