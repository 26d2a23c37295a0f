"""What holds for every kernel, in float32 and float64."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd._utils.arrays import to_host
from dbmd.model.statistics import SampleSums
from dbmd.registry import load_kernel, names
from kernels.on_host import load_on_host
from strategies import BASES, cuts, generators, h_problem, h_problems

DTYPES = [np.float32, np.float64]
KKT = {np.float32: 1e-4, np.float64: 1e-6}
PRIORS = [0.0, 0.01, 1.0, "vector"]


@pytest.fixture(params=names("kernels"))
def kernel(request):
    return load_on_host(request.param)


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


def samples(r):
    return 129 if r <= 7 else 12


def assert_on_the_simplex(Ht, dtype):
    assert Ht.dtype == dtype
    assert (Ht > 0.0).all()
    assert_allclose(Ht.sum(axis=1, dtype=np.float64), 1.0, atol=(2 + Ht.shape[1]) * np.finfo(dtype).eps, rtol=0.0)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("r", [1, 2, 7, *(pytest.param(r, marks=pytest.mark.slow) for r in (50, 100))])
def test_solves_to_tolerance_inside_the_simplex(kernel, dtype, r, basis, prior, rng):
    problem = h_problem(rng, r, samples(r), basis=basis, prior=prior, dtype=dtype)
    Ht = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    assert Ht.shape == problem.Bt.shape
    assert_on_the_simplex(Ht, dtype)
    assert problem.residual(Ht).max() <= KKT[dtype]


@pytest.mark.parametrize("r", [2, 7, 50])
def test_a_prior_much_stronger_than_the_data_is_solved_to_tolerance(kernel, dtype, r, rng):
    problem = h_problem(rng, r, samples(r), prior=30.0, dtype=dtype)
    Ht = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    assert_on_the_simplex(Ht, dtype)
    assert (problem.residual(Ht) * problem.scale).max() <= KKT[dtype] * problem.a.max()


@pytest.mark.parametrize("prior", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("r", [2, 7])
def test_a_prior_much_weaker_than_the_data_still_decides_what_they_do_not(kernel, r, prior, rng):
    # At noise levels next to nothing the weights of the logarithms are tiny, and so is all that they may be off by.
    problem = h_problem(rng, r, 50, prior=prior)
    Ht = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    pull = (Ht @ problem.Q - problem.Bt) * Ht - problem.a  # is -nu h at the minimum
    nu = -pull.sum(axis=1, keepdims=True)
    assert (np.abs(pull + nu * Ht) <= 1e-2 * problem.a).all()


@given(data=st.data())
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_solves_random_problems_to_tolerance(name, dtype, data):
    problem = data.draw(h_problems(dtype))
    Ht = load_on_host(name).solve_h(problem.Q, problem.Bt, problem.a)
    assert_on_the_simplex(Ht, dtype)
    assert problem.residual(Ht).max() <= KKT[dtype]


STARTS = {
    "its own solution": lambda solution, rng: solution,
    "the solution of another sample": lambda solution, rng: np.roll(solution, 1, axis=0),
    "a corner": lambda solution, rng: np.eye(solution.shape[1], dtype=solution.dtype)[
        rng.integers(0, solution.shape[1], len(solution))
    ],
    "the centre": lambda solution, rng: np.full_like(solution, 1.0 / solution.shape[1]),
    "a random point": lambda solution, rng: rng.dirichlet(np.ones(solution.shape[1]), len(solution)).astype(
        solution.dtype
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("r", [2, 3, 7, 30])
def test_solves_to_tolerance_from_any_start(kernel, dtype, r, basis, prior, rng):
    # Many samples: a start that one in a thousand does not get away from must not pass.
    n = {2: 1500, 3: 1500, 7: 400, 30: 12}[r]
    problem = h_problem(rng, r, n, basis=basis, prior=prior, dtype=dtype)
    cold = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    assert problem.residual(cold).max() <= KKT[dtype]
    for start in STARTS.values():
        warm = kernel.solve_h(problem.Q, problem.Bt, problem.a, start(cold, rng))
        assert_on_the_simplex(warm, dtype)
        assert problem.residual(warm).max() <= KKT[dtype]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("r", [1, 2, 7, 50])
def test_a_warm_start_gives_what_a_cold_start_gives(kernel, dtype, r, start, rng):
    # With the prior as a barrier the problem is well conditioned, so the points themselves can be compared.
    problem = h_problem(rng, r, samples(r), prior=0.05, dtype=dtype)
    cold = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    warm = kernel.solve_h(problem.Q, problem.Bt, problem.a, STARTS[start](cold, rng))
    assert_allclose(warm, cold, atol=10 * KKT[dtype], rtol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [0.0, 0.05, "vector"])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("r", [1, 2, 7, 20])
def test_is_as_good_as_the_reference(kernel, dtype, r, basis, prior, rng):
    problem = h_problem(rng, r, 20, basis=basis, prior=prior, dtype=dtype)
    reference = load_kernel("reference")
    expected = reference.solve_h(problem.Q, problem.Bt.astype(np.float64), problem.a)
    Ht = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    worse = problem.objective(Ht) - problem.objective(expected)
    assert (np.abs(worse) <= 10 * KKT[dtype] * problem.scale).all()
    if prior == 0.05:
        assert_allclose(Ht, expected, atol=10 * KKT[dtype], rtol=0.0)


@pytest.mark.parametrize("prior", [0.0, 0.05, "vector"])
@pytest.mark.parametrize("basis", ["plain", "zero column", "duplicate columns", "collinear"])
def test_the_objective_is_that_of_an_independent_solver(kernel, basis, prior, rng):
    cp = pytest.importorskip("cvxpy", reason="NOT TESTED: the independent solver, cvxpy, is not installed")
    problem = h_problem(rng, 4, 3, basis=basis, prior=prior)
    values, vectors = np.linalg.eigh(problem.Q)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    H = cp.Variable(problem.Bt.shape, nonneg=True)
    objective = 0.5 * cp.sum_squares(H @ root) - cp.sum(cp.multiply(problem.Bt, H))
    if problem.a.any():
        objective -= cp.sum(cp.log(H[:, problem.a > 0.0]) @ problem.a[problem.a > 0.0])
    least = cp.Problem(cp.Minimize(objective), [cp.sum(H, axis=1) == 1.0]).solve(solver=cp.CLARABEL)
    Ht = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    assert_allclose(problem.objective(Ht).sum(), least, atol=1e-6 * problem.scale.sum(), rtol=0.0)


def test_the_minimum_of_the_prior_alone_is_its_mode(kernel, dtype):
    a = np.array([1.0, 2.0, 5.0])
    Ht = kernel.solve_h(np.zeros((3, 3)), np.zeros((4, 3), dtype), a)
    assert_allclose(Ht, np.tile(a / a.sum(), (4, 1)), atol=KKT[dtype])


def test_a_noiseless_mixture_is_found_again(kernel, dtype, rng):
    W = rng.normal(size=(30, 5))
    expected = rng.dirichlet(np.ones(5), 40)
    Ht = kernel.solve_h(W.T @ W, ((expected @ W.T) @ W).astype(dtype), np.zeros(5))
    assert_allclose(Ht, expected, atol=100 * KKT[dtype])


@pytest.mark.parametrize("prior", [0.0, 0.1])
@pytest.mark.parametrize("warm", [False, True])
def test_the_inputs_are_not_modified(kernel, dtype, prior, warm, rng):
    problem = h_problem(rng, 4, 20, prior=prior, dtype=dtype)
    Ht0 = rng.dirichlet(np.ones(4), 20).astype(dtype)
    inputs = (problem.Q, problem.Bt, problem.a, *([Ht0] if warm else []))
    copies = [array.copy() for array in inputs]
    kernel.solve_h(*inputs)
    for array, copy in zip(inputs, copies, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize("warm", [False, True])
def test_the_order_in_memory_of_the_inputs_is_irrelevant(kernel, dtype, warm, rng):
    problem = h_problem(rng, 4, 20, prior=0.1, dtype=dtype)
    Ht0 = rng.dirichlet(np.ones(4), 20).astype(dtype)
    start = Ht0 if warm else None
    turned = np.asfortranarray(Ht0) if warm else None
    expected = kernel.solve_h(problem.Q, problem.Bt, problem.a, start)
    found = kernel.solve_h(np.asfortranarray(problem.Q), np.asfortranarray(problem.Bt), problem.a, turned)
    assert_allclose(found, expected, atol=KKT[dtype], rtol=0.0)


@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_the_result_can_be_written_over_the_start(kernel, dtype, prior, rng):
    problem = h_problem(rng, 4, 200, prior=prior, dtype=dtype)
    Ht0 = rng.dirichlet(np.ones(4), 200).astype(dtype)
    expected = kernel.solve_h(problem.Q, problem.Bt, problem.a, Ht0)
    out = Ht0.copy()
    assert kernel.solve_h(problem.Q, problem.Bt, problem.a, out, out) is out
    assert_array_equal(out, expected)


@pytest.mark.parametrize("r", [1, 3])
def test_no_samples_give_no_memberships(kernel, dtype, r):
    Bt = np.empty((0, r), dtype)
    for start in (None, Bt.copy()):
        Ht = kernel.solve_h(np.eye(r), Bt, np.zeros(r), start)
        assert Ht.shape == (0, r)
        assert Ht.dtype == dtype
    assert_array_equal(kernel.sum_log(Bt), np.zeros(r))


@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_scaling_the_data_leaves_the_memberships(kernel, dtype, factor, prior, rng):
    problem = h_problem(rng, 5, 30, prior=prior, dtype=dtype)
    expected = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    scaled = kernel.solve_h(factor * problem.Q, (factor * problem.Bt).astype(dtype), factor * problem.a)
    assert_allclose(scaled, expected, atol=10 * KKT[dtype], rtol=0.0)


def test_permuting_the_components_permutes_the_memberships(kernel, dtype, rng):
    problem = h_problem(rng, 6, 30, prior="vector", dtype=dtype)
    order = rng.permutation(6)
    expected = kernel.solve_h(problem.Q, problem.Bt, problem.a)[:, order]
    Ht = kernel.solve_h(problem.Q[np.ix_(order, order)], np.ascontiguousarray(problem.Bt[:, order]), problem.a[order])
    assert_allclose(Ht, expected, atol=10 * KKT[dtype], rtol=0.0)


def test_the_result_does_not_depend_on_what_else_is_in_the_batch(kernel, dtype, rng):
    problem = h_problem(rng, 5, 150, basis="outliers", prior=0.05, dtype=dtype)
    whole = kernel.solve_h(problem.Q, problem.Bt, problem.a)
    for rows in (np.arange(1), np.arange(0, 150, 7), rng.permutation(150)):
        part = kernel.solve_h(problem.Q, np.ascontiguousarray(problem.Bt[rows]), problem.a)
        assert_allclose(part, whole[rows], atol=KKT[dtype], rtol=0.0)


@given(data=st.data())
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_sum_log_is_the_sum_of_the_logarithms(name, dtype, data):
    rng = data.draw(generators())
    n, r = data.draw(st.integers(0, 70)), data.draw(st.integers(1, 5))
    Ht = rng.dirichlet(np.full(r, 0.5), n).astype(dtype)
    Ht = np.maximum(Ht, data.draw(st.sampled_from([1e-12, 1e-3])), dtype=dtype)
    found = load_on_host(name).sum_log(Ht)
    assert found.dtype == np.float64
    assert_allclose(found, np.log(Ht.astype(np.float64)).sum(axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 1000])
def test_sum_log_of_tiny_memberships_does_not_underflow(kernel, dtype, n):
    Ht = np.full((n, 2), 1e-12, dtype)
    assert_allclose(kernel.sum_log(Ht), n * np.log(Ht[0].astype(np.float64)), rtol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_sum_log_takes_whatever_the_h_step_finds(kernel, dtype, size, rng):
    problem = h_problem(rng, 4, 1, dtype=dtype)
    Ht = kernel.solve_h(problem.Q, np.tile(dtype(size) * problem.Bt, (64, 1)), np.zeros(4))
    assert_on_the_simplex(Ht, dtype)
    assert_allclose(kernel.sum_log(Ht), np.log(Ht.astype(np.float64)).sum(axis=0), rtol=1e-9)


LAYOUTS = {"by rows": np.ascontiguousarray, "by columns": np.asfortranarray, "CSR": sparse.csr_array}


def some_samples(data, dtype, n):
    """Return samples with zeros, memberships, and weights or None, of a random size."""
    rng = data.draw(generators())
    m, r = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5))
    Xt = data.draw(st.sampled_from([1e-3, 1.0, 1e4])) * (
        rng.normal(size=(n, m)) + data.draw(st.sampled_from([0.0, 3.0]))
    )
    Xt[rng.random((n, m)) < 0.4] = 0.0
    Ht = rng.dirichlet(np.full(r, 0.5), n).astype(dtype)
    weights = None if data.draw(st.booleans()) else rng.integers(0, 4, n) * rng.uniform(0.5, 2.0, n)
    return Xt.astype(dtype), Ht, weights


def sums_of(kernel, layout, Xt, Ht, weights, edges, norms=True):
    """Return the sums over samples that come in pieces."""
    sums = kernel.Sums(Xt.shape[1], Ht.shape[1], Xt.dtype)
    for i, j in pairwise(edges):
        own = None if weights is None else kernel.asarray(weights[i:j])
        sums.add(kernel.asarray(LAYOUTS[layout](Xt[i:j])), kernel.asarray(Ht[i:j]), own, norms=norms)
    return sums.total()


def assert_sums_close(found, expected, Xt, Ht, weights, rtol):
    """Check sums, whose rounding is relative to the sum of the sizes of what they add."""
    count = np.ones(len(Xt)) if weights is None else weights
    X, H = np.abs(Xt.astype(np.float64)), Ht.astype(np.float64)
    sizes = (X.T @ (H * count[:, None]), 1.0 * found.n, 1.0 * found.n, found.n, count @ X, count @ X**2)
    for name, size in zip(found._fields, sizes, strict=True):
        assert (np.abs(getattr(found, name) - getattr(expected, name)) <= rtol * size).all(), name


@given(data=st.data())
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_sums_are_those_of_a_plain_computation_in_float64_however_samples_are_cut(name, dtype, layout, data):
    kernel, n = load_on_host(name), data.draw(st.integers(0, 400))
    Xt, Ht, weights = some_samples(data, dtype, n)
    X, H = Xt.astype(np.float64), Ht.astype(np.float64)
    count = np.ones(n) if weights is None else weights
    counted = H * count[:, None]
    expected = SampleSums(X.T @ counted, H.T @ counted, counted.sum(axis=0), count.sum(), count @ X, count @ X**2)
    found = sums_of(kernel, layout, Xt, Ht, weights, data.draw(cuts(n)))
    for each, other in zip(found, expected, strict=True):
        assert type(each) is float or (type(each) is np.ndarray and each.dtype == np.float64)
        assert np.shape(each) == np.shape(other)
    assert_sums_close(found, expected, Xt, Ht, weights, 1e-6 if dtype is np.float32 else 1e-14)
    assert found.n == pytest.approx(count.sum(), rel=1e-14)
    assert_allclose(found.HHt, expected.HHt, rtol=1e-12, atol=1e-13 * n)


@given(data=st.data())
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_norms_that_are_not_asked_for_are_zero_and_change_no_other_sum(name, dtype, layout, data):
    kernel, n = load_on_host(name), data.draw(st.integers(0, 300))
    Xt, Ht, weights = some_samples(data, dtype, n)
    edges = data.draw(cuts(n))
    without, with_norms = (sums_of(kernel, layout, Xt, Ht, weights, edges, norms) for norms in (False, True))
    assert not without.totals.any()
    assert not without.squares.any()
    for field in ("XHt", "HHt", "sizes", "n"):
        assert_array_equal(getattr(without, field), getattr(with_norms, field))


@pytest.mark.parametrize("layout", ["by rows", "by columns"])
def test_long_sums_of_float32_lose_no_digits(kernel, layout, rng):
    # About zero a sum of 200,000 numbers of one sign would be off by 1e-4 in float32.
    n = 200_000
    Xt = (1.0 + 0.1 * rng.random((n, 3))).astype(np.float32)
    Ht = rng.dirichlet(np.ones(2), n).astype(np.float32)
    found = sums_of(kernel, layout, Xt, Ht, None, [0, n // 3, n])
    assert_allclose(found.XHt, Xt.astype(np.float64).T @ Ht.astype(np.float64), rtol=1e-6)
    assert_allclose(found.totals, Xt.sum(axis=0, dtype=np.float64), rtol=1e-6)
    assert_allclose(found.sizes, Ht.sum(axis=0, dtype=np.float64), rtol=1e-12)


@given(data=st.data())
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", names("kernels"))
def test_products_are_those_of_a_plain_computation(name, dtype, layout, data):
    kernel, n = load_on_host(name), data.draw(st.integers(0, 60))
    Xt, _, _ = some_samples(data, dtype, n)
    rng, r = data.draw(generators()), data.draw(st.integers(1, 5))
    W, offset = (rng.normal(size=shape).astype(dtype) for shape in ((Xt.shape[1], r), r))
    held = kernel.asarray(LAYOUTS[layout](Xt))
    for given_offset in (None, offset):
        found = kernel.products(held, kernel.asarray(W), None if given_offset is None else kernel.asarray(given_offset))
        found = to_host(found)
        assert found.dtype == dtype
        expected = Xt.astype(np.float64) @ W - (0.0 if given_offset is None else given_offset)
        size = np.abs(Xt).astype(np.float64) @ np.abs(W) + np.abs(offset)
        assert (np.abs(found - expected) <= 8 * np.finfo(dtype).eps * size).all()


def test_arrays_of_the_kernels_kind_keep_shape_type_and_entries(kernel, dtype, rng):
    array = rng.normal(size=(3, 2)).astype(dtype)
    assert_array_equal(to_host(kernel.asarray(array)), array)
    assert kernel.asarray(array, np.float32).dtype == np.float32
    assert_array_equal(to_host(kernel.asarray(kernel.asarray(array))), array)
    new = kernel.empty((4, 5), dtype)
    assert new.shape == (4, 5)
    assert new.dtype == dtype
