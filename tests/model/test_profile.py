from dataclasses import fields
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.profile import BINS, Profile
from strategies import cuts, generators


@st.composite
def cases(draw):
    """Strategy: memberships with corners and edges of the simplex among them, sources and classes."""
    rng, n, r = draw(generators()), draw(st.integers(0, 30)), draw(st.integers(1, 5))
    Ht = rng.dirichlet(np.full(r, draw(st.sampled_from([0.05, 1.0, 10.0]))), n)
    Ht[rng.random(n) < 0.3] = np.eye(r)[0]
    return Ht.astype(draw(st.sampled_from([np.float32, np.float64]))), rng.integers(0, 3, n), rng.integers(0, 4, n)


def profile_of(Ht, sources, classes):
    profile = Profile.zero(3, Ht.shape[1], 4)
    for c in range(3):
        profile.count(Ht[sources == c], c, classes[sources == c])
    return profile


def by_a_plain_loop(Ht, sources, classes):
    profile = Profile.zero(3, Ht.shape[1], 4)
    for h, c, known in zip(Ht, sources, classes, strict=True):
        cluster = max(range(len(h)), key=lambda k: (h[k], -k))
        profile.n[c] += 1
        profile.counts[c, cluster] += 1
        profile.largest[c, min(int(h[cluster] * BINS), BINS - 1)] += 1
        profile.contingency[known, cluster] += 1
        for k, value in enumerate(h):
            profile.sizes[c, k] += value
            profile.memberships[k, min(int(value * BINS), BINS - 1)] += 1
    return profile


def assert_equal(one, other):
    for field in fields(Profile):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        assert mine.dtype == its.dtype
        if field.name == "sizes":
            assert_allclose(mine, its, rtol=1e-6, atol=1e-12)
        else:
            assert_array_equal(mine, its)


@given(cases())
def test_it_is_what_a_plain_loop_counts(case):
    assert_equal(profile_of(*case), by_a_plain_loop(*case))


@given(cases(), st.data())
def test_profiles_of_parts_add_up(case, data):
    Ht = case[0]
    total = Profile.zero(3, Ht.shape[1], 4)
    for i, j in pairwise(data.draw(cuts(len(Ht)))):
        total = total + profile_of(*(values[i:j] for values in case))
    assert_equal(total, profile_of(*case))


@given(cases())
def test_every_sample_is_counted_once(case):
    Ht, sources, classes = case
    profile, r = profile_of(*case), Ht.shape[1]
    n = np.bincount(sources, minlength=3)
    assert_array_equal(profile.n, n)
    assert_array_equal(profile.counts.sum(axis=1), n)
    assert_array_equal(profile.largest.sum(axis=1), n)
    assert_allclose(profile.sizes.sum(axis=1), n, rtol=1e-5)
    assert_array_equal(profile.memberships.sum(axis=1), np.full(r, len(Ht)))
    assert_array_equal(profile.contingency.sum(axis=1), np.bincount(classes, minlength=4))
    assert_array_equal(profile.contingency.sum(axis=0), profile.counts.sum(axis=0))


@given(cases(), generators())
def test_reordering_the_components_is_counting_them_in_that_order(case, rng):
    Ht, sources, classes = case
    order = rng.permutation(Ht.shape[1])
    found, expected = profile_of(*case).reordered(order), profile_of(Ht[:, order], sources, classes)
    for name in ("n", "sizes", "largest", "memberships"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-12)
    # Where two memberships are equal, which is the largest is a matter of order.
    is_tied = (Ht == Ht.max(axis=1, keepdims=True, initial=0.0)).sum(axis=1).max(initial=0) > 1
    if not is_tied:
        assert_array_equal(found.counts, expected.counts)
        assert_array_equal(found.contingency, expected.contingency)


def test_without_classes_there_is_no_contingency():
    profile = Profile.zero(1, 2)
    profile.count(np.array([[0.2, 0.8]]), 0)
    assert profile.contingency.shape == (0, 2)
    assert profile.n.tolist() == [1]


def test_the_ends_of_the_histogram_are_counted():
    profile = Profile.zero(1, 2)
    profile.count(np.array([[1.0, 0.0], [1.0 + 1e-7, -0.0]]), 0)
    assert profile.memberships[0].tolist() == [0] * (BINS - 1) + [2]
    assert profile.memberships[1].tolist() == [2] + [0] * (BINS - 1)


def test_among_more_sources_a_profile_has_zeros_for_the_others():
    rng = np.random.default_rng(0)
    own, all_of_them = Profile.zero(2, 3), Profile.zero(5, 3)
    for source, number in enumerate((3, 1)):
        Ht = rng.dirichlet(np.ones(3), 20)
        own.count(Ht, source)
        all_of_them.count(Ht, number)
    found = own.among(np.array([3, 1]), 5)
    for field in fields(Profile):
        assert_array_equal(getattr(found, field.name), getattr(all_of_them, field.name))
