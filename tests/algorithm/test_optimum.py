"""The end of a fit: a stationary point, which an independent solver (cvxpy) finds, too, and what is said of it."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.model.lasso import minimise
from dbmd.model.statistics import Quadratic

from .fits import SOLVERS, fitted, mixture


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "noise"), [("exact", "source"), ("exact", "shared"), ("agd", "shared")])
@pytest.mark.parametrize("alpha", [2.0, (2.0, 1.7, 2.4)], ids=["number", "vector"])
def test_a_tight_fit_ends_at_a_stationary_point(solver, noise, alpha):
    """The gradients in W, in the memberships along the simplex and in sigma vanish."""
    X, source, _, _ = mixture(10, n=60, m=5)
    lam = 2.0
    model = fitted(X, source, n_components=3, alpha=alpha, lam=lam, solver=solver, noise=noise, tol=0.0, max_iter=2000)
    W, sigma2 = model.components_.T, model.noise_variance_
    assert sigma2.shape == (3,)
    Ht = model.transform(X, source=source)
    weight = 1.0 / sigma2[source]
    R = X - Ht @ W.T

    # W: 0 in gradient + lam sign(W)
    G = -(R * weight[:, None]).T @ Ht
    scale = np.abs((X * weight[:, None]).T @ Ht).max() + lam
    wrong = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), np.maximum(np.abs(G) - lam, 0.0))
    assert wrong.max() / scale < 1e-6

    # h: moving weight from one component to another gains nothing, the gradient is the same in all of them
    G = -(R @ W) * weight[:, None] - (np.asarray(alpha) - 1.0) / Ht
    scale = (np.abs(X @ W) * weight[:, None]).max()
    assert np.abs(Ht * (G - (G * Ht).sum(axis=1, keepdims=True))).max() / scale < 1e-6

    # sigma: the mean square of the residuals
    squares = (R**2).sum(axis=1)
    if noise == "source":
        expected = [squares[source == c].mean() / X.shape[1] for c in range(3)]
    else:
        expected = np.full(3, squares.mean() / X.shape[1])
    assert_allclose(sigma2, expected, rtol=1e-6)


@pytest.mark.slow
def test_no_small_step_from_the_end_of_a_fit_goes_down():
    """The same without derivatives: the objective at random neighbours, all three moved, is not lower."""
    X, source, _, _ = mixture(11, n=40, m=4)
    lam, alpha = 1.0, 2.0
    model = fitted(X, source, n_components=3, alpha=alpha, lam=lam, tol=0.0, max_iter=4000)
    W, sigma2, Ht = model.components_.T, model.noise_variance_, model.transform(X, source=source)

    def value(W, Ht, sigma2):
        squares = ((X - Ht @ W.T) ** 2).sum(axis=1)
        fit = (squares / (2 * sigma2[source]) + 0.5 * X.shape[1] * np.log(sigma2[source])).sum()
        return fit + lam * np.abs(W).sum() - (alpha - 1) * np.log(Ht).sum()

    rng = np.random.default_rng(0)
    here = value(W, Ht, sigma2)
    assert_allclose(here, model.objective_, rtol=1e-9)
    for _ in range(200):
        eps = 10.0 ** rng.uniform(-5, -2)
        H_near = Ht * np.exp(eps * rng.normal(size=Ht.shape))
        H_near /= H_near.sum(axis=1, keepdims=True)
        near = value(W + eps * rng.normal(size=W.shape), H_near, sigma2 * np.exp(eps * rng.normal(size=3)))
        assert near >= here - 1e-9 * abs(here)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_cvxpy_finds_the_same_memberships(alpha):
    X, source, _, _ = mixture(12, n=10, m=5)
    model = fitted(X, source, n_components=3, alpha=alpha, max_iter=5)
    W, sigma2 = model.components_.T, model.noise_variance_[source]

    H = cp.Variable((len(X), 3), nonneg=True)
    fit = cp.sum(cp.multiply(1 / (2 * sigma2), cp.sum(cp.square(X - H @ W.T), axis=1)))
    objective = fit if alpha == 1.0 else fit - (alpha - 1) * cp.sum(cp.log(H))
    problem = cp.Problem(cp.Minimize(objective), [cp.sum(H, axis=1) == 1])
    # Closer than 1e-8 the solver does not come on every processor.
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)

    Ht = model.transform(X, source=source)
    ours = (((X - Ht @ W.T) ** 2).sum(axis=1) / (2 * sigma2)).sum()
    if alpha > 1.0:
        ours -= (alpha - 1) * np.log(Ht).sum()
    assert_allclose(ours, problem.value, rtol=1e-6)
    assert_allclose(Ht, H.value, atol=1e-3)


@pytest.mark.parametrize("lam", [0.0, 5.0])
def test_cvxpy_finds_the_same_components(lam):
    X, source, _, Ht = mixture(13, n=30, m=5)
    sigma2 = np.array([0.1, 0.5, 2.0])[source]
    V = cp.Variable((5, 3))
    fit = cp.sum(cp.multiply(1 / (2 * sigma2), cp.sum(cp.square(X - Ht @ V.T), axis=1)))
    problem = cp.Problem(cp.Minimize(fit + lam * cp.norm1(cp.vec(V, order="C"))))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)

    weighted = Ht / sigma2[:, None]
    W = minimise(Quadratic(Ht.T @ weighted, X.T @ weighted), lam, np.zeros((5, 3)))
    ours = (((X - Ht @ W.T) ** 2).sum(axis=1) / (2 * sigma2)).sum() + lam * np.abs(W).sum()
    assert_allclose(ours, problem.value, rtol=1e-7)
    assert_allclose(W, V.value, atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_cvxpy_finds_the_components_of_one_iteration(solver):
    """The first iteration by hand: memberships at the start, then (P) with the levels of the start, by cvxpy."""
    X, source, W0, _ = mixture(14, n=30, m=4)
    lam = 3.0
    model = fitted(X, source, n_components=3, init=W0.T, lam=lam, noise=0.7, solver=solver, max_iter=1, n_nodes=3,
                   inference="map")  # fmt: skip

    H = cp.Variable((30, 3), nonneg=True)
    h_step = cp.Problem(cp.Minimize(cp.sum_squares(X - H @ W0.T)), [cp.sum(H, axis=1) == 1])
    h_step.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    V = cp.Variable((4, 3))
    fit = cp.sum_squares(X - H.value @ V.T) / (2 * 0.7)
    w_step = cp.Problem(cp.Minimize(fit + lam * cp.norm1(cp.vec(V, order="C"))))
    w_step.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)

    constant = 0.5 * X.size * np.log(0.7)
    assert_allclose(model.history_[0].objective, w_step.value + constant, rtol=1e-6)
    assert_allclose(model.components_.T, V.value, atol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_the_explained_variance_is_that_of_a_plain_computation(offset, form):
    X, source, _, _ = mixture(seed=8)
    X = X + offset
    model = fitted(form(X), source, n_components=3, inference="map")
    residual = X - model.transform(form(X), source=source) @ model.components_

    def explained(own):
        centred = X[own] - X[own].mean(axis=0)
        return 1.0 - (residual[own] ** 2).sum() / (centred**2).sum()

    rtol = 1e-5 if form is sparse.csr_array and offset else 1e-7
    assert_allclose(model.fit_info_["explained"], explained(np.ones(len(X), bool)), rtol=rtol)
    assert_allclose(model.fit_info_["explained_by_source"], [explained(source == c) for c in range(3)], rtol=rtol)


def test_the_profile_of_a_fit_is_that_of_its_memberships():
    X, source, _, _ = mixture(seed=8)
    model = fitted(X, source, n_components=3)
    Ht, profile = model.transform(X, source=source), model.profile_
    for c in range(3):
        assert_array_equal(profile.counts[c], np.bincount(model.labels_[source == c], minlength=3))
        assert_allclose(profile.sizes[c], Ht[source == c].sum(axis=0), atol=1e-6)
    assert_allclose(profile.sizes.sum(axis=0), model.cluster_sizes_)
    assert_array_equal(profile.n, np.bincount(source))
