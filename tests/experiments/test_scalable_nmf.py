"""Near-separable NMF: it finds planted features, whatever the nodes, the units and the engine."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.data import partition
from dbmd.data.block import Block
from dbmd.engines.local import Engine
from dbmd.errors import DataError
from dbmd.experiments.scalable_nmf import labels, memberships, separable_nmf, triangle
from dbmd.model.node import Node
from dbmd.registry import load
from strategies import cuts, generators

either = pytest.mark.parametrize("select", ["xray", "spa"])


def planted(rng, n=60, m=9, r=3):
    """Return X, shape (n, m), of features that are combinations of r of them; and which these are, sorted."""
    K = np.sort(rng.choice(m, r, replace=False))
    C = rng.dirichlet(np.ones(r), m).T
    C[:, K] = np.eye(r)
    return rng.exponential(size=(n, r)) @ C * rng.uniform(0.1, 10.0, m), K


def here(X, edges=None):
    """Return the ``ask`` of a local engine with a node for each piece of X."""
    edges = [0, X.shape[0]] if edges is None else edges
    return Engine([Node("a", Block(X[i:j], first_row=i)) for i, j in pairwise(edges)], 1).ask


@st.composite
def separable(draw):
    """Strategy: separable data with the planted features; r of at least 2, as all columns of rank 1 are extreme."""
    r = draw(st.integers(2, 5))
    m = draw(st.integers(r, 12))
    return planted(draw(generators()), n=draw(st.integers(2 * m, 80)), m=m, r=r)


@either
@given(separable())
def test_planted_features_are_found_and_explain_all_others(select, data):
    X, K = data
    model = separable_nmf(here(X), len(K), select=select)
    assert_array_equal(np.sort(model.features), K)
    assert (model.weights >= 0.0).all()
    assert_allclose(X[:, model.features] @ model.weights, X, atol=1e-8 * X.max())
    assert model.residual < 1e-8


@given(separable())
def test_on_separable_data_refined_memberships_are_the_values_of_the_picked_features(data):
    X, K = data
    model = separable_nmf(here(X), len(K))
    own = memberships(X, model)
    assert_allclose(own, (X / X.mean(axis=0))[:, model.features])
    assert_allclose(memberships(X, model, refine=True), own, atol=1e-7 * own.max())


@given(st.data(), generators())
def test_the_triangle_has_the_gram_matrix_of_ones_and_samples_however_they_are_cut(data, rng):
    n, m = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 6))
    X = rng.normal(size=(n, m)) * np.logspace(-3, 3, m)
    found = here(X, data.draw(cuts(n)))(triangle)
    A = np.column_stack([np.ones(n), X])
    size = np.linalg.norm(A, axis=0)
    assert_allclose(found.R.T @ found.R / np.outer(size, size), A.T @ A / np.outer(size, size), atol=1e-13)
    assert_array_equal(found.R, np.triu(found.R))
    assert_array_equal(found.low, X.min(axis=0))


@either
@given(st.data(), generators())
def test_nodes_change_nothing(select, data, rng):
    X, _ = planted(rng)
    X = np.hstack([X + 0.01 * rng.random(X.shape), X[:, ::-1]])  # duplicates, too: the first is taken
    one = separable_nmf(here(X), 4, select=select)
    cut = here(X, data.draw(cuts(len(X))))
    model = separable_nmf(cut, 4, select=select)
    assert_array_equal(model.features, one.features)
    assert_allclose(model.weights, one.weights, atol=1e-9)
    assert_array_equal(labels(cut, model), memberships(X, one).argmax(axis=1))


@either
def test_a_little_noise_does_no_harm(select, rng):
    X, K = planted(rng, n=2000, m=30, r=5)
    X += 0.005 * X.mean(axis=0) * rng.random(X.shape)
    model = separable_nmf(here(X), 5, select=select)
    assert_array_equal(np.sort(model.features), K)
    assert 0.0 < model.residual < 0.01


@either
def test_units_of_features_change_neither_features_nor_labels(select, rng):
    X = rng.exponential(size=(200, 8)) ** 2  # far from separable
    units = np.logspace(-4, 4, 8)
    one, other = (separable_nmf(here(Z), 3, select=select) for Z in (X, X * units))
    assert_array_equal(one.features, other.features)
    assert_allclose(other.weights * units[one.features, None] / units, one.weights, atol=1e-9)
    for refine in (False, True):
        assert_allclose(memberships(X * units, other, refine=refine), memberships(X, one, refine=refine), atol=1e-9)


def test_without_normalising_the_largest_numbers_win(rng):
    X, K = planted(rng)
    j = next(j for j in range(X.shape[1]) if j not in K)
    X[:, j] *= 1e3
    assert j in separable_nmf(here(X), 3, normalise=False).features
    assert_array_equal(np.sort(separable_nmf(here(X), 3).features), K)


def test_without_normalising_memberships_are_the_raw_features(rng):
    X = rng.random((50, 6))
    model = separable_nmf(here(X), 3, normalise=False)
    assert_array_equal(memberships(X, model), X[:, model.features])
    assert_array_equal(labels(here(X), model), X[:, model.features].argmax(axis=1))


def test_refined_memberships_satisfy_the_optimality_conditions(rng):
    X = rng.exponential(size=(100, 8))
    model = separable_nmf(here(X), 4, normalise=False)
    H = memberships(X, model, refine=True)
    G = (H @ model.weights - X) @ model.weights.T
    assert (H >= 0.0).all()
    assert (G > -1e-9).all()
    assert_allclose(H * G, 0.0, atol=1e-9)
    assert (H == 0.0).any()


@either
def test_sparse_samples_are_as_dense_ones(select, rng):
    X = rng.exponential(size=(300, 7)) * (rng.random((300, 7)) < 0.3)
    dense, csr = here(X), here(sparse.csr_array(X))
    one, other = separable_nmf(dense, 3, select=select), separable_nmf(csr, 3, select=select)
    assert_array_equal(other.features, one.features)
    assert_allclose(other.weights, one.weights, atol=1e-12)
    for refine in (False, True):
        assert_array_equal(labels(csr, other, refine=refine), labels(dense, one, refine=refine))


def test_batches_of_many_chunks_are_as_one(rng):
    X, K = planted(rng, n=20_000, m=5, r=3)
    codes = rng.integers(0, 3, len(X))  # chunks of rows from here and there
    ask = Engine(partition(X.astype(np.float32), codes, 2)).ask
    model = separable_nmf(ask, 3)
    assert_array_equal(np.sort(model.features), K)
    assert_array_equal(labels(ask, model), memberships(X.astype(np.float32), model).argmax(axis=1))


def test_a_feature_that_is_always_zero_is_not_picked_and_has_no_weights(rng):
    X, K = planted(rng)
    j = next(j for j in range(X.shape[1]) if j not in K)
    X[:, j] = 0.0
    model = separable_nmf(here(X), 3)
    assert_array_equal(np.sort(model.features), K)
    assert not model.weights[:, j].any()
    assert np.isfinite(memberships(X, model, refine=True)).all()


def test_negative_numbers_are_refused(rng):
    X, _ = planted(rng)
    X[5, 4] = -2.5
    with pytest.raises(DataError, match=r"Got -2\.5 in column 4; 1 of 9 columns go below 0.*shift=True"):
        separable_nmf(here(X), 3)


def test_features_that_go_below_zero_are_moved_up_by_their_minimum(rng):
    X, _ = planted(rng)
    X -= X.min(axis=0)
    offset = np.where(np.arange(9) % 2, 100.0, 0.0)
    one, other = separable_nmf(here(X), 3), separable_nmf(here(X - offset), 3, shift=True)
    assert_allclose(other.origin, -offset)
    assert_array_equal(other.features, one.features)
    assert_allclose(other.weights, one.weights, atol=1e-9)
    for refine in (False, True):
        assert_allclose(memberships(X - offset, other, refine=refine), memberships(X, one, refine=refine), atol=1e-9)


def test_a_constant_feature_below_zero_is_nothing_once_moved(rng):
    X, _ = planted(rng)
    X[:, 0] = -7.3
    model = separable_nmf(here(X, [0, 20, 60]), 3, shift=True)
    assert 0 not in model.features
    assert not model.weights[:, 0].any()


@either
def test_more_features_than_there_are_rays_cannot_be_picked(select, rng):
    X, _ = planted(rng)
    with pytest.raises(DataError, match=r"All features are combinations of 3 of them, .* Got r = 4"):
        separable_nmf(here(X), 4, select=select)


def test_what_is_not_allowed_is_said(rng):
    X, _ = planted(rng)
    with pytest.raises(ValueError, match=r"r must be an int from 1 to the number of features, 9\. Got 10"):
        separable_nmf(here(X), 10)
    with pytest.raises(ValueError, match=r"select must be one of 'xray', 'spa'\. Got 'best'"):
        separable_nmf(here(X), 3, select="best")


def test_xray_sees_more_rays_than_dimensions():
    square = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.4]]).T
    X = np.vstack([square, np.ones(5)])  # a cone over a square has four rays in three dimensions
    assert sorted(separable_nmf(here(X), 4).features) == [0, 1, 2, 3]
    with pytest.raises(DataError, match="3 of them"):
        separable_nmf(here(X), 4, select="spa")


def test_a_node_without_samples_is_no_harm(rng):
    X, K = planted(rng)
    ask = here(X, [0, 0, 60, 60])
    model = separable_nmf(ask, 3)
    assert_array_equal(np.sort(model.features), K)
    assert labels(ask, model, refine=True).shape == (60,)


@pytest.mark.parametrize(
    "engine", [pytest.param("dask", marks=pytest.mark.dask), pytest.param("spark", marks=pytest.mark.spark)]
)
def test_other_engines_find_the_same(engine, cluster, rng):
    cluster(engine)
    X, K = planted(rng)
    nodes = partition(X, 0, 3)
    with load("engines", engine).Engine(nodes) as running:
        model = separable_nmf(running.ask, 3)
        found = labels(running.ask, model)
    assert_array_equal(np.sort(model.features), K)
    assert_array_equal(found, memberships(X, model).argmax(axis=1))
