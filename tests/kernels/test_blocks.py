"""Kernels of a GPU run with all threads of a block, and watched meanwhile: see ``device/blocks/emulator.py``."""

from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.kernels import _cuda, _gpu_covariance, _gpu_h_step, reference
from dbmd.kernels._gpu_pass import Pass
from device.blocks.emulator import KERNEL, Found, Schedule, all_threads, why_not
from device.standin import installed
from kernels.on_host import load_on_host
from strategies import h_problem, memberships

pytestmark = pytest.mark.slow
KKT = {np.float32: 1e-4, np.float64: 1e-6}
ROUNDING = {np.float32: 1e-5, np.float64: 1e-12}


class Case(NamedTuple):
    """Sizes that make kernels go different ways: how many components, samples and features."""

    r: int
    n: int
    m: int
    dtype: type

    def samples(self, rng):
        """Return samples with zeros, memberships on faces of the simplex, and weights."""
        Xt = rng.normal(size=(self.n, self.m)) * (rng.random((self.n, self.m)) < 0.4)
        Ht = memberships(rng, self.n, self.r)
        Ht = np.where(Ht < 0.5 / self.r, 1e-12, Ht)
        Ht /= Ht.sum(axis=1, keepdims=True)
        return Xt.astype(self.dtype), Ht.astype(self.dtype), rng.uniform(0.5, 2.0, self.n)

    def close(self, found, expected, scale=1.0):
        assert_allclose(found, expected, rtol=0.0, atol=scale * self.n * ROUNDING[self.dtype])


CASES = [Case(3, 270, 7, np.float32), Case(10, 300, 24, np.float64), Case(22, 70, 66, np.float32)]
CASES += [Case(50, 12, 130, np.float64)]


@pytest.fixture(autouse=True)
def _needs_the_emulator():
    if why_not():
        pytest.skip(f"KERNELS WERE NOT RUN WITH ALL THREADS OF A BLOCK: {why_not()}")


@contextmanager
def on_blocks(schedule):
    """Yield the kernel "gpu" for arrays of NumPy, on a stand-in that runs all threads."""
    with installed(), all_threads(schedule):
        yield load_on_host("gpu")


# -- each part of the kernel beside the reference ----------------------------------------------------------------------


def products(gpu, case, rng):
    Xt, _, _ = case.samples(rng)
    W, offset = rng.normal(size=(case.m, case.r)).astype(case.dtype), rng.normal(size=case.r).astype(case.dtype)
    for samples in (Xt, sparse.csr_array(Xt)):
        for given in (None, offset):
            there = None if given is None else gpu.asarray(given)
            found = gpu.products(gpu.asarray(samples), gpu.asarray(W), there).get()
            case.close(found, reference.products(Xt.astype(np.float64), W.astype(np.float64), given))


def h_step(gpu, case, rng):
    for prior in (0.0, "vector"):
        problem = h_problem(rng, case.r, case.n, prior=prior, dtype=case.dtype, m=case.m)
        expected = reference.solve_h(problem.Q, problem.Bt.astype(np.float64), problem.a)
        for start in (None, np.roll(expected, 1, axis=0).astype(case.dtype)):
            Ht = gpu.solve_h(problem.Q, problem.Bt, problem.a, start)
            assert (Ht > 0.0).all()
            assert problem.residual(Ht).max() <= KKT[case.dtype]
            worse = problem.objective(Ht) - problem.objective(expected)
            assert (worse <= 10 * KKT[case.dtype] * problem.scale).all()


def sums(gpu, case, rng):
    Xt, Ht, weights = case.samples(rng)
    for samples, own, norms in [
        (Xt, None, True),
        (Xt, weights, False),
        (sparse.csr_array(Xt), weights, True),
        (sparse.csr_array(Xt), None, False),
    ]:
        found, expected = gpu.Sums(case.m, case.r, case.dtype), reference.Sums(case.m, case.r, np.float64)
        found.add(gpu.asarray(samples), gpu.asarray(Ht), None if own is None else gpu.asarray(own), norms=norms)
        expected.add(Xt.astype(np.float64), Ht.astype(np.float64), own, norms=norms)
        for one, other in zip(found.total(), expected.total(), strict=True):
            case.close(one, other, scale=10.0)


def covariances(gpu, case, rng):
    W, (_, Ht, weights) = rng.normal(size=(case.m, case.r)), case.samples(rng)
    for own in (None, weights):
        found, expected = gpu.FaceCovariance(W.T @ W, 0.3), reference.FaceCovariance(W.T @ W, 0.3)
        found.add(Ht, own)
        expected.add(Ht, own)
        for one, other in zip(found.total(), expected.total(), strict=True):
            assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert_allclose(gpu.sum_log(Ht), reference.sum_log(Ht.astype(np.float64)), rtol=1e-9)


