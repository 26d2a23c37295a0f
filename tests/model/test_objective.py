import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dbmd.model.objective import Objective, objective
from dbmd.model.statistics import PerSource
from strategies import decompositions, statistics_of


def from_statistics(Xt, Ht, W, sources, sigma2, lam, prior):
    found = PerSource(
        {c: statistics_of(Xt[sources == c], Ht[sources == c], prior).summary(W) for c in np.unique(sources)}
    )
    return objective(found, W, sigma2, lam)


def direct(Xt, Ht, W, sources, sigma2, lam, prior):
    """Eq. (opt1), sample by sample."""
    own = sigma2[sources]
    misfit = ((Xt - Ht @ W.T) ** 2).sum(axis=1) / (2.0 * own)
    return (misfit + Xt.shape[1] * np.log(np.sqrt(own))).sum() + lam * np.abs(W).sum() - (prior * np.log(Ht)).sum()


@given(decompositions(), st.sampled_from([0.0, 2.5]), st.sampled_from([0.0, 0.7]))
def test_the_value_is_that_of_the_formula(decomposition, lam, prior):
    Xt, Ht, W = decomposition
    sources, sigma2 = np.arange(len(Xt)) % 3, np.array([0.1, 1.0, 30.0])
    now = from_statistics(Xt, Ht, W, sources, sigma2, lam, prior)
    size = now.scale + ((Xt**2).sum() + ((Ht @ W.T) ** 2).sum()) / sigma2.min()
    assert_allclose(now.value, direct(Xt, Ht, W, sources, sigma2, lam, prior), rtol=1e-10, atol=1e-12 * size)


@given(decompositions(), st.sampled_from([0.0, 0.7]))
def test_one_source_may_be_split_into_two_of_equal_noise(decomposition, prior):
    Xt, Ht, W = decomposition
    sigma2 = np.array([0.5, 0.5])
    split = from_statistics(Xt, Ht, W, np.arange(len(Xt)) % 2, sigma2, 0.3, prior)
    whole = from_statistics(Xt, Ht, W, np.zeros(len(Xt), int), sigma2, 0.3, prior)
    size = (Xt**2).sum() + ((Ht @ W.T) ** 2).sum()
    assert_allclose(split.value, whole.value, rtol=1e-10, atol=1e-11 * size)
    assert_allclose(split.scale, whole.scale, rtol=1e-10, atol=1e-11 * size)


@given(decompositions(), st.sampled_from([0.01, 7.0, 1e4]), st.sampled_from([0.0, 0.7]))
def test_scaling_the_data_shifts_the_value_and_leaves_the_scale(decomposition, factor, prior):
    Xt, Ht, W = decomposition
    sources, sigma2, lam = np.zeros(len(Xt), int), np.array([2.0]), 0.3
    one = from_statistics(Xt, Ht, W, sources, sigma2, lam, prior)
    other = from_statistics(factor * Xt, Ht, factor * W, sources, factor**2 * sigma2, lam / factor, prior)
    size = (Xt**2).sum() + ((Ht @ W.T) ** 2).sum() + Xt.size * abs(np.log(factor))
    assert_allclose(other.value - one.value, Xt.size * np.log(factor), rtol=1e-9, atol=1e-11 * (one.scale + size))
    assert_allclose(other.scale, one.scale, rtol=1e-9, atol=1e-11 * size)


@given(decompositions())
def test_the_scale_is_never_negative(decomposition):
    Xt, Ht, W = decomposition
    assert from_statistics(Xt, Ht, W, np.zeros(len(Xt), int), np.array([1e-6]), 0.3, 0.5).scale >= 0.0


@pytest.mark.parametrize("value", [-1e6, 0.0, 1e6])
def test_a_gain_is_relative_to_the_scale(value):
    before = Objective(value, scale=100.0)
    assert_allclose(Objective(value - 0.9, 100.0).gain(before), 0.009, rtol=1e-6)
    assert before.gain(before) == 0.0
    assert Objective(value + 1.0, 100.0).gain(before) < 0.0


def test_the_first_objective_is_an_infinite_gain_and_so_is_a_perfect_fit():
    assert Objective(5.0, scale=1.0).gain(None) == np.inf
    assert Objective(4.0, scale=0.0).gain(Objective(5.0, scale=1.0)) == np.inf
    assert Objective(5.0, scale=0.0).gain(Objective(5.0, scale=0.0)) == 0.0
