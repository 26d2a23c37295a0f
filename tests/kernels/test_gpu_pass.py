"""A pass over few components on a GPU, and its parts one by one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.kernels import cpu, reference
from dbmd.kernels._gpu_pass import Pass
from strategies import generators

NOISE = 0.3
keeps_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def passed(device, Xt, W, *, offset=None, noise=NOISE, norms=True, cuts=(), start=None):
    """Return what a pass finds of samples in chunks, and their memberships."""
    Ht = device.empty((len(Xt), W.shape[1]), Xt.dtype) if start is None else device.asarray(start)
    one = Pass(*Pass.load(W, offset, Xt.dtype), lambda: W.T @ W, noise, norms=norms)
    for i, j in pairwise([0, *cuts, len(Xt)]):
        one.over(device.asarray(Xt[i:j]), None if start is None else Ht[i:j], Ht[i:j])
    one.send()
    return one.total(), Ht.get()


def samples(rng, n, W, dtype=np.float64):
    m, r = W.shape
    return (rng.dirichlet(np.full(r, 0.3), n) @ W.T + 0.3 * rng.normal(size=(n, m))).astype(dtype)


def check_sums(found, Xt, Ht, W, *, noise, norms):
    """Check the sums over samples and their memberships as they were found."""
    expected = reference.Sums(*W.shape, np.float64)
    expected.add(Xt, Ht.astype(np.float64), None, norms=norms)
    for one, other in zip(found.sums, expected.total(), strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    if noise is None:
        assert found.covariance is None
        return
    covariance = reference.FaceCovariance(W.T @ W, noise)
    covariance.add(Ht)
    for one, other in zip(found.covariance, covariance.total(), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@keeps_device
@given(
    generators(),
    st.sampled_from([1, 2, 5, 12]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, NOISE, 1e-5]),
    st.sampled_from([(), (256,), (100, 101)]),
)
def test_it_finds_what_its_parts_find_one_by_one(device, rng, r, has_offset, norms, noise, cuts):
    W = rng.normal(size=(20, r))
    Xt, offset = samples(rng, 300, W), rng.normal(size=r) if has_offset else None
    found, Ht = passed(device, Xt, W, offset=offset, noise=noise, norms=norms, cuts=cuts)
    Bt = reference.products(Xt, W, offset)
    assert_allclose(Ht, cpu.solve_h(W.T @ W, Bt, np.zeros(r)), atol=1e-9)
    assert found.is_finite
    check_sums(found, Xt, Ht, W, noise=noise, norms=norms)


@pytest.mark.parametrize("where", [slice(0, 3), slice(0, 300, 50), slice(290, None), slice(0, 0)])
def test_samples_without_a_face_are_solved_in_any_chunk(device, rng, where):
    W = rng.normal(size=(9, 6))
    W[:, 3:] = W[:, :3]  # two of each: on a face with both, the solution is not unique
    Xt, start = samples(rng, 300, W), np.tile(np.eye(6)[[0]], (300, 1))
    start[where] = 1 / 6
    for cuts in ((), (3,), (100, 290)):
        found, Ht = passed(device, Xt, W, start=start, cuts=cuts)
        assert (Ht > 0.0).all()  # none is left with its mark
        assert_allclose(Ht.sum(axis=1), 1.0)
        check_sums(found, Xt, Ht, W, noise=NOISE, norms=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [None, 0, 150, 299])
def test_products_that_are_not_finite_are_noticed(device, rng, dtype, row):
    W = rng.normal(size=(9, 4))
    Xt = samples(rng, 300, W, dtype)
    if row is not None:
        Xt[row] = 0.9 * np.finfo(dtype).max
    with np.errstate(over="ignore", invalid="ignore"):
        for cuts in ((), (100,)):
            assert passed(device, Xt, W, cuts=cuts)[0].is_finite == (row is None)


def test_a_pass_after_another_has_the_same_bits(device, rng):
    W = rng.normal(size=(9, 10))
    Xt = samples(rng, 700, W, np.float32)
    first, Ht = passed(device, Xt, W)
    again, others = passed(device, Xt, W)
    assert_array_equal(others, Ht)
    for one, other in zip([*first.sums, *first.covariance], [*again.sums, *again.covariance], strict=True):
        assert_array_equal(one, other)


def test_one_basis_serves_several_sources_with_offsets_of_their_own(device, rng):
    W, offsets = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
    Xt, (there, of_each) = samples(rng, 300, W), Pass.load(W, offsets, np.dtype(np.float64))
    for offset, loaded in zip(offsets, of_each, strict=True):
        Ht = device.empty((300, 4))
        one = Pass(there, loaded, lambda: W.T @ W, NOISE, norms=False)
        one.over(device.asarray(Xt), None, Ht)
        found, expected = one.total(), passed(device, Xt, W, offset=offset, norms=False)[0]
        for mine, other in zip([*found.sums, *found.covariance], [*expected.sums, *expected.covariance], strict=True):
            assert_array_equal(mine, other)
