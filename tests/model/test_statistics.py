from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.model.statistics import PerSource, Quadratic, squared_norms
from strategies import cuts, decompositions, statistics_of


def assert_statistics_close(left, right):
    scale = np.sqrt(right.sq_norm * max(right.n, 1)) + 1e-300
    assert_allclose(left.XHt, right.XHt, rtol=1e-12, atol=1e-13 * scale)
    assert_allclose(left.HHt, right.HHt, rtol=1e-12)
    assert_allclose(left.sq_norm, right.sq_norm, rtol=1e-12)
    assert_allclose(left.h_cost, right.h_cost, rtol=1e-12)
    assert left.n == right.n


@given(decompositions(), st.data())
def test_statistics_add_over_any_cut(decomposition, data):
    Xt, Ht, _ = decomposition
    edges = data.draw(cuts(len(Xt)))
    parts = [statistics_of(Xt[i:j], Ht[i:j], prior=0.5) for i, j in pairwise(edges)]
    assert_statistics_close(reduce(add, parts), statistics_of(Xt, Ht, prior=0.5))


@given(decompositions(), st.data())
def test_summaries_add_over_any_cut(decomposition, data):
    Xt, Ht, W = decomposition
    edges = data.draw(cuts(len(Xt)))
    total = reduce(add, [statistics_of(Xt[i:j], Ht[i:j], 0.5).summary(W) for i, j in pairwise(edges)])
    whole = statistics_of(Xt, Ht, 0.5)
    size = whole.sq_norm + ((Ht @ W.T) ** 2).sum()
    assert_allclose(total.squares, whole.summary(W).squares, rtol=1e-12, atol=1e-13 * size)
    assert_allclose(total.h_cost, whole.h_cost, rtol=1e-12)
    assert_allclose(total.sizes, Ht.sum(axis=0), rtol=1e-12)
    assert total.n == len(Xt)


@given(decompositions())
def test_adding_changes_neither_side(decomposition):
    Xt, Ht, _ = decomposition
    one, other = statistics_of(Xt, Ht), statistics_of(Xt, Ht)
    one + other
    assert_array_equal(one.XHt, other.XHt)
    assert_array_equal(one.HHt, other.HHt)


@given(decompositions())
def test_squares_are_those_of_the_residual(decomposition):
    Xt, Ht, W = decomposition
    direct = ((Xt - Ht @ W.T) ** 2).sum()
    size = (Xt**2).sum() + ((Ht @ W.T) ** 2).sum()
    assert_allclose(statistics_of(Xt, Ht).squares(W), direct, rtol=1e-12, atol=1e-13 * size)


@given(decompositions())
def test_squares_of_a_perfect_fit_are_never_negative(decomposition):
    _, Ht, W = decomposition
    Xt = Ht @ W.T
    squares = statistics_of(Xt, Ht).squares(W)
    assert 0.0 <= squares <= 1e-13 * (Xt**2).sum()


def counted(*numbers):
    return PerSource({number: np.array([number, 1.0]) for number in numbers})


def test_per_source_adds_where_both_have_a_source_and_keeps_the_rest():
    one, other = counted(0, 2), counted(2, 5)
    total = one + other
    assert sorted(total) == [0, 2, 5]
    assert_array_equal(total[0], [0.0, 1.0])
    assert_array_equal(total[2], [4.0, 2.0])
    assert_array_equal(total[5], [5.0, 1.0])
    assert isinstance(total, PerSource)


def test_adding_per_source_changes_neither_side():
    one, other = counted(0, 2), counted(2, 5)
    one + other
    assert sorted(one) == [0, 2]
    assert sorted(other) == [2, 5]
    assert_array_equal(one[2], other[2])


@given(st.lists(st.dictionaries(st.integers(0, 4), st.integers(-9, 9)), min_size=3, max_size=3))
def test_per_source_addition_is_associative_and_an_empty_one_is_neutral(dicts):
    a, b, c = (PerSource(d) for d in dicts)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + PerSource() == a == PerSource() + a


def test_map_applies_to_every_source():
    assert PerSource({1: 2, 4: 3}).map(lambda value: 10 * value) == {1: 20, 4: 30}


