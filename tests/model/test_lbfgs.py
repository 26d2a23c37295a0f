"""Limited-memory BFGS, on maps whose fixed point is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.lbfgs import BLIND, DEPTH, LBFGS, LONGEST, PATIENCE
from strategies import generators

M, R = 6, 3
ORIGIN = np.zeros(M)


def positive(rng, size, least=0.1, largest=1.0):
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return (Q * rng.uniform(least, largest, size)) @ Q.T


class Linear:
    """W-steps that go part of the way to a fixed point: all of it off the plane, ``slowest`` to one of it inside."""

    def __init__(self, rng, slowest=0.1):
        self.A = positive(rng, R)
        self.end = 3.0 * rng.normal(size=(M, R))
        root = np.linalg.cholesky(np.kron(np.eye(M), self.A))
        self.rate = np.linalg.solve(root.T, positive(rng, M * R, slowest) @ root.T)

    def move(self, W):
        return (self.rate @ (self.end - W).ravel()).reshape(M, R)


def descend(problem, W, steps, lam=0.0):
    lbfgs = LBFGS()
    for _ in range(steps):
        lbfgs = lbfgs.update(W, W + problem.move(W), problem.A, ORIGIN, lam)
        W = lbfgs.ahead
    return W, lbfgs


@given(generators())
def test_without_any_step_the_next_point_is_that_of_the_w_step(rng):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    lbfgs = LBFGS().update(W, W + problem.move(W), problem.A, ORIGIN, 0.0)
    assert_array_equal(lbfgs.ahead, W + problem.move(W))
    assert lbfgs.change == BLIND * lbfgs.residual  # nothing is known of how far the limit is


@given(generators())
def test_the_next_point_is_downhill(rng):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    for steps in range(1, 8):
        ahead, lbfgs = descend(problem, W, steps)
        assert np.vdot((ahead - lbfgs.point) @ problem.A, lbfgs.move) > 0.0


def test_it_gets_on_faster_than_alternation():
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem, start = Linear(rng, slowest=0.02), rng.normal(size=(M, R))
        plain = start
        for _ in range(20):
            plain = plain + problem.move(plain)
        ratios.append(
            np.linalg.norm(descend(problem, start, 20)[0] - problem.end) / np.linalg.norm(plain - problem.end)
        )
    assert np.median(ratios) < 0.3


def test_the_change_tells_how_far_the_limit_is():
    """It is an estimate: within a factor of ten, where alternation alone would be off by the rate of convergence."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem, W = Linear(rng, slowest=0.02), rng.normal(size=(M, R))
        for steps in (8, 16, 24):
            _, lbfgs = descend(problem, W, steps)
            D = lbfgs.point - problem.end
            far = np.sqrt(np.vdot(D @ problem.A, D) / np.vdot(problem.end @ problem.A, problem.end))
            assert 0.1 * far <= lbfgs.change <= 10.0 * far


@given(generators())
def test_no_step_is_longer_than_so_many_moves(rng):
    A, direction = np.eye(R), rng.normal(size=(M, R))
    first = LBFGS().update(np.zeros((M, R)), 1e-3 * direction, A, ORIGIN, 0.0)
    # The move hardly changes along the step: the still point seems a thousand steps away.
    lbfgs = first.update(direction, direction + (1.0 - 1e-4) * 1e-3 * direction, A, ORIGIN, 0.0)
    length = np.linalg.norm(lbfgs.ahead - lbfgs.point)
    assert length <= (1.0 + 1e-9) * LONGEST * np.linalg.norm(lbfgs.move)


@given(generators())
def test_where_moves_grow_it_goes_on_with_them(rng):
    """Near a saddle the still point is behind: the pair is left out, and alternation leads away from it."""
    A, D = np.eye(R), rng.normal(size=(M, R))
    lbfgs = LBFGS().update(D, 1.1 * D, A, ORIGIN, 0.0).update(1.1 * D, 1.21 * D, A, ORIGIN, 0.0)
    assert np.vdot(lbfgs.ahead - lbfgs.point, D) > 0.0
    assert_allclose(lbfgs.ahead, 1.21 * D, rtol=1e-9)


@given(generators(), st.floats(0.0, 3.0))
def test_a_step_was_too_long_if_the_move_points_back_or_has_grown(rng, back):
    A, D = np.eye(R), rng.normal(size=(M, R))
    lbfgs = LBFGS().update(np.zeros((M, R)), D, A, ORIGIN, 0.0).update(0.5 * D, 1.0 * D, A, ORIGIN, 0.0)
    updated = lbfgs.update(D, D - back * lbfgs.move, A, ORIGIN, 0.0)
    if abs(back - 0.5) > 1e-9:
        assert lbfgs.accepts(updated, A) is (back < 0.5)
    grown = lbfgs.update(D, D + 100.0 * rng.uniform(1.0, 2.0) * lbfgs.move, A, np.full(M, 1e-3), 0.0)
    if grown.residual > 2.0 * lbfgs.residual:
        assert not lbfgs.accepts(grown, A)


@given(generators())
def test_alternation_is_never_too_long(rng):
    W, A = rng.normal(size=(M, R)), positive(rng, R)
    anything = LBFGS().update(W, 100.0 * W, A, ORIGIN, 0.0)
    assert LBFGS().accepts(anything, A)
    assert LBFGS().update(W, W + 1.0, A, ORIGIN, 0.0).accepts(anything, A)


