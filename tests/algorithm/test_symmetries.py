"""Symmetries of the model: order and names, units and offset of the data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from .fits import SAME, SOLVERS, TIGHT, difference, fitted, mixture


@pytest.mark.parametrize("solver", SOLVERS)
def test_permuting_the_samples_changes_nothing(solver):
    X, source, W, _ = mixture(1)
    order = np.random.default_rng(0).permutation(len(X))
    parameters = {"n_components": 3, "init": W.T + 0.3, "alpha": 1.5, "lam": 0.5, "n_nodes": 3, "max_iter": 15}
    parameters |= {"solver": solver, "solver_options": TIGHT}
    model = fitted(X, source, **parameters)
    permuted = fitted(X[order], source[order], **parameters)
    assert difference(permuted.components_, model.components_) < SAME
    assert_allclose(permuted.noise_variance_, model.noise_variance_, rtol=SAME)
    assert_array_equal(permuted.labels_, model.labels_[order])


@pytest.mark.parametrize("solver", SOLVERS)
def test_permuting_the_components_permutes_them(solver):
    X, source, W, _ = mixture(2)
    order = [2, 0, 1]
    alpha = np.array([1.0, 1.5, 2.5])
    parameters = {"n_components": 3, "solver": solver, "lam": 0.5}
    model = fitted(X, source, init=W.T + 0.3, alpha=alpha, **parameters)
    permuted = fitted(X, source, init=W.T[order] + 0.3, alpha=alpha[order], **parameters)
    assert difference(permuted.components_, model.components_[order]) < SAME
    H = model.transform(X, source=source)
    assert_allclose(permuted.transform(X, source=source), H[:, order], atol=1e-7)
    assert_allclose(permuted.cluster_sizes_, model.cluster_sizes_[order], rtol=1e-7)


def test_the_names_of_the_sources_do_not_matter():
    X, source, _, _ = mixture(2)
    model = fitted(X, source, n_components=3)
    named = fitted(X, np.array(["b", "c", "a"])[source], n_components=3)
    assert named.sources_.tolist() == ["a", "b", "c"]
    assert difference(named.components_, model.components_) < SAME
    assert_allclose(named.noise_variance_, model.noise_variance_[[2, 0, 1]], rtol=SAME)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e4])
@pytest.mark.parametrize("noise", ["source", "shared", 0.5])
@pytest.mark.parametrize(
    ("solver", "alpha"), [("exact", 1.0), ("exact", 2.0), ("agd", 1.5), ("admm", 1.0), ("cease", 1.5)]
)
def test_scaling_the_data_scales_components_and_noise(solver, noise, alpha, scale):
    """lambda |W| must not change: lambda goes with 1 / s; a fixed sigma^2 goes with s^2."""
    X, source, _, _ = mixture(3)
    parameters = {"n_components": 3, "alpha": alpha, "solver": solver}
    model = fitted(X, source, noise=noise, lam=1.0, **parameters)
    scaled_noise = noise if isinstance(noise, str) else noise * scale**2
    scaled = fitted(X * scale, source, noise=scaled_noise, lam=1.0 / scale, **parameters)
    assert difference(scaled.components_, scale * model.components_) < 1e-7
    assert_allclose(scaled.noise_variance_, scale**2 * model.noise_variance_, rtol=1e-7)
    H = model.transform(X, source=source)
    assert_allclose(scaled.transform(X * scale, source=source), H, atol=1e-6)
    assert scaled.n_iter_ == model.n_iter_
    if alpha == 1.0:  # with evidence
        assert_allclose(scaled.effective_features_, model.effective_features_, rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("size", [1.0, 300.0, 1e5])
def test_shifting_the_data_shifts_the_components(alpha, size):
    """Memberships sum to one, so x + v = (W + v 1')h + noise. The L1 norm sees a shift: lambda = 0."""
    X, source, W, _ = mixture(4)
    v = np.random.default_rng(1).normal(size=X.shape[1]) * size
    model = fitted(X, source, n_components=3, alpha=alpha, init=W.T + 0.3)
    shifted = fitted(X + v, source, n_components=3, alpha=alpha, init=W.T + 0.3 + v)
    # ||X - W H||^2 is a difference of numbers of the size of ||X||^2: what is lost is some eps ||v||^2.
    lost = 100 * np.finfo(float).eps * size**2
    assert difference(shifted.components_ - v, model.components_) < 1e-7 + lost
    assert_allclose(shifted.noise_variance_, model.noise_variance_, rtol=1e-6 + 10 * lost)
    H = model.transform(X, source=source)
    assert_allclose(shifted.transform(X + v, source=source), H, atol=1e-6 + 10 * lost)
    if alpha == 1.0:  # with evidence
        assert_allclose(shifted.effective_features_, model.effective_features_, rtol=1e-6 + 10 * lost)


def test_all_solvers_end_a_fit_at_the_same_components():
    X, source, W, _ = mixture(6, n=200, r=4, sigmas=(0.1, 1.0, 3.0))
    for lam in (0.0, 3.0):
        for alpha in (1.0, 2.0):
            models = [
                fitted(
                    X, source, n_components=4, solver=solver, lam=lam, alpha=alpha, init=W.T + 0.5,
                    n_nodes=4, max_iter=5, tol=0.0,
                    solver_options=TIGHT,
                )
                for solver in SOLVERS
            ]  # fmt: skip
            for model in models[1:]:
                assert difference(model.components_, models[0].components_) < 1e-6
                assert_allclose(model.noise_variance_, models[0].noise_variance_, rtol=1e-6)
                assert all(record.w_converged for record in model.history_)
