import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from dbmd.model.lasso import minimise
from dbmd.model.penalty import Penalty, soft
from dbmd.model.problem import metric
from dbmd.model.statistics import Quadratic
from profiles import examples
from strategies import generators, memberships

SINGULAR = {
    "two components always equal": {"kind": "duplicate"},
    "a component that no sample uses": {"kind": "empty"},
    "fewer samples than components": {"n": 3},
    "one sample": {"n": 1},
}


def quadratic(rng, *, n=60, m=5, r=4, kind="plain", scale=1.0):
    """Return the smooth part of (P) for samples around a random W."""
    Ht = memberships(rng, n, r, kind)
    Xt = scale * (Ht @ rng.normal(size=(r, m)) + 0.3 * rng.normal(size=(n, m)))
    return Quadratic(Ht.T @ Ht, Xt.T @ Ht)


def violation(f, lam, W, nonnegative=False):
    """Return the largest violation of 0 in gradient + lam sign(W) + multipliers of the signs, relative to B."""
    G = f.gradient(W)
    at_zero = np.where(nonnegative, np.maximum(-G - lam, 0.0), np.maximum(np.abs(G) - lam, 0.0))
    wrong = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), at_zero)
    assert (W >= 0.0)[:, np.broadcast_to(nonnegative, W.shape[1])].all()
    return wrong.max() / np.abs(f.B).max()


def relative(f, lam):
    """Return lam as a part of the least one that makes W = 0 the solution."""
    return lam * float(np.abs(f.B).max())


def objective(f, lam, W):
    return f.value(W) + lam * np.abs(W).sum()


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("r", [1, 2, 5, 30])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_optimality_conditions_hold(r, lam, scale, rng):
    f = quadratic(rng, n=10 * r, r=r, scale=scale)
    for W0 in (np.zeros_like(f.B), scale * rng.normal(size=f.B.shape)):
        assert violation(f, relative(f, lam), minimise(f, relative(f, lam), W0)) <= 1e-10


@given(generators(), st.integers(1, 6), st.integers(1, 5), st.sampled_from([1e-4, 0.03, 0.3, 0.9]))
def test_the_optimality_conditions_hold_on_random_problems(rng, r, m, lam):
    f = quadratic(rng, n=5 * r, m=m, r=r)
    assert violation(f, relative(f, lam), minimise(f, relative(f, lam), rng.normal(size=(m, r)))) <= 1e-10


@pytest.mark.parametrize("lam", [1e-3, 0.1, 0.5])
@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("seed", range(4))
def test_the_optimality_conditions_hold_where_A_is_singular(seed, case, lam):
    rng = np.random.default_rng(seed)
    f = quadratic(rng, r=6, **SINGULAR[case])
    W = minimise(f, relative(f, lam), rng.normal(size=f.B.shape))
    assert violation(f, relative(f, lam), W) <= 1e-9
    assert np.abs(W).max() <= 1e3


@pytest.mark.parametrize("lam", [0.1, 0.5])
@pytest.mark.parametrize("case", ["plain", *SINGULAR])
def test_the_objective_is_that_of_an_independent_solver(case, lam, rng):
    f = quadratic(rng, m=3, **SINGULAR.get(case, {}))
    lam = relative(f, lam)
    W = cp.Variable(f.B.shape)
    values, vectors = np.linalg.eigh(f.A)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    smooth = 0.5 * cp.sum_squares(W @ root) - cp.sum(cp.multiply(f.B, W))
    least = cp.Problem(cp.Minimize(smooth + lam * cp.sum(cp.abs(W)))).solve(solver=cp.CLARABEL)
    found = objective(f, lam, minimise(f, lam, rng.normal(size=f.B.shape)))
    assert_allclose(found, least, rtol=1e-6, atol=1e-6 * np.abs(f.B).max())


def test_without_penalty_it_is_least_squares(rng):
    f = quadratic(rng)
    expected = np.linalg.lstsq(f.A, f.B.T, rcond=None)[0].T
    assert_allclose(minimise(f, 0.0, rng.normal(size=f.B.shape)), expected, rtol=1e-9)


@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("seed", range(4))
def test_without_penalty_a_singular_problem_gives_the_minimiser_nearest_to_the_start(seed, case):
    rng = np.random.default_rng(seed)
    f = quadratic(rng, r=6, **SINGULAR[case])
    W0 = rng.normal(size=f.B.shape)
    W = minimise(f, 0.0, W0)
    assert np.abs(f.gradient(W)).max() <= 1e-10 * np.abs(f.B).max()
    # Nearest in the metric d: the way from W0 is orthogonal, in that metric, to every direction that changes nothing.
    values, vectors = np.linalg.eigh(f.A)
    null = vectors[:, values <= 1e-12 * values[-1]]
    assert null.shape[1] > 0
    d = metric(f.A)
    assert np.abs(((W - W0) * d) @ null).max() <= 1e-9 * np.abs(W0 * d).max()