def gaps(gpu, case, rng):
    W, (Xt, Ht, weights) = rng.normal(size=(case.m, case.r)), case.samples(rng)
    mask = rng.random((case.n, case.m)) < 0.2
    mask[::4] = False
    places, values = gpu.locate(mask), rng.normal(size=case.m)
    for order in "CF":
        found, expected = Xt.copy(order), Xt.copy()
        gpu.put(found, places, values)
        reference.put(expected, reference.locate(mask), values)
        assert_array_equal(found, expected)
        gpu.put_products(found, places, Ht, W, values)
        reference.put_products(expected, reference.locate(mask), Ht, W, values)
        case.close(found, expected)
    Bt = (np.where(mask, 0.0, Xt) @ W).astype(case.dtype)
    for prior in (0.0, 0.1):
        a = np.full(case.r, prior)
        solved = gpu.solve_h_with_gaps(W.T @ W, W, places, Bt, a).astype(np.float64)
        best = reference.solve_h_with_gaps(W.T @ W, W, mask, Bt.astype(np.float64), a)
        values = [
            0.5 * np.where(mask, 0.0, H @ W.T) ** 2 @ np.ones(case.m) - (Bt * H + a * np.log(H)).sum(axis=1)
            for H in (solved, best)
        ]
        assert_allclose(*values, rtol=0.0, atol=10 * KKT[case.dtype] * (W**2).sum(axis=0).max())
    for own in (None, weights):
        found, expected = gpu.GapCovariance(W.T @ W, W, 0.3), reference.GapCovariance(W.T @ W, W, 0.3)
        found.add(Ht, places, own)
        expected.add(Ht, mask, own)
        for one, other in zip(found.total(), expected.total(), strict=True):
            assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def at_once(gpu, case, rng):
    if case.r > Pass.MAX_RANK:
        return
    W, (Xt, _, _) = rng.normal(size=(case.m, case.r)), case.samples(rng)
    W[:, 1] = W[:, 0]  # samples on a face with both are marked, and solved from inside
    for is_finite in (True, False):
        if not is_finite:
            Xt[7] = np.nan
        there, Ht = _cuda.cupy().asarray(Xt), _cuda.cupy().asarray(np.full((case.n, case.r), 1 / case.r, case.dtype))
        one = Pass(*Pass.load(W, None, Xt.dtype), lambda: W.T @ W, 0.3, norms=False)
        for rows in (slice(100), slice(100, None)):
            one.over(there[rows], Ht[rows], Ht[rows])
        found = one.total()
        assert found.is_finite == is_finite
        if is_finite:
            expected, covariance = reference.Sums(case.m, case.r, np.float64), reference.FaceCovariance(W.T @ W, 0.3)
            expected.add(Xt.astype(np.float64), Ht.get().astype(np.float64))
            covariance.add(Ht.get())
            for total, other in zip(found.sums, expected.total(), strict=True):
                case.close(total, other, scale=10.0)
            for total, other in zip(found.covariance, covariance.total(), strict=True):
                assert_allclose(total, other, rtol=1e-7, atol=1e-9)


PARTS = [products, h_step, sums, covariances, gaps, at_once]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.r}-{case.dtype.__name__}")
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_threads_of_a_block_do_together_what_the_reference_does(part, case, rng):
    for schedule in (Schedule.HIGHEST_FIRST, Schedule.RANDOM):  # in one test: each source is compiled once
        with on_blocks(schedule) as gpu:
            part(gpu, case, rng)


def give_room(monkeypatch, size):
    """Let kernels be started as on a card where a block has so many bytes of shared memory."""
    known = _gpu_h_step.attribute
    for module in (_gpu_h_step, _gpu_covariance):
        monkeypatch.setattr(module, "attribute", lambda name: size if name.startswith("MaxShared") else known(name))


def test_tensor_cores_that_take_eleven_bits_lose_no_digits(rng):
    n, m, r = 70, 40, 22  # which are computed there
    Xt, W = rng.normal(size=(n, m)).astype(np.float32), rng.normal(size=(m, r)).astype(np.float32)
    Ht = rng.dirichlet(np.ones(r), n).astype(np.float32)
    with on_blocks(Schedule.RANDOM) as gpu:
        Bt, found = gpu.products(gpu.asarray(Xt), gpu.asarray(W)).get(), gpu.Sums(m, r, np.float32)
        found.add(gpu.asarray(Xt), gpu.asarray(Ht))
        XHt = found.total().XHt
    for one, other in ((Bt, Xt.astype(np.float64) @ W), (XHt, Xt.T.astype(np.float64) @ Ht)):
        assert_allclose(one, other, rtol=0.0, atol=1e-6 * np.abs(other).max())  # with eleven bits, it would be 5e-4


@pytest.mark.parametrize("part", [h_step, covariances], ids=lambda part: part.__name__)
def test_the_same_where_shared_memory_is_too_small(part, rng, monkeypatch):
    give_room(monkeypatch, 1024)
    with on_blocks(Schedule.RANDOM) as gpu:
        part(gpu, CASES[2], rng)


