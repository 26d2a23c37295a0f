"""k-means of dense samples: that of scikit-learn, from the same draws, and of the plain twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans, kmeans_plusplus

from dbmd.registry import load_clustering
from strategies import generators

NAMES = ["cpu", "reference"]


def some_samples(rng, n=400, m=7, r=5):
    """Return samples in clusters that touch, about zero, and their weights."""
    Xt = 2.0 * rng.normal(size=(r, m))[rng.integers(0, r, n)] + rng.normal(size=(n, m))
    return Xt - Xt.mean(axis=0), rng.uniform(0.5, 3.0, n)


def drawn(r, seed):
    """Return the numbers that scikit-learn draws for r centres with a seed."""
    random, draws = np.random.RandomState(seed), np.zeros((r, 2 + int(np.log(r))))
    draws[0, 0] = random.random_sample()
    draws[1:] = random.random_sample(draws[1:].shape)
    return draws


@pytest.mark.parametrize("name", NAMES)
@given(rng=generators(), r=st.integers(1, 9), m=st.integers(1, 9), seed=st.integers(0, 99))
def test_with_the_same_draws_centres_are_those_of_scikit_learn(name, rng, r, m, seed):
    Xt, weights = some_samples(rng, 150, m)
    expected = kmeans_plusplus(Xt, r, sample_weight=weights, random_state=np.random.RandomState(seed))[0]
    assert_allclose(load_clustering(name).k_means_plus_plus(Xt, weights, drawn(r, seed)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [127, 128, 400])
@pytest.mark.parametrize("tol", [1e-4, 1e-2])
def test_from_the_same_centres_k_means_ends_where_scikit_learn_does(name, n, tol, rng):
    Xt, weights = some_samples(rng, n)
    init = Xt[:5].copy()
    expected = KMeans(5, init=init, n_init=1, tol=tol).fit(Xt, sample_weight=weights)
    centres, cost = load_clustering(name).k_means(Xt, weights, init, tol * Xt.var(axis=0).mean(), 300)
    assert_allclose(centres, expected.cluster_centers_, rtol=1e-9, atol=1e-9)
    assert cost == pytest.approx(expected.inertia_, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_where_it_starts_is_left_as_it_is_and_more_iterations_cost_no_more(name, rng):
    Xt, weights = some_samples(rng)
    init = Xt[:5].copy()
    costs = [load_clustering(name).k_means(Xt, weights, init, 0.0, count)[1] for count in range(1, 12)]
    assert_array_equal(init, Xt[:5])
    assert (np.diff(costs) <= 1e-9 * costs[0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_clusters_that_are_empty_get_the_samples_that_are_farthest_away(name, rng):
    Xt, weights = some_samples(rng)
    Xt[0] = 100.0
    init = np.vstack([Xt[1:4], np.full((1, 7), 1e6)])
    centres, cost = load_clustering(name).k_means(Xt, weights, init, 0.0, 300)
    assert_allclose(centres[3], Xt[0], rtol=1e-12)
    assert cost < weights @ np.square(Xt[:, None] - init).sum(axis=2).min(axis=1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("distinct", [1, 3])
def test_with_fewer_distinct_samples_than_clusters_all_are_centres(name, distinct, rng):
    values, kernel = rng.normal(size=(distinct, 4)), load_clustering(name)
    Xt, weights = values[np.arange(60) % distinct], np.ones(60)
    centres, cost = kernel.k_means(Xt, weights, kernel.k_means_plus_plus(Xt, weights, drawn(5, 0)), 0.0, 300)
    assert cost == pytest.approx(0.0, abs=1e-20)
    assert_allclose(np.square(centres[:, None] - values).sum(axis=2).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 127, 400])
def test_sums_are_those_of_the_samples_nearest_to_each_centre(name, n, rng):
    Xt, weights = some_samples(rng, n)
    centres = np.vstack([rng.normal(size=(3, 7)), np.full(7, 1e3)])
    sums, sizes = load_clustering(name).sums_of_nearest(Xt, weights, centres)
    near = np.array([np.linalg.norm(x - centres, axis=1).argmin() for x in Xt])
    for k in range(len(centres)):
        assert_allclose(sums[k], weights[near == k] @ Xt[near == k], rtol=1e-12, atol=1e-12)
        assert sizes[k] == pytest.approx(weights[near == k].sum())


@pytest.mark.parametrize("name", NAMES)
def test_an_attempt_is_k_means_from_what_is_drawn(name, rng):
    kernel, (Xt, weights), draw_by, draws = load_clustering(name), some_samples(rng), rng.random(400), drawn(5, 3)
    expected, cost = kernel.k_means(Xt, weights, kernel.k_means_plus_plus(Xt, draw_by, draws), 1e-3, 300)
    centres, own_cost = kernel.k_means_attempt(Xt, weights, draw_by, draws, 1e-3, 300)
    assert_array_equal(centres, expected)
    assert own_cost == cost
