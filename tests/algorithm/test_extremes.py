"""Convergence and its warnings, numbers of any magnitude, and degenerate data."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.errors import DataError

from .fits import RISE_AT_THE_FLOOR, SOLVERS, assert_never_rises, fitted, mixture, objectives


def test_a_fit_that_runs_out_of_iterations_warns():
    X, source, _, _ = mixture(0)
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 iterations.*Raise max_iter or tol"):
        model = DBMD(3, max_iter=2, random_state=0).fit(X, source=source)
    assert model.n_iter_ == len(model.history_) == 2


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_that_converges_does_not_warn(solver):
    X, source, _, _ = mixture(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DBMD(3, max_iter=500, random_state=0, solver=solver).fit(X, source=source)
    assert 1 <= model.n_iter_ < 500
    assert [record.iteration for record in model.history_] == list(range(1, model.n_iter_ + 1))


@pytest.mark.slow
@pytest.mark.slow
def test_a_smaller_tolerance_takes_longer_and_ends_lower():
    X, source, _, _ = mixture(0)
    coarse = fitted(X, source, n_components=3, inference="map", tol=1e-2)
    fine = fitted(X, source, n_components=3, inference="map", tol=1e-8, max_iter=5000)
    assert fine.n_iter_ > coarse.n_iter_
    assert fine.objective_ < coarse.objective_


@pytest.mark.parametrize("solver", SOLVERS[1:])
def test_a_solver_that_runs_out_of_rounds_warns(solver):
    X, source, _, _ = mixture(0)
    model = DBMD(3, solver=solver, solver_options={"max_rounds": 1}, random_state=0, n_nodes=3, max_iter=300)
    with pytest.warns(ConvergenceWarning, match=rf"solver '{solver}' did not converge in 1 rounds"):
        model.fit(X, source=source)
    assert {record.rounds for record in model.history_} == {1}


RANGE = {np.float32: (-48, 48), np.float64: (-480, 480)}  # powers of two


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize("inference", ["evidence", "map"])
def test_numbers_of_any_magnitude_that_is_accepted_give_the_same_model(inference, dtype, form):
    X = mixture(0, n=80)[0].astype(dtype)
    once = fitted(form(X), n_components=3, inference=inference)
    for power in RANGE[dtype]:
        scaled = fitted(form(np.ldexp(X, power)), n_components=3, inference=inference)
        assert_allclose(np.ldexp(scaled.components_, -power), once.components_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize(("way", "what"), [(0, "small"), (1, "large")])
def test_numbers_too_small_or_too_large_for_their_type_are_refused(way, what, dtype, init):
    X = np.ldexp(mixture(0, n=40)[0].astype(dtype), RANGE[dtype][way] * 4 // 3)
    with pytest.raises(DataError, match=f"too {what} for {np.dtype(dtype).name}.*Got .*e.*Multiply all by a constant"):
        fitted(X, n_components=3, init=init)


@pytest.mark.parametrize("engine", ["local", "gpu"])
def test_samples_too_large_for_the_model_are_refused(engine, rng):
    X = rng.normal(size=(50, 4)).astype(np.float32)
    model = fitted(100.0 * X, n_components=2, engine=engine)
    for use in (model.transform, model.partial_fit, model.score):
        with pytest.raises(DataError, match="too large for float32"):
            use(np.ldexp(X, 125))


def assert_sound(model, X, source=None):
    H = model.transform(X, source=source)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.noise_variance_).all()
    assert (model.noise_variance_ > 0).all()
    assert np.isfinite(model.objective_)
    assert np.isfinite(objectives(model)).all()
    assert (H >= 0).all()
    rounding = 10 * np.finfo(X.dtype).eps
    assert_allclose(H.sum(axis=1), 1.0, atol=rounding)
    assert_allclose(model.cluster_sizes_.sum(), len(X), rtol=100 * rounding)


RNG = np.random.default_rng(0)
DEGENERATE = {
    "constant": np.full((20, 4), 3.0),
    "zero": np.zeros((20, 4)),
    "one value": np.full((1, 1), 5.0),
    "a constant feature": np.column_stack([RNG.normal(size=(20, 3)), np.full(20, 7.0)]),
    "a zero feature": np.column_stack([RNG.normal(size=(20, 3)), np.zeros(20)]),
    "two distinct samples": np.repeat(RNG.normal(size=(2, 4)), 10, axis=0),
    "collinear": np.outer(RNG.normal(size=20), RNG.normal(size=4)),
    "tiny": 1e-100 * RNG.normal(size=(20, 4)),
    "huge": 1e100 * RNG.normal(size=(20, 4)),
    "tiny float32": (1e-10 * RNG.normal(size=(20, 4))).astype(np.float32),
    "huge float32": (1e10 * RNG.normal(size=(20, 4))).astype(np.float32),
    "far from the origin": 1e8 + RNG.normal(size=(20, 4)),
    "one wild sample": np.vstack([RNG.normal(size=(19, 4)), np.full((1, 4), 1e6)]),
}


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("lam", [0.0, 0.5])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_gives_finite_results(name, alpha, lam):
    X = DEGENERATE[name]
    for init in ("k-means++", "k-means||", "random"):
        for r in {1, min(3, len(X)), len(X)}:
            model = fitted(X, n_components=r, alpha=alpha, lam=lam, init=init, max_iter=20)
            assert_sound(model, X)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_a_component_without_samples_stays_finite(solver, lam):
    X, source, W, _ = mixture(0)
    init = np.vstack([W.T, np.full(W.shape[0], 1e3)])  # the last is far from every sample
    assert_sound(fitted(X, source, n_components=4, init=init, solver=solver, lam=lam, max_iter=6), X, source)
    model = fitted(X, source, n_components=4, init=init, inference="map", solver=solver, lam=lam, max_iter=6)
    assert_sound(model, X, source)
    assert_never_rises(model, X)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lam", [0.0, 0.5])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_duplicate_rows_in_the_start_stay_finite(solver, lam, alpha):
    X, source, W, _ = mixture(0)
    init = W.T[[0, 0, 1, 1, 1]]
    model = fitted(X, source, n_components=5, init=init, solver=solver, lam=lam, alpha=alpha, max_iter=6, n_nodes=3)
    assert_sound(model, X, source)
    assert_never_rises(model, X)


def test_one_component_is_the_weighted_mean():
    """With r = 1 every h is 1: W is the mean, each sample weighted by the precision of its source."""
    X, source, _, _ = mixture(0)
    model = fitted(X, source, n_components=1, tol=1e-14, max_iter=1000)
    weight = (1.0 / model.noise_variance_)[source]
    assert_allclose(model.components_[0], weight @ X / weight.sum(), rtol=1e-6)
    assert_sound(model, X, source)


@pytest.mark.parametrize("solver", SOLVERS)
def test_as_many_components_as_samples(solver):
    X, source, _, _ = mixture(0, n=9)
    model = fitted(X, source, n_components=9, solver=solver, max_iter=20)
    assert_sound(model, X, source)
    assert_never_rises(model, X, RISE_AT_THE_FLOOR)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_sample_for_each_source(solver):
    X, _, _, _ = mixture(0, n=12)
    source = np.arange(12)
    model = fitted(X, source, n_components=3, solver=solver, max_iter=20, n_nodes=5)
    assert model.noise_variance_.shape == (12,)
    assert_sound(model, X, source)
    assert_never_rises(model, X, RISE_AT_THE_FLOOR)


def test_large_lambda_makes_components_sparse_and_then_zero():
    X, source, _, _ = mixture(0)
    zeros = [
        (fitted(X, source, n_components=3, lam=lam, noise=1.0).components_ == 0.0).mean() for lam in (0.0, 10.0, 1e6)
    ]
    assert zeros[0] == 0.0
    assert 0.0 < zeros[1] < 1.0
    assert zeros[2] == 1.0
