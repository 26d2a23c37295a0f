from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_limits

from clusters import clusters
from dbmd.model.reduce import MORE, WIDE, can_be_reduced, reduced

R = 4


def wide(rng, n=200, m=80):
    return clusters(rng, n=n, m=m, r=R, noise=1.0, distance=1.0)[0]


def rebuilt(found):
    """Return the samples as far as they are in the space: what does not depend on the choice of its basis."""
    return found.offset + found.scores @ found.directions.T


def test_samples_are_their_mean_their_scores_and_a_rest_of_known_size(rng):
    Xt, weights = wide(rng), rng.random(200) + 0.1
    found = reduced(Xt, weights, R, seed=0)
    assert found.scores.shape == (200, R + MORE)
    assert_allclose(found.directions.T @ found.directions, np.eye(R + MORE), atol=1e-12)
    assert_allclose(found.offset, np.average(Xt, axis=0, weights=weights), atol=1e-12)
    assert_allclose(found.off, ((Xt - rebuilt(found)) ** 2).sum(axis=1), rtol=1e-9)
    assert_allclose((Xt - rebuilt(found)) @ found.directions, 0.0, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("seed", range(3))
def test_hardly_more_is_lost_than_by_the_exact_principal_directions(form, seed, rng):
    Xt, weights = wide(rng), rng.random(200) + 0.1
    share = weights / weights.sum()
    centred = np.sqrt(share)[:, None] * (Xt - share @ Xt)
    values = np.linalg.svd(centred, compute_uv=False) ** 2
    found = reduced(form(Xt), weights, R, seed)
    assert share @ found.off < 1.1 * values[R + MORE :].sum()
    # The directions along which the clusters differ are there.
    leading = np.linalg.svd(centred)[2][: R - 1]
    assert_allclose(np.linalg.norm(leading @ found.directions, axis=1), 1.0, atol=1e-3)


@pytest.mark.parametrize(("dtype", "scale"), [(float, 1e-140), (float, 1.0), (float, 1e140), (np.float32, 1.0)])
def test_directions_of_very_different_variance_are_all_found(dtype, scale, rng):
    least = 1e-5 if dtype is float else 1e-3  # the last direction that is kept, relative to the first
    sizes = [*np.logspace(0.0, np.log10(least), R + MORE), *[0.01 * least] * 20]
    basis = np.linalg.qr(rng.normal(size=(80, len(sizes))))[0]
    Xt = (scale * (rng.normal(size=(200, len(sizes))) * sizes) @ basis.T).astype(dtype)
    found, exact = reduced(Xt, np.ones(200), R, seed=1), Xt.astype(float)
    off, values = np.square(exact - rebuilt(found)), np.linalg.svd(exact - exact.mean(axis=0), compute_uv=False)
    assert off.sum() < 1.1 * np.square(values[R + MORE :]).sum()


@pytest.mark.parametrize("far", [0.0, 1e2, 1e4])
def test_float32_far_from_zero_is_taken_about_its_mean(far, rng):
    Xt = (wide(rng) + far * rng.normal(size=80)).astype(np.float32)
    found, exact = reduced(Xt, np.ones(200), R, seed=1), reduced(Xt.astype(float), np.ones(200), R, seed=1)
    assert_allclose(found.offset, exact.offset, rtol=1e-12, atol=1e-7)
    assert_allclose(found.off, exact.off, rtol=1e-4)
    assert_allclose(rebuilt(found) - found.offset, rebuilt(exact) - exact.offset, atol=1e-4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_samples_in_a_space_of_few_directions_are_in_it(form, rank, rng):
    Xt = form(rng.normal(size=(200, rank)) @ rng.normal(size=(rank, 80)) + rng.normal(size=80))
    found = reduced(Xt, np.ones(200), R, seed=1)
    assert_allclose(found.directions.T @ found.directions, np.eye(R + MORE), atol=1e-12)
    assert_allclose(rebuilt(found), Xt.toarray() if sparse.issparse(Xt) else Xt, atol=1e-10)


def test_a_weight_is_a_number_of_equal_samples(rng):
    Xt, weights = wide(rng), rng.integers(1, 4, 200)
    one = reduced(Xt, weights.astype(float), R, seed=1)
    other = reduced(np.repeat(Xt, weights, axis=0), np.ones(weights.sum()), R, seed=1)
    first = np.cumsum(weights) - 1
    assert_allclose(rebuilt(other)[first], rebuilt(one), atol=1e-9)
    assert_allclose(other.off[first], one.off, rtol=1e-8)


def test_dense_and_sparse_samples_give_the_same(rng):
    Xt = wide(rng) * (rng.random((200, 80)) < 0.2)
    one, other = (reduced(form(Xt), np.ones(200), R, seed=1) for form in (np.asarray, sparse.csr_array))
    assert_allclose(rebuilt(other), rebuilt(one), atol=1e-9)
    assert_allclose(other.off, one.off, rtol=1e-8)


def test_samples_that_are_moved_and_scaled_are_so_afterwards(rng):
    Xt, vector = wide(rng), 100.0 * rng.normal(size=80)
    one, other = reduced(Xt, np.ones(200), R, seed=1), reduced(7.0 * Xt + vector, np.ones(200), R, seed=1)
    assert_allclose(rebuilt(other), 7.0 * rebuilt(one) + vector, rtol=1e-9, atol=1e-9)
    assert_allclose(other.off, 49.0 * one.off, rtol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_threads_change_nothing(form, rng):
    Xt, weights = form(wide(rng)), rng.random(200)
    with threadpool_limits(1):
        one = reduced(Xt, weights, R, seed=1)
        with ThreadPoolExecutor(3) as pool:
            other = reduced(Xt, weights, R, seed=1, parallel_map=pool.map)
    assert_array_equal(other.scores, one.scores)
    assert_array_equal(other.off, one.off)


def test_the_samples_are_not_changed(rng):
    Xt = wide(rng)
    copy = Xt.copy()
    reduced(Xt, np.ones(200), R, seed=1)
    assert_array_equal(Xt, copy)


def test_only_what_is_wide_and_more_than_a_few_is_reduced():
    least = WIDE * (R + MORE) + 1
    assert can_be_reduced(np.zeros((least, least)), R)
    assert not can_be_reduced(np.zeros((least - 1, least)), R)
    assert not can_be_reduced(np.zeros((least, least - 1)), R)
