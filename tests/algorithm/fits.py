"""Data of the model, and fits of them, for the laws of the whole fit."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD

SOLVERS = ("exact", "agd", "admm", "cease")
# Two W of a whole fit count as the same below this relative difference (float64).
SAME = 1e-8
# An objective may rise by rounding: this much, relative to its scale.
RISE = {np.float64: 1e-9, np.float32: 1e-5}
# Where the fit is perfect, sigma^2 falls to its floor, a tiny part of the mean square of the data, and rounding of the
# residuals counts for as much more.
RISE_AT_THE_FLOOR = {np.float64: 1e-5, np.float32: 1e-3}
# The iterative solvers, made as precise as the exact one.
TIGHT = {"tol": 1e-12, "max_rounds": 20_000}


def mixture(seed=0, n=120, m=6, r=3, sigmas=(0.2, 0.6, 1.5), concentration=0.5, dtype=np.float64):
    """Return X, the source of each sample (0, 1, ... in random order, of unequal sizes), W and H of the model."""
    rng = np.random.default_rng(seed)
    fractions = np.arange(len(sigmas), 0, -1) / np.arange(1, len(sigmas) + 1).sum()
    source = rng.choice(len(sigmas), n, p=fractions)
    source[: len(sigmas)] = np.arange(len(sigmas))  # none is empty
    W = rng.normal(size=(m, r)) * 3
    Ht = rng.dirichlet(np.full(r, concentration), n)
    X = Ht @ W.T + rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return X.astype(dtype), source, W, Ht


def fitted(X, source=None, **parameters):
    """Return a fitted model, of map where there is a prior; that a short fit did not converge is not the point here."""
    if np.max(parameters.get("alpha", 1.0)) > 1.0:
        parameters = {"inference": "map"} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**{"random_state": 0} | parameters).fit(X, source=source)


def difference(W, V):
    return np.linalg.norm(W - V) / np.linalg.norm(V)


def objectives(model):
    return np.array([record.objective for record in model.history_])


def assert_never_rises(model, X, allowed=RISE):
    values = objectives(model)
    assert np.isfinite(values).all()
    # ||X - W H||^2 / (2 sigma^2) is about m n / 2 where sigma is inferred; else the objective itself is the scale.
    scale = np.abs(values).max() + X.size
    assert np.diff(values).max(initial=0.0) <= allowed[X.dtype.type] * scale
