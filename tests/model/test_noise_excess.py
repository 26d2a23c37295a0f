"""The excess of noise in the plane of W, and which rows have their covariance computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from dbmd.model import evidence as module
from dbmd.model.evidence import ENOUGH_SAMPLES, MOST_FOR_ONE, Evidence, pooled
from strategies import generators


def noise_excess(X, weights, r):
    """Return the excess of samples of one source."""
    (found,) = module.noise_excess(X, weights, np.zeros(X.shape[0], np.intp), 1, r)
    return found


def mixtures(rng, n, m, r, sigma):
    W = rng.normal(size=(m, r))
    return rng.dirichlet(np.full(r, 0.5), n) @ W.T + rng.normal(size=(n, m)) * sigma


@pytest.mark.parametrize(("n", "m", "r"), [(4000, 8, 3), (4000, 60, 4), (700, 765, 10), (4000, 300, 5), (40, 500, 3)])
def test_of_white_noise_there_is_no_excess(n, m, r, rng):
    found = noise_excess(mixtures(rng, n, m, r, 0.5), np.ones(n), r)
    assert 1.0 <= found < 1.2


@pytest.mark.parametrize("m", [40, 300])
def test_noise_along_few_directions_is_found(m, rng):
    """Noise whose variance along r - 1 directions is 30 times that along the others."""
    n, r = 6000, 4
    directions = np.linalg.qr(rng.normal(size=(m, r - 1)))[0]
    X = 3.0 * mixtures(rng, n, m, r, 0.0) + rng.normal(size=(n, m))
    X += np.sqrt(29.0) * rng.normal(size=(n, r - 1)) @ directions.T
    expected = 30.0 / (1.0 + 29.0 * (r - 1) / (m - r + 1))
    assert_allclose(noise_excess(X, np.ones(n), r), expected, rtol=0.2)


@given(generators(), st.sampled_from([1e-5, 1e4]), st.sampled_from([6, 90]))
def test_neither_units_nor_offset_nor_the_scale_of_the_weights_matter(rng, unit, m):
    X, weights = mixtures(rng, 300, m, 3, 0.3) * np.linspace(1.0, 3.0, m), rng.uniform(1.0, 2.0, 300)
    here = noise_excess(X, weights, 3)
    there = noise_excess(unit * (X + 10.0), 7.0 * weights, 3)
    assert_allclose(there, here, rtol=1e-4)


@pytest.mark.parametrize("m", [12, 200])
def test_sparse_samples_give_what_dense_ones_give(m, rng):
    X = mixtures(rng, 400, m, 3, 0.5)
    X[rng.random(X.shape) < 0.7] = 0.0
    assert_allclose(noise_excess(sparse.csr_array(X), np.ones(400), 3), noise_excess(X, np.ones(400), 3), rtol=1e-6)


def test_noisy_samples_of_little_weight_hardly_count(rng):
    """Precision as weight: a source with noise along one direction alone is next to nothing beside a precise one."""
    X = mixtures(rng, 4000, 10, 3, 0.1)
    noisy = np.arange(4000) % 3 == 0
    X[noisy, 0] += 100.0 * rng.normal(size=noisy.sum())
    trusting = noise_excess(X, np.ones(4000), 3)
    assert noise_excess(X, np.where(noisy, 1e-8, 1.0), 3) < 1.2 < trusting


@pytest.mark.parametrize(("n", "m", "r"), [(50, 4, 1), (50, 1, 3), (50, 3, 4), (5, 4, 3), (1, 4, 2), (3, 40, 8)])
def test_where_no_direction_is_left_over_it_is_one(n, m, r, rng):
    assert noise_excess(rng.normal(size=(n, m)), np.ones(n), r) >= 1.0


def test_samples_that_are_all_alike_have_none():
    assert noise_excess(np.ones((50, 4)), np.ones(50), 2) == 1.0


def test_up_to_twelve_components_or_so_many_samples_all_covariances_are_computed():
    assert Evidence.of([1.0], 10**9, 12).counted(np.arange(10)) is None
    assert Evidence.of([1.0], 100_000, 50).counted(np.arange(10)) is None
    assert Evidence.of([1.0], 100_001, 13).one_in > 1


@given(n=st.integers(1, 10**9), r=st.integers(2, 100))
def test_covariances_of_enough_samples_are_computed_and_none_stands_for_too_many(n, r):
    one_in = Evidence.of([1.0], n, r).one_in
    assert n / one_in >= min(n, ENOUGH_SAMPLES)
    assert 1 <= one_in <= MOST_FOR_ONE


@pytest.mark.parametrize("period", [1, 2, 3, 4, 8, 12, 100])
def test_rows_that_are_counted_are_spread_evenly_also_among_every_second_or_twelfth(period):
    evidence = Evidence.of([1.0], 10**6, 20)
    for first in range(min(period, 5)):
        part = evidence.counted(np.arange(first, 10**6, period)).mean()
        assert_allclose(part, 1.0 / evidence.one_in, rtol=0.02)
    rows = np.array([5, 123_456_789_012, 7])
    assert (evidence.counted(rows) == [evidence.counted(rows[i : i + 1])[0] for i in range(3)]).all()


def test_each_source_has_its_own_and_one_of_few_samples_nearly_that_of_all(rng):
    """White noise in one source, noise along few directions in another, and three samples of a third."""
    n, m, r = 6000, 40, 4
    source = np.arange(n) % 2
    source[:3] = 2
    directions = np.linalg.qr(rng.normal(size=(m, r - 1)))[0]
    X = 30.0 * mixtures(rng, n, m, r, 0.0) + rng.normal(size=(n, m))
    X += np.where(source == 1, 5.0, 0.0)[:, None] * (rng.normal(size=(n, r - 1)) @ directions.T)
    white, coloured, few, none = module.noise_excess(X, np.ones(n), source, 4, r)
    assert white < 1.2 < coloured
    assert_allclose(few, none, rtol=0.2)
    assert white < few < coloured


def test_the_excess_of_all_sources_is_a_mean_by_precision():
    assert pooled(np.array([1.0, 5.0]), np.array([1.0, 1.0])) == 3.0
    assert_allclose(pooled(np.array([1.0, 5.0]), np.array([1.0, 1e9])), 1.0)
