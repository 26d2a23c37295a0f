"""Which components of two fits are the same, and how well they agree."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.agreement import correlations, matched
from dbmd.model.stability import largest_stable, limit_of, typical, worth_another_split

SEEDS = st.integers(0, 2**32 - 1)


def memberships(seed, n=40, r=4, noise=0.1):
    rng = np.random.default_rng(seed)
    first, other = rng.dirichlet(np.full(r, 0.5), n), rng.dirichlet(np.full(r, 0.5), n)
    return rng, first, (1 - noise) * first + noise * other


@given(SEEDS, st.floats(0.0, 1.0))
def test_pairs_do_not_depend_on_the_order_of_fits_components_and_rows(seed, noise):
    rng, A, B = memberships(seed, noise=noise)
    partner, agreement = matched(A, B)
    assert_array_equal(np.sort(partner), np.arange(4))
    back, same = matched(B, A)
    assert_array_equal(back[partner], np.arange(4))
    assert_allclose(same[partner], agreement, atol=1e-12)
    of_a, of_b, rows = rng.permutation(4), rng.permutation(4), rng.permutation(len(A))
    moved, same = matched(A[rows][:, of_a], B[rows][:, of_b])
    assert_array_equal(of_b[moved], partner[of_a])
    assert_allclose(same, agreement[of_a], atol=1e-12)


@given(SEEDS)
def test_the_twin_in_plain_numpy(seed):
    _, A, B = memberships(seed, noise=0.7)
    C = np.corrcoef(A.T, B.T)[:4, 4:]
    assert_allclose(correlations(A, B), C, atol=1e-12)
    best = max(permutations(range(4)), key=lambda order: C[np.arange(4), order].sum())
    assert_allclose(matched(A, B)[1].sum(), C[np.arange(4), best].sum(), atol=1e-12)


@given(SEEDS)
def test_weights_are_repetitions_and_rows_without_memberships_do_not_count(seed):
    rng, A, B = memberships(seed)
    times = rng.integers(0, 4, len(A))
    repeated = correlations(np.repeat(A, times, axis=0), np.repeat(B, times, axis=0))
    assert_allclose(correlations(A, B, times), repeated, atol=1e-12)
    A[times == 0], B[:2] = np.nan, np.nan
    times[:2] = 0
    seen = times > 0
    assert_allclose(correlations(A, B), correlations(A[seen], B[seen]), atol=1e-12)


def test_components_that_no_sample_has_agree_with_nothing():
    _, A, B = memberships(0)
    A[:, 1], B[:, 2] = 0.25, 0.0
    C = correlations(A, B)
    assert not C[1].any()
    assert not C[:, 2].any()
    assert not correlations(np.full_like(A, np.nan), B).any()


def test_known_components_are_themselves():
    _, A, B = memberships(1, noise=0.0)
    partner, agreement = matched(A, B[:, [1, 0, 3, 2]], n_known=2)
    assert_array_equal(partner, [0, 1, 3, 2])
    assert_allclose(agreement[2:], 1.0)
    assert (agreement[:2] < 0.9).all()


nan = np.nan


@pytest.mark.parametrize(
    ("curve", "expected", "limit"),
    [
        ([0.99, 0.999, 0.3, 0.1], 1, 0.985),  # it falls at once
        ([0.2, 0.1, 0.98, 0.0], 2, 0.95),  # fewer are less stable, and few samples make all correlations lower
        ([0.9999, 0.999, 0.984, 0.7], 1, 0.985),  # a component that mends a model that is not quite right
        ([0.994, 0.98, 0.77], 0, 0.985),
        ([0.95, 0.85, 0.53], 0, 0.9),
        ([0.1, 0.3, 0.2], None, 0.9),  # nothing is stable
        ([1.0, 0.97, 0.2], 1, 0.925),  # one component alone agrees by definition, which says nothing of the others
        ([1.0, 0.5, 0.2], 0, 0.9),
    ],
)
def test_the_rule_on_made_up_curves(curve, expected, limit):
    worst = np.array(curve)[:, None]
    assert largest_stable(worst) == expected
    assert limit_of(worst) == pytest.approx(limit)


def test_a_typical_split_decides():
    worst = np.array([[0.999, 0.999, 0.99], [0.2, 0.999, 0.998], [0.999, 0.1, 0.2], [0.0, nan, nan]])
    assert_allclose(typical(worst), [0.999, 0.998, 0.2, 0.0])
    assert largest_stable(worst) == 1


def test_further_splits_are_made_where_they_can_change_the_choice():
    assert worth_another_split(np.array([[0.99], [0.999], [0.1], [0.6], [0.2]])) == [1, 2, 3]
    assert worth_another_split(np.array([[0.1], [0.2], [0.1]])) == [0, 1]
    assert worth_another_split(np.array([[0.99]])) == [0]
