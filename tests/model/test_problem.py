import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.problem import Problem, metric
from dbmd.model.statistics import PerSource, Quadratic
from strategies import generators, memberships, statistics_of, w_problem, w_problems


@given(generators(), st.integers(1, 8), st.integers(1, 30), st.sampled_from(["plain", "duplicate", "empty"]))
def test_the_metric_majorises_the_gram_matrix_of_any_memberships(rng, r, n, kind):
    Ht = memberships(rng, n, r, kind)
    A = Ht.T @ Ht
    d = metric(A)
    assert (d > 0.0).all()
    assert np.linalg.eigvalsh(np.diag(d) - A).min() >= -1e-12 * d.max()


@given(w_problems())
def test_the_metric_majorises_the_weighted_sum_over_the_nodes(given_problem):
    d = given_problem.problem.metric
    assert np.linalg.eigvalsh(np.diag(d) - given_problem.total.A).min() >= -1e-12 * d.max()


@given(w_problems())
def test_without_covariance_the_metric_is_made_of_the_sizes_of_the_clusters(given_problem):
    sizes = given_problem.total.A.sum(axis=1)
    assert_allclose(given_problem.problem.metric, sizes + 1e-3 * sizes.mean(), rtol=1e-10)
    assert_allclose(given_problem.problem.precision, sizes.sum(), rtol=1e-10)


@given(generators())
def test_the_metric_majorises_a_gram_matrix_with_negative_entries(rng):
    root = rng.normal(size=(4, 6))
    A = root @ root.T
    assert np.linalg.eigvalsh(np.diag(metric(A)) - A).min() >= -1e-12 * metric(A).max()


@given(w_problems())
def test_the_shares_of_the_nodes_sum_to_one(given_problem):
    shares = [given_problem.problem.share(node.quadratic) for node in given_problem.nodes]
    assert min(shares) >= 0.0
    assert_allclose(sum(shares), 1.0, rtol=1e-10)


def test_where_nodes_are_sources_of_one_size_S_is_the_sum_of_their_precisions(rng):
    sigma2 = np.array([0.5, 1.0, 4.0])
    assert_allclose(w_problem(rng, sizes=[40] * 3, sigma2=sigma2).problem.S, (1.0 / sigma2).sum(), rtol=1e-10)


def test_an_empty_component_has_a_positive_metric():
    d = metric(np.diag([10.0, 0.0, 2.0]))
    assert (d > 0.0).all()
    assert d[1] < d[2]


@given(w_problems(), st.sampled_from([1e-6, 3.0, 1e6]))
def test_the_change_of_W_is_relative(given_problem, factor):
    problem, W = given_problem.problem, given_problem.W0
    moved = W + np.cos(np.arange(W.size)).reshape(W.shape)
    assert problem.change(W, W) == 0.0
    assert problem.change(moved, W) > 0.0
    assert_allclose(problem.change(factor * moved, factor * W), problem.change(moved, W), rtol=1e-9)


def test_the_change_to_zero_is_finite(rng):
    given_problem = w_problem(rng)
    zero = np.zeros_like(given_problem.W0)
    assert given_problem.problem.change(zero, zero) == 0.0
    assert 0.0 < given_problem.problem.change(zero, given_problem.W0) < np.inf


def test_a_change_in_a_large_cluster_counts_for_more(rng):
    problem = Problem(lam=0.0, metric=np.array([100.0, 1.0]), precision=101.0, S=1.0)
    W = rng.normal(size=(4, 2))
    large, small = W.copy(), W.copy()
    large[:, 0] += 1e-3
    small[:, 1] += 1e-3
    assert problem.change(large, W) > 5.0 * problem.change(small, W)


@pytest.mark.parametrize("n_nodes", [1, 4])
def test_a_source_may_lie_on_several_nodes(n_nodes, rng):
    Ht, Xt = rng.dirichlet(np.ones(3), 40), rng.normal(size=(40, 5))
    sigma2 = np.array([2.0])
    W = rng.normal(size=(5, 3))
    whole = PerSource({0: statistics_of(Xt, Ht).summary(W)})
    parts = PerSource()
    for i in range(n_nodes):
        parts = parts + PerSource({0: statistics_of(Xt[i::n_nodes], Ht[i::n_nodes]).summary(W)})
    one, other = Problem.of(whole, sigma2, 0.5, n_nodes), Problem.of(parts, sigma2, 0.5, n_nodes)
    assert_allclose(other.metric, one.metric, rtol=1e-12)
    assert_allclose(other.S, one.S, rtol=1e-12)
    assert_array_equal(other.lam, one.lam)


@given(w_problems(), st.data())
def test_the_shares_sum_to_one_where_the_problem_has_some_of_the_columns(given_problem, data):
    r = given_problem.W0.shape[1]
    some = np.array(data.draw(st.lists(st.booleans(), min_size=r, max_size=r)))
    terms = [Quadratic(node.quadratic.A[np.ix_(some, some)], node.quadratic.B[:, some]) for node in given_problem.nodes]
    problem = Problem.of_gram(sum(f.A for f in terms), 10, 0.0, len(terms))
    shares = [problem.share(f) for f in terms]
    assert min(shares) >= 0.0
    assert_allclose(sum(shares), 1.0, rtol=1e-10)
    assert (problem.metric > 0.0).all()


def test_the_shares_sum_to_one_where_no_sample_has_a_membership_in_the_columns():
    problem = Problem.of_gram(np.zeros((2, 2)), 10, 0.0, 4)
    assert problem.share(Quadratic.zero(3, 2)) == 0.25
    assert (problem.metric > 0.0).all()
