"""A pass in one loop gives what the functions for each of its steps give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.kernels import cpu
from strategies import generators


def a_problem(rng, n, m, r):
    """Return samples, a basis with its offset and Gram matrix, and weights."""
    W = rng.normal(size=(m, r))
    Xt = rng.dirichlet(np.full(r, 0.3), n) @ W.T + 0.2 * rng.normal(size=(n, m))
    centre = W.mean(axis=1)
    W = W - centre[:, None]
    return np.ascontiguousarray(Xt), W, centre @ W, W.T @ W, rng.uniform(0.5, 3.0, n)


def in_one_loop(Xt, W, offset, Q, weights, Ht, noise, *, warm):
    """Return what a pass finds, and the samples that it leaves."""
    loop = cpu.OneLoop(W, offset, Q)
    out = np.zeros(loop.size)
    left = loop.over(Xt, np.sqrt(weights), Ht, noise, out, warm=warm)
    return loop.parts_of(out), left


def in_steps(Xt, W, offset, Q, weights, noise):
    """Return memberships and what a pass finds, step by step."""
    Ht = cpu.solve_h(Q, cpu.products(Xt, W, offset), np.zeros(len(Q)))
    sums, faces = cpu.Sums(*W.shape, np.float64), cpu.FaceCovariance(Q, noise)
    sums.add(Xt, Ht, weights)
    faces.add(Ht, weights)
    return Ht, (sums.total().XHt, sums.total().HHt, *faces.total())


@given(rng=generators(), n=st.integers(1, 200), m=st.integers(1, 23), r=st.integers(1, cpu.OneLoop.MAX_RANK))
def test_it_gives_what_its_steps_give(rng, n, m, r):
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    expected, sums = in_steps(Xt, W, offset, Q, weights, 0.05)
    Ht = np.empty((n, r))
    for warm in (False, True):
        found, left = in_one_loop(Xt, W, offset, Q, weights, Ht, 0.05, warm=warm)
        if len(left):  # on faces where Q is near singular
            continue
        assert_allclose(Ht, expected, atol=1e-8)
        for one, other in zip(found, sums, strict=True):
            assert_allclose(one, other, rtol=1e-7, atol=1e-7 * weights.sum())


def test_samples_that_are_left_keep_what_they_had_and_are_in_no_sum(rng):
    n, m, r = 300, 6, 5
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    Xt[::7, 2] = np.nan
    Ht = np.full((n, r), np.nan)
    found, left = in_one_loop(Xt, W, offset, Q, weights, Ht, 0.05, warm=False)
    assert_array_equal(left, np.arange(0, n, 7))
    assert np.isnan(Ht[left]).all()
    there = np.setdiff1d(np.arange(n), left)
    H, own = Ht[there], weights[there]
    faces = cpu.FaceCovariance(Q, 0.05)
    faces.add(H, own)
    for one, other in zip(
        found, (Xt[there].T @ (H * own[:, None]), H.T @ (H * own[:, None]), *faces.total()), strict=True
    ):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_without_noise_there_are_no_covariances(rng):
    Xt, W, offset, Q, weights = a_problem(rng, 100, 5, 3)
    (XHt, HHt, S, log_det), _ = in_one_loop(Xt, W, offset, Q, weights, np.empty((100, 3)), None, warm=False)
    assert not S.any()
    assert log_det == 0.0
    assert HHt.sum() == pytest.approx(weights.sum())
    assert_allclose(XHt.sum(axis=1), weights @ Xt)


def test_memberships_do_not_depend_on_which_samples_are_worked_on_together(rng):
    Xt, W, offset, Q, weights = a_problem(rng, 300, 7, 4)
    whole = np.empty((300, 4))
    in_one_loop(Xt, W, offset, Q, weights, whole, 0.05, warm=False)
    for rows in (slice(0, 1), slice(3, 70), slice(100, 300)):
        part = np.empty_like(whole[rows])
        in_one_loop(Xt[rows], W, offset, Q, weights[rows], part, 0.05, warm=False)
        assert_array_equal(part, whole[rows])