@given(decompositions(), st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_the_value_of_a_quadratic_is_the_weighted_misfit_up_to_a_constant(decomposition, noise, other):
    Xt, Ht, W = decomposition
    half = len(Xt) // 2
    stats = PerSource({3: statistics_of(Xt[:half], Ht[:half]), 1: statistics_of(Xt[half:], Ht[half:])})
    sigma2 = np.array([np.nan, noise, np.nan, other])
    f = Quadratic.of(stats, sigma2)

    def misfit(V):
        squares = ((Xt - Ht @ V.T) ** 2).sum(axis=1)
        return squares[:half].sum() / (2.0 * other) + squares[half:].sum() / (2.0 * noise)

    size = misfit(W) + misfit(0.0 * W)
    assert_allclose(f.value(W) - f.value(0.0 * W), misfit(W) - misfit(0.0 * W), rtol=1e-9, atol=1e-12 * size)


@given(decompositions())
def test_the_gradient_of_a_quadratic_is_its_finite_difference(decomposition):
    Xt, Ht, W = decomposition
    s = statistics_of(Xt, Ht)
    f = Quadratic(s.HHt, s.XHt)
    direction = np.cos(np.arange(W.size)).reshape(W.shape) * (1.0 + np.abs(W).max())
    # Central differences have no error of their own on a quadratic, whatever the step.
    slope = (f.value(W + direction) - f.value(W - direction)) / 2.0
    size = abs(f.value(W + direction)) + abs(f.value(W - direction))
    assert_allclose(np.vdot(f.gradient(W), direction), slope, rtol=1e-9, atol=1e-12 * size)


@given(decompositions(), st.data())
def test_quadratics_add_over_any_cut(decomposition, data):
    Xt, Ht, W = decomposition
    sigma2 = np.array([2.0])
    edges = data.draw(cuts(len(Xt)))
    parts = [Quadratic.of(PerSource({0: statistics_of(Xt[i:j], Ht[i:j])}), sigma2) for i, j in pairwise(edges)]
    whole = Quadratic.of(PerSource({0: statistics_of(Xt, Ht)}), sigma2)
    total = reduce(add, parts)
    size = np.abs(Xt).sum()
    assert_allclose(total.A, whole.A, rtol=1e-12)
    assert_allclose(total.B, whole.B, rtol=1e-12, atol=1e-13 * size)
    assert_allclose(total.gradient(W), whole.gradient(W), rtol=1e-9, atol=1e-12 * (size + np.abs(W).sum() * len(Xt)))


def test_forming_a_quadratic_leaves_the_statistics_alone(rng):
    s = statistics_of(rng.normal(size=(5, 3)), rng.dirichlet(np.ones(2), 5))
    XHt, HHt = s.XHt.copy(), s.HHt.copy()
    Quadratic.of(PerSource({0: s, 1: s}), np.array([2.0, 3.0]))
    assert_array_equal(s.XHt, XHt)
    assert_array_equal(s.HHt, HHt)


def test_the_quadratic_of_no_samples_is_neutral(rng):
    s = statistics_of(rng.normal(size=(5, 3)), rng.dirichlet(np.ones(2), 5))
    f = Quadratic(s.HHt, s.XHt)
    total = f + Quadratic.zero(3, 2)
    assert_array_equal(total.A, f.A)
    assert_array_equal(total.B, f.B)
    assert Quadratic.zero(3, 2).precision == 0.0


@pytest.mark.parametrize("sigma2", [0.1, 1.0, 7.0])
def test_the_precision_of_a_quadratic_is_the_number_of_samples_over_their_noise(sigma2, rng):
    s = statistics_of(rng.normal(size=(50, 3)), rng.dirichlet(np.ones(4), 50))
    assert_allclose(Quadratic.of(PerSource({0: s}), np.array([sigma2])).precision, 50 / sigma2, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("n", [0, 1, 20])
def test_squared_norms_are_those_of_the_rows(n, kind, rng):
    Xt = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.5)
    found = squared_norms(kind(Xt))
    assert found.shape == (n,)
    assert_allclose(found, (Xt**2).sum(axis=1), rtol=1e-12)


def test_squared_norms_of_sparse_rows_count_entries_in_several_parts_once_and_nothing_behind_the_last():
    parts = sparse.csr_array((np.array([1.0, 2.0, 3.0, 5.0]), np.array([0, 0, 1, 1]), np.array([0, 3, 3, 4])))
    assert_array_equal(squared_norms(parts), [18.0, 0.0, 25.0])
    longer = sparse.csr_array((3, 2))
    longer.data, longer.indices, longer.indptr = np.array([1.0, 2.0, 9.0]), np.array([0, 1, 1]), np.array([0, 0, 1, 2])
    assert_array_equal(squared_norms(longer), [0.0, 1.0, 4.0])
