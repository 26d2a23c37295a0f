import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import map_coordinates

from dbmd.data.datasets.deform import BEND, BUMPS, CENTRE, MOTION, N_NUMBERS, SIDE, deform

ANGLE, SCALE, DOWN, RIGHT = range(4)


def images(rng, n):
    return rng.random((n, SIDE, SIDE), dtype=np.float32)


def moved(image, number, value):
    numbers = np.zeros((1, N_NUMBERS), np.float32)
    numbers[0, number] = value / MOTION[number]
    return deform(image[None], numbers)[0]


def test_zeros_leave_an_image_as_it_is(rng):
    X = images(rng, 3)
    assert_array_equal(deform(X, np.zeros((3, N_NUMBERS), np.float32)), X)


def test_a_shift_by_a_pixel_moves_the_pixels_and_brings_in_black(rng):
    X = images(rng, 1)[0]
    down, right = moved(X, DOWN, 1.0), moved(X, RIGHT, -1.0)
    assert_array_equal(down, np.vstack([X[1:], np.zeros((1, SIDE))]))
    assert_array_equal(right, np.hstack([np.zeros((SIDE, 1)), X[:, :-1]]))


def test_a_quarter_turn_turns(rng):
    X = images(rng, 1)[0]
    assert_allclose(moved(X, ANGLE, np.pi / 2), np.rot90(X, -1), atol=1e-4)


def test_scale_is_a_factor_about_the_centre(rng):
    X = images(rng, 1)[0]
    offset = 2.0 * (np.arange(SIDE) - CENTRE) + CENTRE
    expected = map_coordinates(X, np.meshgrid(offset, offset, indexing="ij"), order=1, mode="grid-constant")
    assert_allclose(moved(X, SCALE, np.log(2.0)), expected, atol=1e-4)


def test_all_together_is_linear_interpolation_at_the_displaced_places(rng):
    """By SciPy, and the formula of the docstring in float64."""
    X, numbers = images(rng, 20), rng.normal(size=(20, N_NUMBERS)).astype(np.float32)
    found = deform(X, numbers)
    p = np.indices((SIDE, SIDE)) - CENTRE
    for image, z, copy in zip(X, numbers.astype(float), found, strict=True):
        angle, scale, *shift = z[:4] * MOTION
        A = np.exp(scale) * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        bend = BEND * np.einsum("ip,dij,jq->dpq", BUMPS, z[4:].reshape(2, len(BUMPS), len(BUMPS)), BUMPS)
        places = np.einsum("de,epq->dpq", A, p) + CENTRE + np.array(shift)[:, None, None] + bend
        assert_allclose(copy, map_coordinates(image, places, order=1, mode="grid-constant"), atol=1e-4)


def test_the_bending_of_every_pixel_has_the_same_deviation():
    assert_allclose((np.kron(BUMPS, BUMPS) ** 2).sum(axis=0), 1.0, rtol=1e-5)


@given(arrays(np.float32, (2, N_NUMBERS), elements=st.floats(-1e4, 1e4, width=32)), st.integers(0, 99))
def test_pixels_stay_between_black_and_white_however_wild_the_numbers(numbers, seed):
    numbers[:, SCALE] = np.clip(numbers[:, SCALE], -50, 50)  # beyond, exp overflows
    X = np.random.default_rng(seed).choice(np.float32([0.0, 1 / 255, 0.5, 254 / 255, 1.0]), (2, SIDE, SIDE))
    found = deform(X, numbers)
    assert found.dtype == np.float32
    assert found.min() >= 0.0
    assert found.max() <= 1.0


@pytest.mark.parametrize("n", [1, 2, 5, 31])
def test_an_image_is_the_same_to_the_bit_whichever_are_deformed_with_it(n, rng):
    X, numbers = images(rng, 100), rng.normal(size=(100, N_NUMBERS)).astype(np.float32)
    rows = rng.permutation(100)[:n]
    assert_array_equal(deform(X[rows], numbers[rows]), deform(X, numbers)[rows])
