"""Starts for samples of different brightness."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.model.bright_start import (
    CLEAR,
    bright_starts,
    clearly_lowest,
    directions,
    extremes,
    largest,
    leading_directions,
)
from dbmd.model.reduce import reduced
from strategies import generators

R = 4


def bright(rng, *, n=800, m=20, r=R, alpha=0.1, noise=0.0):
    """Return samples s W h, shape (n, m), and W, shape (m, r)."""
    W = rng.random((m, r))
    Ht = rng.dirichlet(np.full(r, alpha), n)
    Ht[: 5 * r] = np.repeat(np.eye(r), 5, axis=0)
    s = rng.uniform(0.3, 1.0, (n, 1))
    s[: 5 * r] = 1.0
    return s * (Ht @ W.T) + noise * rng.normal(size=(n, m)), W


def distance(W, truth):
    """Return the largest distance of a true component from the nearest one found, relative to its norm."""
    far = np.linalg.norm(truth[:, :, None] - W[:, None, :], axis=0).min(axis=1)
    return (far / np.linalg.norm(truth, axis=0)).max()


def unit(W):
    return W / np.linalg.norm(W, axis=0)


@given(generators(), st.integers(1, 6))
def test_corners_of_the_data_are_found(rng, r):
    Xt, W = bright(rng, r=r)
    far, near = bright_starts(Xt, np.ones(len(Xt)), r, 0)
    assert far.shape == near.shape == W.shape
    assert distance(far, W) < 0.15
    assert distance(unit(near), unit(W)) < 0.15


@given(generators())
def test_brightness_does_not_make_clusters(rng):
    """Pure samples, most of them dark: each pattern is found once."""
    W = rng.random((20, R))
    Xt = rng.beta(1.0, 4.0, (900, 1)) * W.T[rng.integers(0, R, 900)]
    Xt[:200] = np.tile(W.T, (50, 1))
    far, near = bright_starts(Xt, np.ones(900), R, 0)
    assert distance(far, W) < 1e-6
    assert distance(unit(near), unit(W)) < 1e-6


@given(generators())
def test_the_simplex_of_directions_contains_the_brightest_sample(rng):
    Xt, _ = bright(rng)
    found = bright_starts(Xt, np.ones(len(Xt)), R, 0)[1]
    coefficients = np.linalg.lstsq(found, Xt.T, rcond=None)[0].sum(axis=0)
    assert_allclose(coefficients.max(), 1.0, rtol=1e-6)


@given(generators())
def test_a_sample_far_brighter_than_all_does_not_count_fully(rng):
    Xt, _ = bright(rng)
    found = directions(Xt, np.ones(len(Xt)), R, 0)
    Xt[0] *= 1e4
    assert np.linalg.norm(directions(Xt, np.ones(len(Xt)), R, 0)) < 10.0 * np.linalg.norm(found)


@given(st.floats(0.5, 50.0), st.integers(10, 10_000))
def test_the_first_candidate_is_kept_unless_another_is_clearly_lower(excess, n):
    assert clearly_lowest([0.0, 1.0], n, excess) == 0
    assert clearly_lowest([0.0, -0.9 * CLEAR * n * excess], n, excess) == 0
    assert clearly_lowest([0.0, -1.1 * CLEAR * n * excess], n, excess) == 1
    assert clearly_lowest([0.0], n, excess) == 0


@given(generators(), st.sampled_from([1e-6, 1e5]))
def test_the_units_of_the_data_do_not_matter(rng, scale):
    Xt, _ = bright(rng, noise=0.02)
    for found, scaled in zip(*(bright_starts(s * Xt, np.ones(len(Xt)), R, 0) for s in (1.0, scale)), strict=True):
        assert_allclose(scaled, scale * found, rtol=1e-6, atol=1e-6 * scale)


@given(generators())
def test_sparse_and_reduced_samples_have_the_same_start(rng):
    Xt, _ = bright(rng, m=80, noise=0.01)
    weights = rng.uniform(0.5, 2.0, len(Xt))
    dense = bright_starts(Xt, weights, R, 0)
    for other in (sparse.csr_array(Xt), reduced(Xt, weights, R, 0)):
        for one, expected in zip(bright_starts(other, weights, R, 0), dense, strict=True):
            # Which of two samples that are equally far out is found first may be a matter of rounding.
            d2 = np.square(one[:, :, None] - expected[:, None, :]).sum(axis=0)
            assert_allclose(one[:, d2.argmin(axis=0)], expected, atol=0.02)


@given(generators())
def test_a_weight_is_a_number_of_samples(rng):
    Yt, weights = rng.normal(size=(60, 3)), rng.integers(1, 5, 60).astype(float)
    repeated = np.repeat(Yt, weights.astype(int), axis=0)
    assert_allclose(extremes(Yt, weights, 3), extremes(repeated, np.ones(len(repeated)), 3), rtol=1e-9)
    spaces = [leading_directions(X, w, 2, 0) for X, w in ((Yt, weights), (repeated, np.ones(len(repeated))))]
    assert_allclose(*(U @ U.T for U in spaces), atol=1e-9)


@given(generators())
def test_samples_without_weight_are_as_if_they_were_not_there(rng):
    Xt, _ = bright(rng, noise=0.02)
    weights = np.where(rng.random(len(Xt)) < 0.3, 0.0, 1.0)
    loud = np.where(weights[:, None] > 0.0, Xt, 100.0 * Xt)
    for one, other in zip(
        bright_starts(loud, weights, R, 0), bright_starts(Xt[weights > 0.0], weights[weights > 0.0], R, 0), strict=True
    ):
        assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_an_outlier_is_not_a_corner(rng):
    Xt, W = bright(rng, n=2000, noise=0.01)
    Xt[-1] = 50.0 * rng.normal(size=20)
    found = extremes(Xt @ leading_directions(Xt[:-1], np.ones(1999), R, 0), np.ones(2000), R)
    assert np.linalg.norm(found, axis=1).max() < 3.0 * np.linalg.norm(W, axis=0).max()


@pytest.mark.parametrize("shape", [(30, 2), (3, 10), (5, 1), (1, 3), (40, 5)])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_few_samples_few_features_and_zeros_give_numbers(shape, scale, rng):
    for Xt in (scale * rng.normal(size=shape), sparse.csr_array(scale * rng.normal(size=shape))):
        for W in bright_starts(Xt, np.ones(shape[0]), 4, 0):
            assert W.shape == (shape[1], 4)
            assert np.isfinite(W).all()


@given(generators(), st.integers(1, 500))
def test_the_largest_sum_to_one_and_come_first(rng, n):
    values, weights = rng.normal(size=n), rng.uniform(0.1, 3.0, n)
    parts = largest(values, weights)
    assert_allclose(parts.sum(), 1.0)
    assert parts.min() >= 0.0
    assert values[parts > 0.0].min() > values[parts == 0.0].max(initial=-np.inf)


def test_one_seed_gives_one_start(rng):
    Xt, _ = bright(rng, noise=0.05)
    for one, other in zip(*(bright_starts(Xt, np.ones(len(Xt)), R, 3) for _ in range(2)), strict=True):
        assert_array_equal(one, other)
    Yt = rng.normal(size=(50, 3))
    assert_array_equal(directions(Yt, np.ones(50), 3, 1), directions(Yt, np.ones(50), 3, 1))
