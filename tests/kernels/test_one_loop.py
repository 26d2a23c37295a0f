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
    return np.ascontiguousarray(Xt), *about_its_centre(W), rng.uniform(0.5, 3.0, n)


def about_its_centre(W):
    """Return a basis about the mean of its columns, what that adds to W'x, and the Gram matrix."""
    centre = W.mean(axis=1)
    W = W - centre[:, None]
    return W, centre @ W, W.T @ W


def after_a_pass(loop, W, offset, Q, noise):
    """Return what a pass finds, and the samples that it leaves. Pieces are worked on in any order."""
    for piece in loop.prepare(W, offset, Q, noise)[::-1]:
        piece()
    *found, left = loop.total()
    return found, left


def in_steps(Xt, W, offset, Q, weights, noise):
    """Return memberships and what a pass finds, step by step."""
    Ht = cpu.solve_h(Q, cpu.products(Xt, W, offset), np.zeros(len(Q)))
    return Ht, sums_over(Xt, Ht, Q, weights, noise)


def sums_over(Xt, Ht, Q, weights, noise):
    """Return the sums over samples with memberships."""
    sums, faces = cpu.Sums(Xt.shape[1], len(Q), np.float64), cpu.FaceCovariance(Q, noise)
    sums.add(Xt, Ht, weights)
    faces.add(Ht, weights)
    return sums.total().XHt, sums.total().HHt, *faces.total()


def in_order(loop):
    """Return memberships in the order of the samples."""
    return loop.Ht[np.argsort(loop.order)]


@given(
    rng=generators(),
    n=st.integers(1, 200),
    m=st.integers(1, 23),
    r=st.integers(1, cpu.OneLoop.MAX_RANK),
    n_pieces=st.integers(1, 4),
)
def test_it_gives_what_its_steps_give(rng, n, m, r, n_pieces):
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    loop = cpu.OneLoop(Xt, weights, r, n_pieces)
    for _ in range(4):
        found, left = after_a_pass(loop, W, offset, Q, 0.05)
        expected, sums = in_steps(Xt, W, offset, Q, weights, 0.05)
        if not len(left):  # on faces where Q is near singular
            assert_allclose(in_order(loop), expected, atol=1e-8)
            for one, other in zip(found, sums, strict=True):
                assert_allclose(one, other, rtol=1e-7, atol=1e-7 * weights.sum())
        W, offset, Q = about_its_centre(W + 0.1 * rng.normal(size=(m, r)))


@pytest.mark.parametrize("n_pieces", [1, 4])
def test_samples_whose_memberships_are_not_found_are_in_no_sum(n_pieces, rng):
    n, m, r = 300, 6, 5
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    Xt[::7, 2] = np.nan
    loop = cpu.OneLoop(Xt, weights, r, n_pieces)
    for _ in range(4):  # their order changes meanwhile
        found, left = after_a_pass(loop, W, offset, Q, 0.05)
        assert_array_equal(np.sort(loop.order[left]), np.arange(0, n, 7))
        assert np.isnan(loop.Ht[left]).all()
        loop.Ht[left] = 1.0 / r  # found in another way, which the next pass knows nothing of
        there = np.setdiff1d(np.arange(n), left)
        rows = loop.order[there]
        expected = sums_over(Xt[rows], loop.Ht[there], Q, weights[rows], 0.05)
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_without_noise_there_are_no_covariances(rng):
    Xt, W, offset, Q, weights = a_problem(rng, 100, 5, 3)
    (XHt, HHt, S, log_det), _ = after_a_pass(cpu.OneLoop(Xt, weights, 3, 1), W, offset, Q, None)
    assert not S.any()
    assert log_det == 0.0
    assert HHt.sum() == pytest.approx(weights.sum())
    assert_allclose(XHt.sum(axis=1), weights @ Xt)


def test_memberships_do_not_depend_on_pieces_nor_on_earlier_passes(rng):
    n, m, r = 300, 7, 6
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    fresh = cpu.OneLoop(Xt, weights, r, 1)
    after_a_pass(fresh, W, offset, Q, 0.05)
    for n_pieces in (1, 2, 5):
        loop = cpu.OneLoop(Xt, weights, r, n_pieces)
        for _ in range(7):
            after_a_pass(loop, *about_its_centre(rng.normal(size=(m, r))), 0.05)
        after_a_pass(loop, W, offset, Q, 0.05)
        assert_array_equal(in_order(loop), fresh.Ht)


def test_samples_are_sorted_by_their_faces_while_they_move_most(rng):
    n, m, r = 300, 7, 6
    Xt, W, offset, Q, weights = a_problem(rng, n, m, r)
    loop = cpu.OneLoop(Xt, weights, r, 2)
    for _ in range(2):
        after_a_pass(loop, W, offset, Q, 0.05)
    is_on = loop.Ht > 1e-6
    assert 1 + (is_on[1:] != is_on[:-1]).any(axis=1).sum() == len(np.unique(is_on, axis=0)) > 10
    assert_array_equal(np.sort(loop.order), np.arange(n))


@pytest.mark.parametrize("n_pieces", [1, 2])
def test_each_pass_begins_anew(n_pieces, rng):
    Xt, W, offset, Q, weights = a_problem(rng, 100, 5, 3)
    loop = cpu.OneLoop(Xt, weights, 3, n_pieces)
    first, _ = after_a_pass(loop, W, offset, Q, 0.05)
    second, _ = after_a_pass(loop, W, offset, Q, 0.05)
    for one, other in zip(first, second, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("r", "size"), [(6, 1e30), (9, 1e18), (12, 1e18)])
def test_products_in_which_rounding_is_larger_than_the_simplex_do_no_harm(r, size, rng):
    """Then memberships of a face may all come out negative, which without rounding cannot be."""
    n, m = 2000, 16
    W, _, Q = about_its_centre(rng.normal(size=(m, r)))
    ties = rng.integers(-1, 2, (n, r)) * 1.0
    Xt = (ties - ties.mean(axis=1, keepdims=True)) @ np.linalg.pinv(W) * (1.0 + 1e-16 * rng.integers(-3, 4, (n, m)))
    nowhere, loop = np.zeros(r), cpu.OneLoop(np.ascontiguousarray(Xt), np.ones(n), r, 4)
    small = W / size
    for _ in range(12):
        near = about_its_centre(W + 0.3 * rng.normal(size=(m, r)))[0]
        after_a_pass(loop, near, nowhere, near.T @ near, 0.05)
        (_, HHt, S, _), left = after_a_pass(loop, small, nowhere, small.T @ small, 0.05)
        assert ((loop._faces > 0) & (loop._faces < 1 << r)).all()  # they are indices
        found = np.delete(loop.Ht, left, axis=0)
        assert_allclose(found.sum(axis=1), 1.0)
        assert_allclose(HHt, found.T @ found, atol=1e-6)
        assert np.isfinite(S).all()
    assert_allclose(cpu.solve_h(Q, size * Xt @ W, nowhere).sum(axis=1), 1.0)
