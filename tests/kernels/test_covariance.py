"""What holds for the covariance of memberships in every kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dbmd.registry import load_kernel, names
from kernels.on_host import load_on_host
from strategies import generators

DTYPES = [np.float32, np.float64]
BASES = {
    "plain": lambda rng, m, r: rng.normal(size=(m, r)),
    "ill-conditioned": lambda rng, m, r: rng.normal(size=(m, r)) * np.geomspace(1.0, 1e-6, r),
    "duplicate columns": lambda rng, m, r: rng.normal(size=(m, max(1, r // 2)))[:, np.arange(r) % max(1, r // 2)],
    "far from zero": lambda rng, m, r: 1e3 + rng.normal(size=(m, r)),
    "a far-out column": lambda rng, m, r: rng.normal(size=(m, r)) * np.where(np.arange(r) == 0, 1e4, 1.0),
}
NOISES = [1e-8, 1e-2, 1.0, 1e4, 1e10]  # far below and far above the size of the simplex


@pytest.fixture(params=names("kernels"))
def kernel(request):
    return load_on_host(request.param)


def memberships(rng, n, r, dtype=np.float64, concentration=0.3):
    """Return memberships of which some are zero, written as the H-step writes them."""
    Ht = rng.dirichlet(np.full(r, concentration), n)
    Ht = np.where(Ht < 0.5 / r, 1e-12, Ht)
    return (Ht / Ht.sum(axis=1, keepdims=True)).astype(dtype)


def gram(W):
    return W.T @ W


def total(kernel, Q, noise, Ht, weights=None):
    covariance = kernel.FaceCovariance(Q, noise)
    covariance.add(Ht, weights)
    return covariance.total()


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("r", [1, 2, 7, 12, 13, 50, 100])
def test_agrees_with_the_reference(kernel, r, dtype, basis, noise, rng):
    W, Ht = BASES[basis](rng, 30, r), memberships(rng, 25 if r < 50 else 8, r, dtype)
    # The reference works about the mean, where it can be told from rounding.
    Q = gram(W - W.mean(axis=1, keepdims=True))
    S, log_det = total(kernel, Q, noise, Ht)
    expected, expected_log_det = total(load_kernel("reference"), Q, noise, Ht)
    # What the reference loses by taking differences of the inverse, relative to the largest entry that there may be.
    assert_allclose(S, expected, rtol=1e-6, atol=1e-5 * np.abs(S).max() + 1e-9 * len(Ht))
    assert_allclose(log_det, expected_log_det, rtol=1e-7, atol=1e-6 * len(Ht))


@given(generators(), st.sampled_from([1, 2, 5, 12, 13, 20]), st.sampled_from(NOISES))
@pytest.mark.parametrize("name", names("kernels"))
def test_is_positive_and_keeps_the_sum_of_the_memberships(name, rng, r, noise):
    Ht = memberships(rng, 10, r)
    S, log_det = total(load_on_host(name), gram(rng.normal(size=(8, r))), noise, Ht)
    assert_allclose(S, S.T, atol=1e-9)
    assert np.linalg.eigvalsh(S).min() >= -1e-7
    assert_allclose(S.sum(axis=1), 0.0, atol=1e-7)
    assert log_det >= -1e-6  # the data only add to what the prior knows


@given(generators(), st.sampled_from([3, 12, 13, 20]))
def test_depends_on_differences_of_the_columns_alone(rng, r):
    kernel, W, Ht = load_kernel("cpu"), rng.normal(size=(8, r)), memberships(rng, 10, r)
    here, there = (total(kernel, gram(W - c), 0.1, Ht) for c in (0.0, rng.normal(size=(8, 1))))
    assert_allclose(here[0], there[0], rtol=1e-6, atol=1e-9)
    assert_allclose(here[1], there[1], rtol=1e-8)


@given(generators(), st.sampled_from([3, 12, 13, 20]))
@pytest.mark.parametrize("name", names("kernels"))
def test_adds_over_samples_and_follows_their_weights(name, rng, r):
    kernel, Q, Ht = load_on_host(name), gram(rng.normal(size=(8, r))), memberships(rng, 12, r)
    times = rng.integers(1, 4, len(Ht))
    in_parts = kernel.FaceCovariance(Q, 0.5)
    for part in np.array_split(np.arange(len(Ht)), 3):
        in_parts.add(Ht[part], times[part].astype(float))
    repeated = total(kernel, Q, 0.5, np.repeat(Ht, times, axis=0))
    for found, expected in zip(in_parts.total(), repeated, strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@given(generators(), st.sampled_from([3, 12, 13]), st.sampled_from([1e-18, 1e-9, 1e12, 1e30]))
@pytest.mark.parametrize("name", names("kernels"))
def test_weights_may_be_of_any_size(name, rng, r, size):
    kernel, Q, Ht = load_on_host(name), gram(rng.normal(size=(8, r))), memberships(rng, 12, r)
    weights = rng.random(len(Ht)) + 0.1
    for found, expected in zip(
        total(kernel, Q, 0.5, Ht, size * weights), total(kernel, Q, 0.5, Ht, weights), strict=True
    ):
        assert_allclose(found / size, expected, rtol=1e-9, atol=1e-12)


@given(generators(), st.sampled_from([3, 12, 13]))
@pytest.mark.parametrize("name", names("kernels"))
def test_samples_with_weights_and_without_may_be_mixed_and_the_total_asked_for_again(name, rng, r):
    kernel, Q, Ht = load_on_host(name), gram(rng.normal(size=(8, r))), memberships(rng, 20, r)
    mixed = kernel.FaceCovariance(Q, 0.5)
    for part, weights in ((Ht[:6], None), (Ht[6:13], np.ones(7)), (Ht[13:], None)):
        mixed.add(part, weights)
    for _ in range(2):
        for found, expected in zip(mixed.total(), total(kernel, Q, 0.5, Ht), strict=True):
            assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@given(generators(), st.sampled_from([4, 12, 13, 30]))
@pytest.mark.parametrize("name", names("kernels"))
def test_is_that_of_a_gaussian_on_the_face(name, rng, r):
    """Against the definition: the inverse of the precision in an orthonormal basis of the plane of the face."""
    Q, Ht = gram(rng.normal(size=(40, r))), memberships(rng, 1, r)
    face = np.flatnonzero(Ht[0] > 1e-6)
    f = len(face)
    S, log_det = total(load_on_host(name), Q, 0.3, Ht)
    tangent = np.linalg.svd(np.ones((1, f)))[2][1:].T
    precision = tangent.T @ (Q[np.ix_(face, face)] / 0.3 + f * (f + 1) * np.eye(f)) @ tangent
    assert_allclose(S[np.ix_(face, face)], tangent @ np.linalg.inv(precision) @ tangent.T, atol=1e-10)
    assert_allclose(np.delete(S, face, axis=0), 0.0, atol=1e-12)
    assert_allclose(log_det, np.linalg.slogdet(precision)[1] - (f - 1) * np.log(f * (f + 1)), atol=1e-8)


@given(generators(), st.sampled_from([3, 13]))
@pytest.mark.parametrize("name", names("kernels"))
def test_the_logarithm_has_the_covariance_as_its_slope(name, rng, r):
    """d(log det) = <S, dQ> / noise, faces fixed: what makes the W-step descend the evidence."""
    kernel, Ht = load_on_host(name), memberships(rng, 5, r)
    W, D = rng.normal(size=(2, 20, r))
    S, _ = total(kernel, gram(W), 0.7, Ht)
    step = 1e-5
    above, below = (total(kernel, gram(W + sign * step * D), 0.7, Ht)[1] for sign in (1, -1))
    slope = np.vdot(S, W.T @ D + D.T @ W) / 0.7
    assert_allclose((above - below) / (2 * step), slope, rtol=1e-5, atol=1e-5)


def test_of_nothing_is_nothing(kernel):
    for r in (3, 20):
        S, log_det = total(kernel, np.eye(r), 1.0, np.empty((0, r)))
        assert not S.any()
        assert log_det == 0.0


def test_there_may_be_very_many_components(device, rng):
    """On a device, where not even the list of the rows of a triangle fits into shared memory."""
    r = 480
    Q, Ht = gram(rng.normal(size=(600, r))), rng.dirichlet(np.ones(r), 3)
    for found, expected in zip(
        total(load_on_host("gpu"), Q, 50.0, Ht), total(load_kernel("cpu"), Q, 50.0, Ht), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