@given(generators(), st.sampled_from([1e-6, 1e3]), st.sampled_from([1e-4, 1e5]))
def test_it_is_invariant_to_the_units_of_the_data_and_the_number_of_samples(rng, unit, samples):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    ahead, lbfgs = descend(problem, W, 6)
    problem.end, problem.A = unit * problem.end, samples * problem.A
    scaled, other = descend(problem, unit * W, 6)
    assert_allclose(scaled, unit * ahead, rtol=1e-6, atol=1e-6 * np.abs(scaled).max())
    assert_allclose(other.change, lbfgs.change, rtol=1e-4)


@given(generators())
def test_sparse_components_keep_their_zeros_and_signs(rng):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    _, lbfgs = descend(problem, W, 4)
    after = np.where(rng.random(W.shape) < 0.5, 0.0, lbfgs.ahead + problem.move(lbfgs.ahead))
    ahead = lbfgs.update(lbfgs.ahead, after, problem.A, ORIGIN, 0.5).ahead
    assert (ahead[after == 0.0] == 0.0).all()
    assert (ahead * after >= 0.0).all()


@given(generators())
def test_only_columns_with_a_weight_or_a_sign_keep_their_zeros(rng):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    _, lbfgs = descend(problem, W, 4)
    after = np.where(rng.random(W.shape) < 0.5, 0.0, lbfgs.ahead + problem.move(lbfgs.ahead))
    bounds = (np.array([0.5, 0.0, 0.0]), np.array([False, True, False]))
    ahead = lbfgs.update(lbfgs.ahead, after, problem.A, ORIGIN, *bounds).ahead
    free = lbfgs.update(lbfgs.ahead, after, problem.A, ORIGIN, 0.0).ahead
    bound = lbfgs.update(lbfgs.ahead, after, problem.A, ORIGIN, 0.5).ahead
    assert_array_equal(ahead, np.column_stack([bound[:, :2], free[:, 2:]]))


@given(generators())
def test_columns_beside_the_simplex_count_for_the_move_only(rng):
    problem, W = Linear(rng), rng.normal(size=(M, R))
    lbfgs, other = LBFGS(), LBFGS()
    for _ in range(4):
        after = W + problem.move(W)
        lbfgs = lbfgs.update(W, after, problem.A, ORIGIN, 0.0, n_patterns=R - 1)
        # Anything may be added to a column beside the simplex, at the point and after it.
        beside = np.array([0.0] * (R - 1) + [100.0])
        other = other.update(W + beside, after + beside, problem.A, ORIGIN, 0.0, n_patterns=R - 1)
        W = lbfgs.ahead
    assert_allclose(other.ahead, W + beside, rtol=1e-6, atol=1e-6)
    assert_allclose(other.change, lbfgs.change, rtol=1e-6)


def test_so_many_steps_are_kept_and_an_update_changes_nothing_in_place(rng):
    problem = Linear(rng)
    _, lbfgs = descend(problem, rng.normal(size=(M, R)), DEPTH + 3)
    assert len(lbfgs.steps) == len(lbfgs.changes) == DEPTH
    copies = [step.copy() for step in lbfgs.steps], lbfgs.move.copy()
    lbfgs.update(lbfgs.ahead, lbfgs.ahead + problem.move(lbfgs.ahead), problem.A, ORIGIN, 0.0)
    assert_array_equal(lbfgs.steps, copies[0])
    assert_array_equal(lbfgs.move, copies[1])


def test_for_other_samples_the_steps_hold_but_not_the_point(rng):
    problem = Linear(rng)
    _, lbfgs = descend(problem, rng.normal(size=(M, R)), 4)
    moved = lbfgs.for_other_samples()
    assert_array_equal(moved.steps, lbfgs.steps)
    assert moved.point is None
    assert moved.ahead is None
    W = rng.normal(size=(M, R))
    assert len(moved.update(W, W + problem.move(W), problem.A, ORIGIN, 0.0).steps) == len(lbfgs.steps)


def test_small_moves_that_do_not_shrink_are_an_end(rng):
    W, tiny, A = rng.normal(size=(M, R)), 1e-4 * rng.normal(size=(M, R)), np.eye(R)
    lbfgs = LBFGS()
    for count in range(PATIENCE + 1):
        assert not lbfgs.is_stuck(1e6)
        lbfgs = lbfgs.update(W, W + (-1) ** count * tiny, A, ORIGIN, 0.0)
    assert lbfgs.is_stuck(1e6)
    assert lbfgs.restart().is_stuck(1e6)
    large = LBFGS()
    for count in range(2 * PATIENCE):
        large = large.update(W, W + (-1) ** count * 1e3 * tiny, A, ORIGIN, 0.0)
    assert not large.is_stuck(1e6)
    assert large.is_stuck(2.0)  # of two samples, one is half of all


def test_samples_that_are_all_alike_leave_nothing_to_do():
    lbfgs = LBFGS().update(np.zeros((M, R)), np.zeros((M, R)), np.eye(R), ORIGIN, 0.0)
    assert lbfgs.change == 0.0


@pytest.mark.parametrize("r", [1, 3])
def test_a_component_without_samples_does_not_spoil_the_others(r, rng):
    A = np.zeros((r + 1, r + 1))
    A[:r, :r] = positive(rng, r)
    lbfgs = LBFGS()
    for _ in range(3):
        point = np.column_stack([rng.normal(size=(M, r)), np.full(M, 7.0)])
        W = point - np.column_stack([0.3 * rng.normal(size=(M, r)), np.zeros(M)])
        lbfgs = lbfgs.update(point, W, A, ORIGIN, 0.0)
    assert np.isfinite(lbfgs.ahead).all()
    assert_allclose(lbfgs.ahead[:, r], 7.0, atol=1e-6)
