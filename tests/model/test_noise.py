import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.noise import Noise
from dbmd.model.objective import objective
from dbmd.model.statistics import PerSource, Summary
from strategies import statistics_of

M = 4  # features
W = np.zeros((M, 2))


def summaries(*squares_and_n):
    return PerSource({c: Summary(s, n, 0.0, np.zeros(2)) for c, (s, n) in enumerate(squares_and_n) if n})


def data(mean_square, n=6, offset=0.0):
    """Return statistics of samples whose entries have this mean square about the offset, their mean; and the origin."""
    Xt = offset + np.sqrt(mean_square) * np.tile(np.where(np.arange(n) % 4 < 2, 1.0, -1.0)[:, None], M)
    Xt -= Xt.mean(axis=0) - offset
    Xt = offset + (Xt - offset) * np.sqrt(mean_square / np.maximum(((Xt - offset) ** 2).mean(), 1e-300))
    return PerSource({c: statistics_of(Xt[c::2], np.full((n // 2, 2), 0.5)) for c in range(2)}), np.zeros(M)


def value(found, sigma2):
    return objective(found, W, sigma2, lam=0.0).value


levels_strategy = st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(1, 50)), min_size=1, max_size=4)


@given(levels_strategy, st.floats(0.5, 2.0).filter(lambda factor: factor != 1.0))
def test_levels_for_each_source_minimise_the_objective(found, factor):
    found = summaries(*found)
    best = Noise("source", len(found), floor=1e-12).levels(found, W)
    for c in found:
        other = best.copy()
        other[c] *= factor
        assert value(found, best) <= value(found, other)


@given(levels_strategy, st.floats(0.5, 2.0).filter(lambda factor: factor != 1.0))
def test_a_shared_level_minimises_the_objective_over_equal_levels(found, factor):
    found = summaries(*found)
    best = Noise("shared", len(found), floor=1e-12).levels(found, W)
    assert np.ptp(best) == 0.0
    assert value(found, best) <= value(found, factor * best) + 1e-12 * abs(value(found, best))


def test_the_level_is_the_mean_square_of_the_residual(rng):
    residual = rng.normal(size=(30, M))
    found = summaries((float((residual**2).sum()), 30))
    assert_allclose(Noise("source", 1, 1e-12).levels(found, W), [(residual**2).mean()], rtol=1e-12)


@given(levels_strategy)
def test_with_one_source_shared_and_own_level_are_the_same(found):
    found = summaries(found[0])
    own, shared = Noise("source", 1, 1e-12).levels(found, W), Noise("shared", 1, 1e-12).levels(found, W)
    assert_allclose(own, shared, rtol=1e-15)


def test_a_fixed_level_is_not_touched_by_the_data_nor_by_the_floor():
    noise = Noise.for_data(1e-30, 3, *data(5.0), np.dtype(np.float64))
    assert_array_equal(noise.levels(summaries((0.0, 3), (8.0, 2), (1.0, 1)), W), [1e-30] * 3)


def test_a_source_without_samples_gets_the_pooled_level():
    found = summaries((8.0, 2), (0.0, 0), (1.0, 4))
    levels = Noise("source", 3, 1e-12).levels(found, W)
    assert_allclose(levels, [8.0 / (2 * M), 9.0 / (6 * M), 1.0 / (4 * M)], rtol=1e-12)


@pytest.mark.parametrize("kind", ["source", "shared"])
def test_a_perfect_fit_stays_at_the_floor(kind):
    noise = Noise.for_data(kind, 2, *data(3.0), np.dtype(np.float64))
    levels = noise.levels(summaries((0.0, 3), (0.0, 2)), W)
    assert_array_equal(levels, noise.floor)
    assert noise.floor > 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_floor_scales_with_the_data_and_lies_above_rounding(dtype):
    floors = [Noise.for_data("source", 2, *data(square), np.dtype(dtype)).floor for square in (1e-20, 1.0, 1e20)]
    assert_allclose(floors, np.array([1e-20, 1.0, 1e20]) * floors[1], rtol=1e-12)
    assert np.finfo(dtype).eps < floors[1] < 1e-4


def test_the_floor_does_not_depend_on_where_the_data_are():
    near, far = (Noise.for_data("source", 2, *data(1.0, offset=at), np.dtype(np.float64)).floor for at in (0.0, 1e4))
    assert_allclose(far, near, rtol=1e-6)


def test_data_of_zeros_have_a_positive_floor():
    assert Noise.for_data("source", 2, *data(0.0), np.dtype(np.float64)).floor > 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_floor_is_above_the_rounding_of_numbers_far_from_zero(dtype):
    eps = np.finfo(dtype).eps
    noise = Noise.for_data("source", 2, *data(1.0, offset=1e3 / eps), np.dtype(dtype))
    assert noise.floor >= 0.9e6


@pytest.mark.parametrize("eps", [2.0**-23, 2.0**-52])
def test_the_floor_rises_with_w(eps):
    noise, large = Noise("source", 1, 1e-12, eps), 1e9 * np.array([[1.0, -1.0]] * M)
    levels = noise.levels(summaries((0.0, 3)), large)
    assert levels > (eps * 1e9) ** 2 / 2
    assert levels > 1e18 * 2.0**-52
    assert not noise.is_above_rounding(summaries((0.0, 3)), large)
