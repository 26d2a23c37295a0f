"""The H-step on a GPU, or compiled for the CPU: what the conformance suite does not ask of every kernel."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.kernels import _gpu_covariance, _gpu_gaps, _gpu_h_step, cpu, reference
from strategies import BASES, generators, h_problem, memberships

DTYPES = [np.float32, np.float64]
KKT = {np.float32: 1e-4, np.float64: 1e-6}
RANKS = [1, 2, 5, 12, 13, 27, 60]  # up to FEW components each is compiled by itself
keeps_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


def solved(device, problem, start=None):
    start = None if start is None else device.asarray(start)
    return _gpu_h_step.solve_h(problem.Q, device.asarray(problem.Bt), problem.a, start).get()


@keeps_device
@given(generators(), st.sampled_from(RANKS), st.sampled_from(BASES), st.sampled_from([0.0, 1e-3, "vector"]))
def test_it_is_as_good_as_the_oracle_wherever_it_starts(device, dtype, rng, r, basis, prior):
    problem = h_problem(rng, r, 10, basis=basis, prior=prior, dtype=dtype)
    expected = reference.solve_h(problem.Q, problem.Bt.astype(np.float64), problem.a)
    corners = np.eye(r)[rng.integers(0, r, 10)]
    for start in (None, corners.astype(dtype), np.roll(expected, 1, axis=0).astype(dtype)):
        Ht = solved(device, problem, start)
        assert (Ht > 0.0).all()  # no sample is left with its mark
        assert_allclose(Ht.sum(axis=1, dtype=np.float64), 1.0, atol=(2 + r) * np.finfo(dtype).eps)
        assert problem.residual(Ht).max() <= KKT[dtype]
        worse = problem.objective(Ht) - problem.objective(expected)
        assert (worse <= 10 * KKT[dtype] * problem.scale).all()


@pytest.mark.parametrize("basis", ["plain", "outliers", "duplicate columns"])
@pytest.mark.parametrize("prior", [0.0, 0.05])
@pytest.mark.parametrize("r", [5, 17])
def test_a_sample_has_the_same_bits_whatever_the_grid_and_its_batch(device, dtype, r, prior, basis, rng, monkeypatch):
    problem = h_problem(rng, r, 1200, basis=basis, prior=prior, dtype=dtype)
    start = rng.dirichlet(np.ones(r), 1200).astype(dtype)
    whole = solved(device, problem, start)
    for blocks in (1, 7):
        monkeypatch.setattr(_gpu_h_step, "BLOCKS", blocks)
        assert_array_equal(solved(device, problem, start), whole)
    for rows in (rng.permutation(1200), np.arange(0, 1200, 7), np.array([3]), np.repeat(5, 70)):
        Bt = device.asarray(np.ascontiguousarray(problem.Bt[rows]))
        part = _gpu_h_step.solve_h(problem.Q, Bt, problem.a, device.asarray(start[rows])).get()
        assert_array_equal(part, whole[rows])


@pytest.mark.parametrize("r", [5, 17])
def test_what_faces_cannot_solve_is_solved_from_inside(device, dtype, r, rng):
    problem = h_problem(rng, r, 60, dtype=dtype)
    broken = problem.Bt.copy()
    broken[::7] = np.nan
    found = _gpu_h_step.solve_h(problem.Q, device.asarray(broken), problem.a).get()
    whole = np.isfinite(broken).all(axis=1)
    assert_array_equal(found[whole], solved(device, problem)[whole])
    assert np.isnan(found[~whole]).all()
    # Two equal components: on no face that has both is the solution unique.
    Bt, centre = device.zeros((5, r), dtype), device.full((5, r), 1 / r, dtype)
    twins = _gpu_h_step.solve_h(np.ones((r, r)), Bt, np.zeros(r), centre)
    assert_allclose(twins.get(), 1 / r, atol=1e-6)


@pytest.mark.parametrize("prior", [0.0, 0.05])
def test_where_shared_memory_is_too_small_the_workspace_is_elsewhere(device, prior, rng, monkeypatch):
    problem, W = h_problem(rng, 17, 300, prior=prior), rng.normal(size=(30, 17))
    expected = solved(device, problem)
    covariance = total(device, W.T @ W, [expected])
    known = _gpu_h_step.attribute
    for module in (_gpu_h_step, _gpu_covariance):
        monkeypatch.setattr(
            module, "attribute", lambda name: 1024 if name == "MaxSharedMemoryPerBlockOptin" else known(name)
        )
    assert_allclose(solved(device, problem), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(total(device, W.T @ W, [expected])[0], covariance[0], rtol=1e-9)


KIB = 1024
CARDS = [48 * KIB, 64 * KIB, 99 * KIB, 163 * KIB, 227 * KIB]  # shared memory that a block may have


@pytest.mark.parametrize("room", CARDS)
@pytest.mark.parametrize("r", [13, 20, 32, 33, 50, 64, 65, 100, 128, 150, 256, 400, 700])
def test_a_block_has_no_more_shared_memory_than_its_card_has(r, room):
    shared, constants = _gpu_h_step._tiles(r, room)
    assert shared <= room
    assert constants["THREADS"] % 32 == 0
    for limit in (r // 2, r):
        shared, constants = _gpu_h_step._layout(r, limit, room)
        assert shared <= room
        assert bool(shared) != ("ROOMS_OUTSIDE" in constants)
        assert constants["THREADS"] % 32 == 0
        assert 0 < constants["THREADS"] <= _gpu_h_step.MANY
        assert constants["SLOTS"] * constants["LANES"] >= r > (constants["SLOTS"] - 2) * constants["LANES"]
        if shared and limit < r and r <= 100:  # M and N leave room for a few samples
            assert constants["THREADS"] >= 2 * constants["LANES"]


@pytest.mark.parametrize("room", CARDS[:3])
@pytest.mark.parametrize("r", [17, 50, 90])
def test_small_cards_find_the_same(device, dtype, r, room, rng, monkeypatch):
    problem = h_problem(rng, r, 150, dtype=dtype)
    expected, known = solved(device, problem), _gpu_h_step.attribute
    monkeypatch.setattr(_gpu_h_step, "attribute", lambda name: room if name.startswith("MaxShared") else known(name))
    assert_allclose(solved(device, problem), expected, rtol=1e-9, atol=1e-12)


def test_a_sample_with_gaps_has_the_same_bits_however_many_are_solved_at_a_time(device, dtype, rng, monkeypatch):
    W, gaps = rng.normal(size=(40, 17)), device.asarray(rng.random((700, 40)) < 0.3)
    Bt = device.asarray((rng.dirichlet(np.ones(17), 700) @ W.T @ W).astype(dtype))

    def found():
        Ht = _gpu_gaps.solve_h_with_gaps(W.T @ W, W, gaps, Bt, np.zeros(17))
        covariance = _gpu_gaps.GapCovariance(W.T @ W, W, 0.3)
        covariance.add(Ht[:512], gaps[:512])
        covariance.add(Ht[512:], gaps[512:])
        return Ht.get(), *covariance.total(), _gpu_h_step.solve_h(W.T @ W, Bt, np.zeros(17)).get()

    whole = found()
    monkeypatch.setattr(_gpu_gaps, "NUMBERS", 300 * 17**2)
    monkeypatch.setattr(_gpu_h_step, "NUMBERS", 100 * 17)
    for one, other in zip(found(), whole, strict=True):
        assert_allclose(one, other, rtol=1e-13, atol=1e-13)
    assert_array_equal(found()[0], whole[0])
    assert_array_equal(found()[-1], whole[-1])


# -- the covariance --------------------------------------------------------------------------------------------------


def on_faces(rng, n, r, dtype):
    """Return memberships of which many are zero, written as the H-step writes them."""
    Ht = memberships(rng, n, r)
    Ht = np.where(Ht < 0.5 / r, 1e-12, Ht)
    return (Ht / Ht.sum(axis=1, keepdims=True)).astype(dtype)


def total(device, Q, chunks, weights=None):
    covariance = _gpu_covariance.FaceCovariance(Q, 0.3)
    for i, Ht in enumerate(chunks):
        covariance.add(device.asarray(Ht), None if weights is None else device.asarray(weights[i]))
    return covariance.total()


@keeps_device
@given(generators(), st.sampled_from([1, 2, 7, 12, 13, 30, 45]), st.booleans())
def test_the_covariance_is_that_of_the_cpu(device, dtype, rng, r, weighted):
    W, Ht = rng.normal(size=(30, r)), on_faces(rng, 70, r, dtype)
    weights = rng.uniform(0.0, 2.0, 70) * rng.integers(0, 2, 70) if weighted else None
    expected = cpu.FaceCovariance(W.T @ W, 0.3)
    expected.add(Ht, weights)
    S, log_det = total(device, W.T @ W, [Ht], None if weights is None else [weights])
    assert_allclose(S, expected.total()[0], rtol=1e-8, atol=1e-12)
    assert_allclose(log_det, expected.total()[1], rtol=1e-9, atol=1e-9)
    assert_allclose(_gpu_covariance.sum_log(device.asarray(Ht)), cpu.sum_log(Ht), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("r", [6, 14, 33])
def test_the_covariance_has_the_same_bits_however_samples_are_cut_between_runs(device, r, weighted, rng, monkeypatch):
    monkeypatch.setattr(_gpu_covariance, "RUN", 512)  # not 8192: for the speed of this test
    W, Ht = rng.normal(size=(40, r)), on_faces(rng, 1300, r, np.float32)
    weights = rng.uniform(0.5, 2.0, 1300) if weighted else None
    results = [
        total(device, W.T @ W, np.split(Ht, cuts), None if weights is None else np.split(weights, cuts))
        for cuts in ([], [512], [512, 1024], [1024])
    ]
    for S, log_det in results[1:]:
        assert_array_equal(S, results[0][0])
        assert log_det == results[0][1]


def test_the_same_faces_counted_again_add_up(device, rng):
    W, Ht = rng.normal(size=(40, 6)), on_faces(rng, 100, 6, np.float64)
    covariance = _gpu_covariance.FaceCovariance(W.T @ W, 0.3)
    assert covariance.total()[1] == 0.0
    covariance.add(device.asarray(Ht))
    once = covariance.total()
    assert once[1] > 0.0
    assert_array_equal(covariance.total()[0], once[0])
    covariance.add(device.asarray(Ht))
    assert_allclose(covariance.total()[0], 2 * once[0])