@pytest.mark.parametrize("case", [CASES[2], CASES[3]], ids=lambda case: str(case.r))
def test_memberships_have_the_same_bits_however_small_shared_memory_is(case, rng, monkeypatch):
    problem, started, results = h_problem(rng, case.r, case.n, dtype=case.dtype, m=case.m), set(), []
    module = _cuda._module

    def noted(source, constants):
        started.add((source, constants))
        return module(source, constants)

    with on_blocks(Schedule.RANDOM) as gpu, monkeypatch.context() as patch:
        patch.setattr(_cuda, "_module", noted)
        for size in (232448, 16384, 1024):  # M and N there, too; without them; nothing there
            give_room(patch, size)
            results.append(gpu.solve_h(problem.Q, problem.Bt, problem.a))
    searches = [dict(constants) for source, constants in started if source == "h_many"]
    assert sorted(("STAGED" in each, "ROOMS_OUTSIDE" in each) for each in searches) == [
        (False, False),
        (False, True),
        (True, False),
    ]
    for Ht in results[1:]:
        assert_array_equal(Ht, results[0])


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_same_where_one_block_does_the_work_of_all(part, rng, monkeypatch):
    function = _cuda._function

    def of_one_block(*given):
        kernel = function(*given)
        return lambda grid, *args, **options: kernel((1,), *args, **options)

    with on_blocks(Schedule.RANDOM) as gpu, monkeypatch.context() as patch:
        patch.setattr(_cuda, "_function", of_one_block)
        part(gpu, CASES[1], rng)


def test_no_kernel_is_left_out(rng, monkeypatch):
    started, function = set(), _cuda._function

    def noted(source, name, *rest):
        started.add((source, name))
        return function(source, name, *rest)

    with on_blocks(Schedule.LOWEST_FIRST) as gpu, monkeypatch.context() as patch:
        patch.setattr(_cuda, "_function", noted)
        for part in PARTS:
            for case in (CASES[0], CASES[2]):  # few components, and many
                part(gpu, case, rng)
    files = Path(_cuda.__file__).parent.glob("*.cu")
    assert started == {(file.stem, name) for file in files for name in KERNEL.findall(file.read_text())}


# -- what the emulator finds -------------------------------------------------------------------------------------------

ROTATE = """
extern "C" __global__ void rotate(const double *from, double *to) {
    SHARED double all[THREADS];
    copy_later<8>(&all[threadIdx.x], &from[threadIdx.x], true);
    end_copies();
    wait_copies<0>();
    __syncthreads();
    to[threadIdx.x] = all[(threadIdx.x + 1) % THREADS];
}
"""
SHUFFLE = "all[threadIdx.x] = __shfl_xor_sync(0xffffffffu, all[threadIdx.x], 1);"
WRONG = {
    "no barrier": ("__syncthreads();", "", "race in shared memory.*`"),
    "a barrier for half of the threads": ("__syncthreads();", "if (threadIdx.x < 32) __syncthreads();", "have left"),
    "two barriers": ("__syncthreads();", "if (threadIdx.x % 2) __syncwarp(); else __syncthreads();", "wait for each"),
    "two operations": ("__syncthreads();", "if (threadIdx.x % 2) __syncwarp(); else warp_ballot(true);", "operations"),
    "two places": ("__syncthreads();", f"if (threadIdx.x % 2) {SHUFFLE}\nelse {SHUFFLE}", "different places"),
    "the barrier of a warp": ("__syncthreads();", "__syncwarp();", "race in shared memory"),
    "only a shuffle": ("__syncthreads();", SHUFFLE, "race in shared memory"),
    "one number for all": ("to[threadIdx.x]", "to[0]", "race in global memory: write after another"),
    "beyond an array": ("to[threadIdx.x]", "to[threadIdx.x + 1]", r"write out of bounds, of 8 bytes, at `to\["),
    "before an array": ("&from[threadIdx.x]", "&from[threadIdx.x - 1]", "read out of bounds"),
    "beyond a shared array": ("(threadIdx.x + 1) % THREADS", "threadIdx.x + 1", "out of bounds"),
    "copies that nobody waits for": ("wait_copies<0>();", "", r"read of a copy that was not waited for at `to\["),
    "copies of another batch": ("end_copies();", "", "not waited for"),
    "large copies": ("copy_later<8>", "copy_later<16>", "misaligned"),
    "nothing written": ("copy_later<8>(", "if (threadIdx.x) copy_later<8>(", "uninitialised shared memory"),
    "large numbers": ("threadIdx.x + 1", "threadIdx.x + 2147483647", "integer overflow"),
}


def rotated(code, schedule):
    """Return 64 numbers as a kernel rotates them."""
    with installed() as cupy, all_threads(schedule):
        numbers, out = cupy.arange(64.0), cupy.zeros(64)
        kernel = cupy.RawModule(code=code, options=("-DTHREADS=64",)).get_function("rotate")
        kernel((1,), (64,), (numbers, out))
        return out.get()


@pytest.mark.parametrize("schedule", Schedule, ids=lambda each: each.name.lower())
def test_what_is_right_passes(schedule):
    assert_array_equal(rotated(ROTATE, schedule), np.roll(np.arange(64.0), -1))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_found_in_any_order(wrong):
    right, instead, finding = WRONG[wrong]
    assert right in ROTATE
    for schedule in Schedule:
        with pytest.raises(Found, match=finding):
            rotated(ROTATE.replace(right, instead), schedule)
