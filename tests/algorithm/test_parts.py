"""Known components, brightness, offsets and signs: laws that hold for each of them, and for all together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize

from dbmd import DBMD
from dbmd.dataset import in_memory
from profiles import examples

from .fits import SOLVERS, TIGHT, assert_never_rises, difference, fitted, mixture
from .test_resume import assert_same_fit, resumed, states_of

SIGMAS = (0.2, 0.6)


def batches(seed=0, n=240, brightness=1.0, offset=1.0, **shape):
    """Return nonnegative mixtures of two sources with offsets and a brightness, the sources, W and the offsets."""
    X, source, W, Ht = mixture(seed, n=n, sigmas=SIGMAS, **shape)
    rng = np.random.default_rng(seed + 1)
    noise, W = X - Ht @ W.T, np.abs(W)
    D = offset * rng.normal(size=(2, len(W)))
    light = rng.uniform(brightness, 1.0, len(X)) if brightness < 1.0 else np.ones(len(X))
    return light[:, None] * (Ht @ W.T) + D[source] + noise, source, W, D


PARTS = {
    "known": lambda W: {"known": W.T[:1]},
    "brightness": lambda W: {"brightness": True},
    "offsets": lambda W: {"offsets": True},
    "signs": lambda W: {"nonnegative": True},
    "all": lambda W: {"known": W.T[:1], "brightness": True, "offsets": True, "nonnegative": True},
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("part", PARTS)
@examples(usual=2, thorough=5)
@given(data=st.data())
def test_the_objective_never_rises(part, solver, data):
    X, source, W, _ = batches(data.draw(st.integers(0, 1000), "seed"), n=60, brightness=0.3)
    model = fitted(
        X, source, n_components=3, inference="map", solver=solver,
        lam=data.draw(st.sampled_from([0.0, 0.3, 30.0]), "lam"),
        alpha=data.draw(st.sampled_from([1.0, 1.5]), "alpha"),
        n_nodes=data.draw(st.integers(1, 3), "n_nodes"), tol=0.0, max_iter=6,
        solver_options={"max_rounds": 100}, **PARTS[part](W),
    )  # fmt: skip
    assert_never_rises(model, X)


@pytest.mark.parametrize("inference", ["evidence", "map"])
@pytest.mark.parametrize("part", PARTS)
def test_all_solvers_and_any_number_of_nodes_agree(part, inference):
    X, source, W, _ = batches()
    common = {"n_components": 3, "inference": inference, "lam": 1.0, "init": np.abs(X[:3]), "max_iter": 2, "tol": 0.0}
    common |= PARTS[part](W)
    expected = fitted(X, source, **common)
    for solver, n_nodes in (("exact", 3), ("agd", 2), ("admm", 3), ("cease", 2)):
        options = None if solver == "exact" else TIGHT
        found = fitted(X, source, **common, solver=solver, n_nodes=n_nodes, solver_options=options)
        assert difference(found.components_, expected.components_) < 1e-6
        assert_allclose(found.objective_, expected.objective_, rtol=1e-8)
        if "offsets" in common:
            assert difference(found.offsets_, expected.offsets_) < 1e-5


@pytest.mark.parametrize("part", PARTS)
def test_sparse_and_dense_samples_give_the_same(part):
    X, source, W, _ = batches()
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    common = {"n_components": 3, "max_iter": 3, "tol": 0.0, "init": np.abs(X[:3])} | PARTS[part](W)
    dense, csr = fitted(X, source, **common), fitted(sparse.csr_array(X), source, **common)
    assert difference(csr.components_, dense.components_) < 1e-7
    assert_allclose(csr.transform(sparse.csr_array(X), source=source), dense.transform(X, source=source), atol=1e-6)


@pytest.mark.parametrize("part", PARTS)
def test_a_resumed_fit_is_the_same_as_an_uninterrupted_one(part):
    X, source, W, _ = batches(n=100)
    data = in_memory(X, np.array(["a", "b"]), source)
    parameters = {"n_components": 3, "max_iter": 12, "tol": 0.0} | PARTS[part](W)
    model, states = states_of(data, **parameters)
    other = resumed(data, states[9], **parameters)
    assert_same_fit(other, model)
    if "offsets" in parameters:
        assert_array_equal(other.offsets_, model.offsets_)
        assert other.offset_variance_ == model.offset_variance_


# -- known components ----------------------------------------------------------------------------------------------


def test_known_components_stay_as_they_are_and_come_first():
    X, source, W, _ = batches(offset=0.0)
    model = fitted(X, source, n_components=3, known=W.T[[2, 0]])
    assert_array_equal(model.components_[:2], W.T[[2, 0]])
    assert difference(model.components_[2], W.T[1]) < 0.2


def test_with_all_components_known_memberships_are_least_squares_on_the_simplex():
    X, source, W, _ = batches(offset=0.0, n=30)
    model = fitted(X, source, n_components=3, known=W.T)
    simplex = {"type": "eq", "fun": lambda h: h.sum() - 1.0}
    for x, h in zip(X, model.transform(X, source=source), strict=True):
        found = minimize(
            lambda h, x=x: 0.5 * np.square(x - W @ h).sum(), np.full(3, 1 / 3), jac=lambda h, x=x: W.T @ (W @ h - x),
            method="SLSQP", bounds=[(0, 1)] * 3, constraints=simplex, options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        assert_allclose(h, found.x, atol=1e-5)


def test_known_components_need_no_iterations():
    X, source, W, _ = batches(offset=0.0, n=4000)
    without, with_some = (fitted(X, source, n_components=3, known=W.T, max_iter=n) for n in (0, 200))
    assert without.n_iter_ == 0
    assert without.fit_info_["converged"]
    assert_array_equal(without.components_, W.T)
    assert_allclose(without.noise_variance_, with_some.noise_variance_, rtol=0.03)
    assert_allclose(np.sqrt(with_some.noise_variance_), SIGMAS, rtol=0.06)
    assert_array_equal(without.labels_, with_some.labels_)


# -- brightness ----------------------------------------------------------------------------------------------------


def test_brightness_grows_and_shrinks_with_the_data():
    X, source, _, _ = batches(brightness=0.3, offset=0.0)
    common = {"n_components": 3, "brightness": True, "max_iter": 5, "tol": 0.0}
    one, other = fitted(X, source, **common), fitted(8.0 * X, source, **common)
    assert difference(other.components_, 8.0 * one.components_) < 1e-7
    assert_array_equal(one.labels_, other.labels_)


def test_shares_by_energy_do_not_depend_on_how_components_are_scaled():
    X, source, W, _ = batches(brightness=0.3, offset=0.0)
    factors = np.array([1.0, 0.5, 2.0])  # memberships of larger components are smaller by as much
    found = []
    for known in (W.T, W.T * factors[:, None]):
        model = fitted(X / 4.0, source, n_components=3, known=known, brightness=True, shares="energy", max_iter=0)
        found.append(model.transform(X / 4.0, source=source))  # dim samples: none is at the edge
    assert_allclose(found[0], found[1], atol=1e-5)
    assert_allclose(found[0].sum(axis=1), 1.0)


def test_a_sample_of_zeros_may_be_anything():
    X, source, W, _ = batches(brightness=0.3, offset=0.0)
    model = fitted(X, source, n_components=3, known=W.T, brightness=True)
    assert_allclose(model.transform(np.zeros((2, len(W))), source=source[:2]).sum(axis=1), 1.0)


# -- offsets -------------------------------------------------------------------------------------------------------


def test_what_all_sources_share_is_part_of_the_components():
    X, source, _, _ = batches(m=8)
    vector = 5.0 * np.random.default_rng(2).normal(size=8)
    common = {"n_components": 3, "offsets": True, "max_iter": 5, "tol": 0.0}
    one, other = fitted(X, source, **common), fitted(X + vector, source, **common)
    assert difference(other.components_ - vector, one.components_) < 1e-6
    assert_allclose(other.offsets_, one.offsets_, atol=1e-6)


def test_offsets_are_found_and_shrink_where_there_are_none():
    X, source, _W, D = batches(n=4000, m=20, offset=1.0)
    model = fitted(X, source, n_components=3, offsets=True)
    assert_allclose(model.offsets_[1] - model.offsets_[0], D[1] - D[0], atol=0.2)
    assert_allclose(np.sqrt(model.noise_variance_), SIGMAS, rtol=0.05)
    X, source, _, _ = batches(n=4000, m=20, offset=0.0)
    assert np.abs(fitted(X, source, n_components=3, offsets=True).offsets_).max() < 0.05


def test_the_offset_of_a_new_source_is_found():
    X, source, _, _D = batches(n=4000, m=20)
    model = fitted(X, source, n_components=3, offsets=True)
    new = source == 1
    known = model.transform(X[new], source=source[new])
    moved = model.transform(X[new] + 2.0, source=np.full(new.sum(), 7))
    assert np.sqrt(np.square(known - moved).mean()) < 0.02


def test_offsets_need_several_sources():
    with pytest.raises(ValueError, match=r"^The 'offsets' parameter of DBMD must be False for data of one source"):
        DBMD(2, offsets=True).fit(np.eye(4))


# -- signs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 5.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_component_has_a_negative_entry(solver, lam):
    X, source, _, _ = mixture()
    model = fitted(X, source, n_components=3, nonnegative=True, solver=solver, lam=lam)
    assert (model.components_ >= 0.0).all()
    assert (model.components_ == 0.0).any()


def test_signs_that_are_right_anyway_change_nothing():
    X, source, _W, _ = batches(offset=0.0, n=1000)
    X = X + 20.0
    one, other = (fitted(X, source, n_components=3, nonnegative=signs, tol=1e-6) for signs in (False, True))
    assert difference(other.components_, one.components_) < 1e-4