def test_without_penalty_an_empty_component_keeps_its_column(rng):
    f = quadratic(rng, kind="empty")
    W0 = rng.normal(size=f.B.shape)
    assert_allclose(minimise(f, 0.0, W0)[:, -1], W0[:, -1], rtol=1e-12)


@pytest.mark.parametrize("lam", [1e-9, 0.1])
def test_with_penalty_an_empty_component_becomes_zero(lam, rng):
    f = quadratic(rng, kind="empty")
    assert_array_equal(minimise(f, relative(f, lam), rng.normal(size=f.B.shape))[:, -1], 0.0)


@pytest.mark.parametrize("lam", [1.0, 1.001, 1e9])
def test_a_large_penalty_gives_zeros(lam, rng):
    f = quadratic(rng)
    assert_array_equal(minimise(f, relative(f, lam), rng.normal(size=f.B.shape)), 0.0)


def test_a_little_less_than_that_does_not(rng):
    f = quadratic(rng)
    assert np.count_nonzero(minimise(f, relative(f, 0.999), rng.normal(size=f.B.shape))) == 1


@pytest.mark.parametrize("lam", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("case", ["plain", *SINGULAR])
def test_the_start_and_the_quadratic_are_not_modified(case, lam, rng):
    f = quadratic(rng, **SINGULAR.get(case, {}))
    W0 = rng.normal(size=f.B.shape)
    copies = W0.copy(), f.A.copy(), f.B.copy()
    W = minimise(f, relative(f, lam), W0)
    assert not np.shares_memory(W, W0)
    for array, copy in zip((W0, f.A, f.B), copies, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_the_start_is_irrelevant_where_the_minimiser_is_unique(lam, rng):
    f = quadratic(rng)
    one, other = (minimise(f, relative(f, lam), s * rng.normal(size=f.B.shape)) for s in (1.0, 100.0))
    assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_rows_are_solved_independently(lam, rng):
    f = quadratic(rng, m=6)
    lam, W0 = relative(f, lam), rng.normal(size=f.B.shape)
    W = minimise(f, lam, W0)
    for i in range(6):
        alone = minimise(Quadratic(f.A, f.B[i : i + 1]), lam, W0[i : i + 1])
        assert_allclose(W[i : i + 1], alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_scaling_objective_and_penalty_together_changes_nothing(factor, lam, rng):
    f = quadratic(rng)
    lam, W0 = relative(f, lam), rng.normal(size=f.B.shape)
    scaled = minimise(Quadratic(factor * f.A, factor * f.B), factor * lam, W0)
    assert_allclose(scaled, minimise(f, lam, W0), rtol=1e-9, atol=1e-11)


def mixtures(r):
    """Strategy: weights, relative, and signs of r columns: all kinds side by side."""
    weights = st.lists(st.sampled_from([0.0, 0.0, 1e-4, 0.03, 0.5]), min_size=r, max_size=r).map(np.array)
    return st.tuples(weights, st.lists(st.booleans(), min_size=r, max_size=r).map(np.array))


@given(generators(), st.integers(1, 6), st.integers(1, 5), st.data())
@examples(40, 200)
def test_the_optimality_conditions_hold_for_columns_of_all_kinds(rng, r, m, data):
    lam, nonnegative = data.draw(mixtures(r))
    f = quadratic(rng, n=5 * r, m=m, r=r)
    lam = relative(f, lam)
    W = minimise(f, lam, rng.normal(size=(m, r)), nonnegative)
    assert violation(f, lam, W, nonnegative) <= 1e-10


@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("lam", [0.0, 0.1])
@given(rng=generators(), data=st.data())
def test_the_optimality_conditions_hold_for_columns_of_all_kinds_where_A_is_singular(case, lam, rng, data):
    _, nonnegative = data.draw(mixtures(6))
    f = quadratic(rng, r=6, **SINGULAR[case])
    lam = relative(f, lam * (rng.random(6) < 0.5))
    W = minimise(f, lam, rng.normal(size=f.B.shape), nonnegative)
    assert violation(f, lam, W, nonnegative) <= 1e-9
    assert np.abs(W).max() <= 1e6  # of many minimisers, none that is far out


@pytest.mark.parametrize("kind", ["plain", "duplicate"])
def test_the_objective_is_that_of_an_independent_solver_for_columns_of_all_kinds(kind, rng):
    f = quadratic(rng, m=3, r=6, kind=kind)
    lam, nonnegative = relative(f, np.array([0.0, 0.1, 0.0, 0.1, 0.3, 0.0])), np.arange(6) < 3
    W = cp.Variable(f.B.shape)
    values, vectors = np.linalg.eigh(f.A)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    smooth = 0.5 * cp.sum_squares(W @ root) - cp.sum(cp.multiply(f.B, W))
    penalty = cp.sum(cp.abs(W) @ lam)
    least = cp.Problem(cp.Minimize(smooth + penalty), [W[:, :3] >= 0.0]).solve(solver=cp.CLARABEL)
    found = minimise(f, lam, rng.normal(size=f.B.shape), nonnegative)
    assert_allclose(f.value(found) + Penalty(lam).value(found), least, rtol=1e-6, atol=1e-6 * np.abs(f.B).max())


@given(generators(), st.integers(1, 8))
def test_nonnegative_without_penalty_is_nonnegative_least_squares(rng, r):
    Ht = memberships(rng, 10 * r, r)
    Xt = Ht @ rng.normal(size=(r, 4)) + 0.3 * rng.normal(size=(10 * r, 4))
    W = minimise(Quadratic(Ht.T @ Ht, Xt.T @ Ht), 0.0, rng.normal(size=(4, r)), np.ones(r, bool))
    assert_allclose(W, [nnls(Ht, x)[0] for x in Xt.T], rtol=1e-8, atol=1e-10)


@given(generators(), st.sampled_from([0.0, 0.01, 0.3]))
def test_signs_that_hold_anyway_change_nothing(rng, lam):
    f = quadratic(rng)
    lam = relative(f, lam)
    W = minimise(f, lam, rng.normal(size=f.B.shape))
    assert_allclose(minimise(f, lam, W, (W >= 0.0).all(axis=0)), W, rtol=1e-10, atol=1e-12)
    assert_array_equal(minimise(f, lam, W, np.zeros(4, bool)), minimise(f, lam, W))


@given(generators(), st.sampled_from([0.0, 0.01, 0.3]))
def test_a_weight_for_each_column_is_one_weight_if_they_are_equal(rng, lam):
    f, W0 = quadratic(rng), rng.normal(size=(5, 4))
    lam = relative(f, lam)
    assert_array_equal(minimise(f, np.full(4, lam), W0), minimise(f, lam, W0))
    signs = rng.random(4) < 0.5
    assert_array_equal(minimise(f, np.full(4, lam), W0, signs), minimise(f, lam, W0, signs))


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_an_empty_component_is_clipped_or_with_penalty_becomes_zero(weight, rng):
    f = quadratic(rng, kind="empty")
    W0, lam = rng.normal(size=f.B.shape), relative(f, np.array([0.1, 0.0, 0.0, weight]))
    for nonnegative in (None, np.arange(4) == 1, np.arange(4) == 3):
        expected = W0[:, -1] if nonnegative is None or not nonnegative[-1] else np.maximum(W0[:, -1], 0.0)
        column = minimise(f, lam, W0, nonnegative)[:, -1]
        assert_array_equal(column, expected if weight == 0.0 else 0.0)


def test_a_feature_that_is_always_zero_has_zeros(rng):
    f = quadratic(rng)
    f.B[2] = 0.0
    assert_array_equal(minimise(f, 0.0, rng.normal(size=f.B.shape), np.ones(4, bool))[2], 0.0)


@given(generators())
def test_no_other_W_is_nearer_than_the_proximal_one_and_as_small(rng):
    V, d, lam = rng.normal(size=(5, 4)), rng.uniform(0.5, 2.0, 4), rng.random(4) * (rng.random(4) < 0.5)
    penalty = Penalty(lam, rng.random(4) < 0.5)
    W = penalty.proximal(V, d)
    assert_array_equal(penalty.feasible(W), W)
    assert_allclose(penalty.violation((W - V) * d, W), 0.0, atol=1e-12)
    for _ in range(20):
        other = penalty.feasible(W + 0.1 * rng.normal(size=W.shape))
        costs = [0.5 * ((X - V) ** 2 * d).sum() + penalty.value(X) for X in (W, other)]
        assert costs[0] <= costs[1] + 1e-12


def test_soft_is_the_proximal_map_of_the_absolute_value(rng):
    V = rng.normal(size=(5, 4))
    t = rng.random(4)
    S = soft(V, t)
    subgradient = (V - S) / t
    assert_allclose(subgradient[S != 0.0], np.sign(S[S != 0.0]), rtol=1e-12)
    assert (np.abs(subgradient) <= 1.0 + 1e-12).all()
    assert np.count_nonzero(S == 0.0) > 0
