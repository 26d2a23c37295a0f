"""What holds for samples with gaps in every kernel: of each only the observed entries count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd import DBMD
from dbmd.registry import names
from kernels.on_host import load_on_host
from strategies import generators

DTYPES = [np.float32, np.float64]
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-6}


@pytest.fixture(params=names("kernels"))
def kernel(request):
    return load_on_host(request.param)


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


def problem(rng, r, n=40, m=20, fraction=0.3, dtype=np.float64):
    """Return W, gaps, samples that are zero where they have gaps, and Bt."""
    W = rng.normal(size=(m, r))
    Xt = rng.dirichlet(np.full(r, 0.3), n) @ W.T + 0.3 * rng.normal(size=(n, m))
    gaps = rng.random((n, m)) < fraction
    Xt[gaps] = 0.0
    return W, gaps, Xt, (Xt @ W).astype(dtype)


def solved(kernel, W, gaps, Bt, a=0.0, *start):
    return kernel.solve_h_with_gaps(W.T @ W, W, gaps, Bt, np.full(W.shape[1], a), *start)


def residuals(W, gaps, Bt, a, Ht):
    """Return for each sample the violation of the optimality conditions: h (g + nu) = a and g + nu >= 0."""
    Ht = Ht.astype(np.float64)
    G = np.array([W[~missing].T @ (W[~missing] @ h) for h, missing in zip(Ht, gaps, strict=True)]) - Bt
    Z = G + (W.shape[1] * a - (Ht * G).sum(axis=1, keepdims=True))
    scale = max(1.0, float(np.square(W).sum(axis=0).max()))
    return np.maximum(np.abs(Ht * Z - a), -Z).max(axis=1, initial=0.0) / scale


@given(generators(), st.sampled_from([1, 2, 4, 9, 14]), st.sampled_from([0.05, 0.5, 0.9]), st.sampled_from([0.0, 0.1]))
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_solves_to_tolerance_inside_the_simplex(name, dtype, rng, r, fraction, a):
    W, gaps, _, Bt = problem(rng, r, fraction=fraction, dtype=dtype)
    cold = solved(load_on_host(name), W, gaps, Bt, a)
    warm = solved(load_on_host(name), W, gaps, Bt, a, np.roll(cold, 1, axis=0))
    for Ht in (cold, warm):
        assert Ht.dtype == dtype
        assert (Ht > 0.0).all()
        assert_allclose(Ht.sum(axis=1, dtype=np.float64), 1.0, atol=(2 + r) * np.finfo(dtype).eps)
        assert residuals(W, gaps, Bt, a, Ht).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("a", [0.0, 0.1])
def test_the_objective_is_that_of_an_independent_solver(kernel, a, rng):
    cp = pytest.importorskip("cvxpy", reason="NOT TESTED: the independent solver, cvxpy, is not installed")
    W, gaps, Xt, Bt = problem(rng, 4, n=3, fraction=0.4)
    Ht = solved(kernel, W, gaps, Bt, a)
    for x, missing, found in zip(Xt, gaps, Ht, strict=True):
        h = cp.Variable(4, nonneg=True)
        value = 0.5 * cp.sum_squares(x[~missing] - W[~missing] @ h) - (a * cp.sum(cp.log(h)) if a else 0.0)
        least = cp.Problem(cp.Minimize(value), [cp.sum(h) == 1.0]).solve(solver=cp.CLARABEL)
        own = 0.5 * np.sum((x - W @ found)[~missing] ** 2) - a * np.log(found).sum()
        assert_allclose(own, least, atol=1e-6)


@pytest.mark.parametrize("a", [0.0, 0.1])
@pytest.mark.parametrize("r", [1, 3, 14])
def test_a_sample_without_gaps_is_solved_as_the_others_are(kernel, dtype, r, a, rng):
    W, gaps, _, Bt = problem(rng, r, fraction=0.0, dtype=dtype)
    expected = kernel.solve_h(W.T @ W, Bt, np.full(r, a))
    assert_allclose(solved(kernel, W, gaps, Bt, a), expected, atol=100 * TOLERANCE[dtype])


def test_what_is_observed_of_a_noiseless_mixture_is_enough(kernel, rng):
    W, gaps, _, _ = problem(rng, 4, fraction=0.5)
    Ht = rng.dirichlet(np.ones(4), len(gaps))
    Bt = np.where(gaps, 0.0, Ht @ W.T) @ W
    assert_allclose(solved(kernel, W, gaps, Bt), Ht, atol=1e-4)


def test_memberships_that_the_observed_features_leave_open_do_not_depend_on_the_start(kernel, rng):
    W, gaps, _, Bt = problem(rng, 5, fraction=0.95)
    gaps[0] = True  # nothing at all is observed
    Bt[0] = 0.0
    cold = solved(kernel, W, gaps, Bt)
    few = (~gaps).sum(axis=1) < 4
    assert few.sum() > 10
    assert_array_equal(solved(kernel, W, gaps, Bt, 0.0, np.roll(cold, 1, axis=0))[few], cold[few])
    assert_allclose(cold[0], 0.2, atol=1e-6)


def test_a_feature_that_is_much_larger_than_the_others_may_be_missing(kernel, rng):
    """What is left of Q is lost to rounding, if it is computed as a difference."""
    W, gaps, Xt, _ = problem(rng, 3, fraction=0.2)
    W[0] *= 1e7
    gaps[:, 0] = True
    Bt = np.where(gaps, 0.0, Xt) @ W
    alone = kernel.solve_h_with_gaps(W[1:].T @ W[1:], W[1:], gaps[:, 1:], Bt, np.zeros(3))
    assert_allclose(solved(kernel, W, gaps, Bt), alone, atol=1e-6)


def test_neither_inputs_nor_their_order_in_memory_matter_and_the_start_may_be_overwritten(kernel, dtype, rng):
    W, gaps, _, Bt = problem(rng, 4, dtype=dtype)
    start = rng.dirichlet(np.ones(4), len(Bt)).astype(dtype)
    inputs = W.copy(), gaps.copy(), Bt.copy(), start.copy()
    expected = solved(kernel, W, gaps, Bt, 0.0, start)
    for array, copy in zip((W, gaps, Bt, start), inputs, strict=True):
        assert_array_equal(array, copy)
    turned = solved(kernel, *map(np.asfortranarray, (W, gaps, Bt)), 0.0, np.asfortranarray(start))
    assert_allclose(turned, expected, atol=TOLERANCE[dtype])
    assert solved(kernel, W, gaps, Bt, 0.0, start, start) is start
    assert_array_equal(start, expected)


# -- the covariance --------------------------------------------------------------------------------------------------


def total(kernel, W, noise, Ht, gaps, weights=None):
    covariance = kernel.GapCovariance(W.T @ W, W, noise)
    covariance.add(Ht, gaps, weights)
    return covariance.total()


@given(generators(), st.sampled_from([1, 2, 5, 14]), st.sampled_from([0.1, 0.6, 0.95]), st.sampled_from([1e-2, 1e4]))
@pytest.mark.parametrize("name", names("kernels"))
def test_the_covariance_is_that_of_the_observed_features_alone(name, rng, r, fraction, noise):
    kernel = load_on_host(name)
    W, gaps, _, Bt = problem(rng, r, n=8, fraction=fraction)
    Ht, weights = solved(kernel, W, gaps, Bt), rng.uniform(0.5, 2.0, 8)
    expected_S, expected_log_det, expected_WS = np.zeros((r, r)), 0.0, np.zeros_like(W)
    for h, missing, weight in zip(Ht, gaps, weights, strict=True):
        seen = W[~missing]
        alone = kernel.FaceCovariance(seen.T @ seen, noise)
        alone.add(h[None], np.array([weight]))
        S, log_det = alone.total()
        expected_S += S
        expected_log_det += log_det
        expected_WS[missing] += W[missing] @ S
    S, log_det, WS = total(kernel, W, noise, Ht, gaps, weights)
    assert_allclose(S, expected_S, atol=1e-9)
    assert_allclose(log_det, expected_log_det, rtol=1e-9, atol=1e-9)
    assert_allclose(WS, expected_WS, atol=1e-9)


def test_the_covariance_adds_and_counts_weights(kernel, dtype, rng):
    W, gaps, _, Bt = problem(rng, 4, dtype=dtype)
    Ht = solved(kernel, W, gaps, Bt)
    weights = rng.integers(0, 3, len(Ht)).astype(float)
    repeated = np.repeat(np.arange(len(Ht)), weights.astype(int))
    in_parts = kernel.GapCovariance(W.T @ W, W, 0.3)
    in_parts.add(Ht[:7], gaps[:7], weights[:7])
    in_parts.add(Ht[7:], gaps[7:], weights[7:])
    for one, other, third in zip(
        total(kernel, W, 0.3, Ht, gaps, weights),
        total(kernel, W, 0.3, Ht[repeated], gaps[repeated]),
        in_parts.total(),
        strict=True,
    ):
        assert_allclose(one, other, atol=1e-9)
        assert_allclose(one, third, atol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("fraction", [0.0, 0.2, 1.0])
def test_numbers_are_put_into_gaps_and_nowhere_else(kernel, dtype, order, fraction, rng):
    W, mask, Xt, _ = problem(rng, 3, fraction=fraction)
    Xt, Ht = np.array(Xt, dtype, order=order), rng.dirichlet(np.ones(3), len(Xt)).astype(dtype)
    centre = rng.normal(size=len(W))
    gaps = kernel.locate(np.array(mask, order=order))
    assert_array_equal(gaps.mask(len(W)), mask)
    assert_array_equal(gaps.counts, mask.sum(axis=1))
    filled = Xt.copy(order="K")
    kernel.put(filled, gaps, centre)
    assert_array_equal(filled, np.where(mask, centre.astype(dtype), Xt))
    kernel.put_products(filled, gaps, Ht, W, centre)
    assert_array_equal(filled[~mask], Xt[~mask])
    assert_allclose(filled, np.where(mask, Ht @ W.T + centre, Xt), rtol=1e-5, atol=1e-5)


def test_data_by_columns_with_gaps_give_what_data_by_rows_give(rng):
    W, mask, Xt, _ = problem(rng, 3, n=300)
    Xt = np.where(mask, np.nan, Xt)
    parameters = {"n_components": 3, "missing": "allow", "init": W.T, "random_state": 0}
    by_rows, by_columns = (DBMD(**parameters).fit(np.array(Xt, order=order)) for order in "CF")
    assert_allclose(by_columns.components_, by_rows.components_, rtol=1e-9, atol=1e-9)
