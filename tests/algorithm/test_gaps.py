"""Whole fits of data with missing entries: near those of the full data, and at the minimum of what is observed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment, minimize

from dbmd import algorithm
from dbmd.config import Config
from dbmd.data.block import Block
from dbmd.engines.local import Engine
from dbmd.memberships import MembershipModel, memberships
from gaps import WithGaps, nodes_with_gaps

from .fits import RISE, SOLVERS, mixture


def fitted(X, source=0, n_nodes=2, **parameters):
    """Return the result of a fit; NaN are gaps."""
    n_sources = 1 if isinstance(source, int) else int(source.max()) + 1
    with (
        np.errstate(invalid="ignore"),
        Engine(nodes_with_gaps(X, source, n_nodes, fill=np.nanmean(X, axis=0))) as engine,
    ):
        return algorithm.fit(
            engine, Config(**parameters), n_sources=n_sources, n_features=X.shape[1], dtype=X.dtype, seed=0
        )


def transformed(result, X):
    model = MembershipModel.plain(result.W, result.sigma2, np.zeros(result.W.shape[1]))
    return memberships(WithGaps(Block(X)), model)


def with_gaps(X, fraction, seed=0):
    gaps = np.random.default_rng(seed).random(X.shape) < fraction
    gaps[gaps.all(axis=1), 0] = False
    return np.where(gaps, np.nan, X).astype(X.dtype)


def mixtures(seed, n=2000, m=50, r=4, decibels=15.0):
    """Return mixtures of r patterns with noise, and the memberships."""
    rng = np.random.default_rng(seed)
    W, Ht = rng.uniform(size=(m, r)), rng.dirichlet(np.full(r, 0.3), n)
    X = Ht @ W.T
    return X + np.sqrt(X.var(axis=0).mean() / 10 ** (decibels / 10)) * rng.normal(size=X.shape), Ht


def error(found, truth):
    order = linear_sum_assignment(((found[:, :, None] - truth[:, None]) ** 2).sum(axis=0).T)[1]
    return np.sqrt(np.mean((found[:, order] - truth) ** 2))


@pytest.mark.parametrize(("fraction", "allowed"), [(0.1, 1.1), (0.3, 1.3), (0.5, 1.5)])
def test_memberships_are_near_those_of_the_full_data(fraction, allowed):
    """By how much an error grows at least: one over the root of the fraction that is observed."""
    X, Ht = mixtures(0)
    full = fitted(X, n_components=4)
    Y = with_gaps(X, fraction)
    found = fitted(Y, n_components=4)
    assert error(transformed(found, Y), Ht) <= allowed * error(transformed(full, X), Ht)
    assert error(found.W, full.W) <= 0.2 * full.W.std()
    assert_allclose(found.sigma2, full.sigma2, rtol=0.05)
    assert_allclose(found.evidence.excess, full.evidence.excess, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"n": 600, "m": 300}, {"r": 8}, {"decibels": 5.0}, {"m": 12, "r": 3}], ids=str)
def test_so_they_are_on_other_data(kind):
    r = kind.get("r", 4)
    for seed in range(2):
        X, Ht = mixtures(seed, **kind)
        Y = with_gaps(X, 0.3, seed)
        full, found = fitted(X, n_components=r), fitted(Y, n_components=r)
        assert found.converged
        assert error(transformed(found, Y), Ht) <= 1.3 * error(transformed(full, X), Ht)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [1.0, 1.5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_at_the_peaks_the_objective_never_rises(solver, alpha, dtype):
    X, source, _, _ = mixture(1, n=60, r=3, dtype=dtype)
    Y = with_gaps(X, 0.3)
    result = fitted(
        Y, source, n_components=3, inference="map", alpha=alpha, solver=solver, init=X[:3], tol=0.0, max_iter=12
    )
    values = np.array([record.objective for record in result.history] + [result.objective])
    assert np.diff(values).max() <= RISE[dtype] * (np.abs(values).max() + X.size)
    assert values[0] - values[-1] > 1.0


def test_neither_nodes_nor_what_stands_in_for_gaps_matter():
    X, source, _, _ = mixture(2, n=200, r=3)
    Y = with_gaps(X, 0.3)
    results = [fitted(Y, source, n_nodes, n_components=3, init=X[:3], max_iter=6, tol=0.0) for n_nodes in (1, 5)]
    assert_allclose(results[0].W, results[1].W, rtol=1e-7)
    assert_allclose(results[0].objective, results[1].objective, rtol=1e-9)


def posterior(flat, Y, r, sigma2, a, lam):
    """Return the masked objective and its gradient, at W and the logarithms of memberships."""
    m = Y.shape[1]
    W, logs = flat[: m * r].reshape(m, r), flat[m * r :].reshape(len(Y), r)
    Ht = np.exp(logs - logs.max(axis=1, keepdims=True))
    Ht /= Ht.sum(axis=1, keepdims=True)
    residual = np.nan_to_num(Y - Ht @ W.T)
    by_H = Ht * (-residual @ W / sigma2) - a
    by_logs = by_H - Ht * by_H.sum(axis=1, keepdims=True)
    value = 0.5 * np.sum(residual**2) / sigma2 - a * np.log(Ht).sum() + lam * np.abs(W).sum()
    return value, np.concatenate([(lam * np.sign(W) - residual.T @ Ht / sigma2).ravel(), by_logs.ravel()])


def test_the_minimum_of_an_independent_solver_is_a_fixed_point():
    X, _, W, Ht = mixture(3, n=14, m=5, r=2, sigmas=(0.3,))
    Y = with_gaps(X, 0.3)
    start = np.concatenate([W.ravel(), np.log(Ht).ravel()])
    least = minimize(posterior, start, (Y, 2, 0.1, 0.5, 1.0), jac=True, method="BFGS", options={"gtol": 1e-8})
    V = least.x[: W.size].reshape(W.shape)
    found = fitted(Y, n_components=2, inference="map", alpha=1.5, noise=0.1, lam=1.0, init=V.T, tol=0.0, max_iter=20)
    observed = (~np.isnan(Y)).sum()
    assert_allclose(found.objective, least.fun + 0.5 * observed * np.log(0.1), atol=1e-8)
    assert_allclose(found.W, V, atol=1e-4)
