"""Past statistics are what the statistics of the weighted samples would be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dbmd.model.past import PastStatistics
from dbmd.model.statistics import PerSource
from strategies import decompositions, statistics


def past_of(Xt, Ht, origin):
    return PastStatistics(PerSource({0: statistics(Xt, Ht, origin), 3: statistics(2.0 * Xt, Ht, origin)}), origin)


def assert_same(mine, other, Xt):
    scale = 100.0 * (np.abs(Xt).max(initial=0.0) + np.abs(other.origin).max() + np.abs(mine.origin).max())
    assert_allclose(mine.origin, other.origin)
    assert mine.stats.keys() == other.stats.keys()
    for c, s in mine.stats.items():
        assert_allclose(s.XHt, other.stats[c].XHt, atol=1e-12 * scale)
        assert_allclose(s.HHt, other.stats[c].HHt, atol=1e-12)
        assert_allclose(s.sq_norm, other.stats[c].sq_norm, atol=1e-12 * scale**2)
        assert_allclose([s.n, s.h_cost], [other.stats[c].n, other.stats[c].h_cost])


@given(decompositions(), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_about_another_origin_it_is_that_of_samples_about_it(sample, here, there):
    Xt, Ht, W = sample
    unit = np.abs(W).max() * np.ones(len(W))
    moved = past_of(Xt, Ht, here * unit).about(there * unit)
    assert_same(moved, past_of(Xt, Ht, there * unit), np.vstack([Xt, here * unit]))


@given(decompositions(), st.floats(1e-3, 1.0))
def test_faded_every_sample_counts_for_less(sample, factor):
    Xt, Ht, W = sample
    if len(Xt):
        weights = np.full(len(Xt), factor)
        stats = statistics(Xt, Ht, np.zeros(len(W)), weights=weights)
        past = PastStatistics(PerSource({1: statistics(Xt, Ht, np.zeros(len(W)))}), np.zeros(len(W)))
        assert_same(past.faded(factor), PastStatistics(PerSource({1: stats}), past.origin), Xt)


def test_a_source_with_next_to_no_weight_is_dropped():
    past = past_of(np.ones((3, 2)), np.full((3, 2), 0.5), np.zeros(2))
    assert past.faded(1e-8).stats.keys() == {0, 3}
    assert not past.faded(1e-10).stats


@given(decompositions(), st.randoms(use_true_random=False))
def test_in_another_order_it_is_that_of_components_in_that_order(sample, random):
    Xt, Ht, W = sample
    order = np.array(random.sample(range(Ht.shape[1]), Ht.shape[1]))
    origin = W.mean(axis=1)
    same = past_of(Xt, Ht[:, order], origin)
    assert_same(past_of(Xt, Ht, origin).reordered(order), same, Xt)
