"""The objective never rises with ``inference="map"``, whatever the data, the solver and the start."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from profiles import examples

from .fits import RISE_AT_THE_FLOOR, SOLVERS, assert_never_rises, fitted, mixture


@pytest.mark.parametrize("solver", SOLVERS)
@examples(usual=8, thorough=25)
@given(data=st.data())
def test_the_objective_never_rises(solver, data):
    r = data.draw(st.integers(1, 5), "r")
    dtype = data.draw(st.sampled_from([np.float64, np.float32]), "dtype")
    X, source, _, _ = mixture(
        seed=data.draw(st.integers(0, 10_000), "seed"),
        n=data.draw(st.integers(6 * r, 60), "n"),
        m=data.draw(st.integers(r, 8), "m"),
        r=data.draw(st.integers(1, 5), "true r"),
        concentration=data.draw(st.sampled_from([0.1, 1.0, 5.0]), "concentration"),
        dtype=dtype,
    )
    model = fitted(
        X,
        data.draw(st.sampled_from([None, source]), "source"),
        n_components=r,
        inference="map",
        solver=solver,
        noise=data.draw(st.sampled_from(["source", "shared", 1.0, 0.01]), "noise"),
        lam=data.draw(st.sampled_from([0.0, 0.3, 30.0]), "lam"),
        alpha=data.draw(st.sampled_from([1.0, 1.1, 2.0, np.linspace(1.0, 3.0, r)]), "alpha"),
        init=data.draw(st.sampled_from(["k-means++", "k-means||", "random"]), "init"),
        n_nodes=data.draw(st.integers(1, 4), "n_nodes"),
        tol=0.0,
        max_iter=8,
    )
    # Nearer to a perfect fit rounding counts for more: see below.
    least = 1e-7 if dtype is np.float64 else 1e-3
    assume(model.noise_variance_.min() > least * (model.components_**2).sum(axis=1).max())
    assert_never_rises(model, X)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("lam", [0.0, 2.0])
@pytest.mark.parametrize(
    ("solver", "options"),
    [(solver, {"max_rounds": rounds}) for solver in SOLVERS[1:] for rounds in (1, 2, 3)]
    + [("admm", {"rho": rho, "max_rounds": rounds}) for rho in (1e-8, 1e-3, 1e3, 1e8) for rounds in (2, 40)]
    + [("cease", {"gamma": gamma, "max_rounds": rounds}) for gamma in (0.0, 1e-8, 1e6) for rounds in (2, 40)],
    ids=str,
)
def test_the_objective_never_rises_when_a_solver_stops_early(solver, options, lam):
    for seed in range(2):
        X, source, _, _ = mixture(seed, n=60, r=4)
        model = fitted(
            X, source, n_components=4, solver=solver, solver_options=options, lam=lam, alpha=1.5,
            n_nodes=3, tol=0.0, max_iter=10,
        )  # fmt: skip
        assert_never_rises(model, X)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", ["source", "shared"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_the_objective_never_rises_where_the_fit_is_perfect(dtype, noise, alpha):
    """Data without noise: sigma falls to its floor, and what is left of the residual is rounding."""
    for seed in range(6):
        X, source, _, _ = mixture(seed, n=60, sigmas=(0.0, 0.0), dtype=dtype)
        model = fitted(X, source, n_components=4, inference="map", noise=noise, alpha=alpha, tol=0.0, max_iter=60)
        assert_never_rises(model, X, RISE_AT_THE_FLOOR)
        assert (model.noise_variance_ > 0).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["a source of equal samples", "no noise", "nearly equal samples"])
def test_the_last_sweep_is_not_above_the_last_iteration_where_noise_is_next_to_nothing(kind, seed):
    rng = np.random.default_rng(seed)
    X, source = rng.normal(size=(60, 6)), np.repeat([0, 1, 2], 20)
    if kind == "a source of equal samples":
        X[source == 0] = X[0]
    elif kind == "no noise":
        X = rng.dirichlet(np.full(6, 0.3), 60) @ X[:6]
    else:
        X = 100.0 * X[0] + 1e-3 * np.eye(60, 6)
    model = fitted(X, source, n_components=6, alpha=20.0, inference="map", random_state=seed)
    last = model.history_[-1].objective
    assert model.objective_ <= last + 1e-5 * max(abs(last), X.size)
