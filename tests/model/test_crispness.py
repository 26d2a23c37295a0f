"""Crispness: what the data say, and what noise makes."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import truncnorm

from dbmd.model.crispness import Crispness, clear_probability, crispness
from strategies import generators


@given(generators(), st.integers(1, 6), st.sampled_from([1e-9, 0.01, 0.1, 0.6]))
def test_the_fractions_are_fractions_and_the_three_parts_are_all_samples(rng, r, noise):
    found = crispness(rng.dirichlet(np.full(r, 0.3), 40), rng.random((40, r)) * noise)
    assert (np.array(astuple(found)) >= 0.0).all()
    assert (np.array(astuple(found)) <= 1.0).all()
    assert found.clear + found.mixed + found.unsure == pytest.approx(1.0)


def test_without_noise_it_is_what_the_peaks_say(rng):
    H = rng.dirichlet(np.full(3, 0.2), 500)
    found, fraction = crispness(H, np.full_like(H, 1e-12)), (H.max(axis=1) >= 0.9).mean()
    assert_allclose(astuple(found), [fraction, fraction, fraction, 1.0 - fraction, 0.0], atol=1e-9)


def test_corners_that_noise_made_are_not_clear():
    H = np.tile([1.0, 0.0, 0.0], (10, 1))
    for std in (0.1, 0.24, 0.4):
        found = crispness(H, np.full_like(H, std))
        assert found.at_peaks == 1.0
        assert found.expected < 0.5
        assert found.unsure == 1.0


@pytest.mark.parametrize(("peak", "width"), [(1.0, 0.05), (0.95, 0.1), (0.6, 0.2), (0.9, 0.4)])
def test_the_probability_is_that_of_a_normal_distribution_between_0_and_1(peak, width):
    posterior = truncnorm(-peak / width, (1.0 - peak) / width, peak, width)
    found = clear_probability(np.array([[peak, 1.0 - peak]]), np.full((1, 2), posterior.std()))
    assert_allclose(found, posterior.sf(0.9), rtol=1e-6)


def test_samples_that_are_left_out_do_not_count():
    H = np.array([[np.nan, np.nan], [1.0, 0.0]])
    assert crispness(H, H * 0.0 + 1e-3).clear == 1.0
    assert all(np.isnan(astuple(crispness(H[:1], H[:1]))))
    assert isinstance(crispness(H[:1], H[:1]), Crispness)
