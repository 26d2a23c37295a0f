"""Streams of batches, and models after them."""

import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD


def basis(seed=0, m=8, r=3):
    return 3 * np.random.default_rng(seed).normal(size=(m, r))


def batch(seed, W, n=150, sigmas=(0.3,), concentration=0.3):
    """Return samples and the number of the source of each, by the model."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    Ht = rng.dirichlet(np.full(W.shape[1], concentration), n)
    return Ht @ W.T + rng.normal(size=(n, len(W))) * np.array(sigmas)[source, None], source


def batches(count, first_seed=0, **setting):
    """Return batches of one stream: samples and sources."""
    return [batch(first_seed + seed, basis(), **setting) for seed in range(count)]


def streamed(stream, **parameters):
    """Return a model after a stream; that a short fit of the first batch did not converge is not the point here."""
    model = DBMD(**{"n_components": 3, "random_state": 0} | parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for X, source in stream:
            model.partial_fit(X, source=source)
    return model


def distance(model, W):
    """Return how far the components are from a basis, in the best order, relative to its size."""
    cost = ((model.components_[:, None, :] - W.T[None]) ** 2).sum(axis=2)
    return np.sqrt(cost[linear_sum_assignment(cost)].sum() / (W**2).sum())


def learned(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}
