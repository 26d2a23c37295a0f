import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.kernels import cpu
from strategies import h_problem

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("basis", ["plain", "outliers", "duplicate columns"])
@pytest.mark.parametrize("prior", [0.0, 0.05])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sample_has_the_same_bits_whoever_shares_its_batch(dtype, prior, basis, warm, rng):
    n = 2 * cpu.LANES + 45
    problem = h_problem(rng, 5, n, basis=basis, prior=prior, dtype=dtype)
    Ht0 = rng.dirichlet(np.ones(5), n).astype(dtype) if warm else None

    def solve(rows):
        start = None if Ht0 is None else Ht0[rows]
        return cpu.solve_h(problem.Q, np.ascontiguousarray(problem.Bt[rows]), problem.a, start)

    whole = solve(np.arange(n))
    batches = [
        rng.permutation(n),
        np.arange(n)[::-1],
        np.arange(cpu.LANES + 1),
        np.arange(cpu.LANES),
        np.arange(0, n, 3),
        np.repeat(np.arange(4), 50),
        np.arange(0),
    ]
    for rows in batches + [np.array([i]) for i in (0, 7, cpu.LANES, n - 1)]:
        assert_array_equal(solve(rows), whole[rows])


def test_is_compiled_once_for_each_type_whatever_the_rank(rng):
    def solve(r, n, dtype):
        problem = h_problem(rng, r, n, prior=0.05, dtype=dtype)
        cold = cpu.solve_h(problem.Q, problem.Bt, problem.a)
        cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
        cpu.sum_log(cold)

    for dtype in DTYPES:
        solve(3, 10, dtype)
    solvers, logarithms = len(cpu._solve.signatures), len(cpu._sum_log.signatures)
    for dtype in DTYPES:
        for r in (1, 2, 4, 13, 60):
            solve(r, 1 + 5 * r, dtype)
    assert len(cpu._solve.signatures) == solvers
    assert len(cpu._sum_log.signatures) == logarithms


def test_read_only_inputs_do_not_compile_it_again(rng):
    # What comes back from another process, or lies in a file, is often read-only.
    problem = h_problem(rng, 3, 10, prior=0.05)
    cold = cpu.solve_h(problem.Q, problem.Bt, problem.a)
    cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
    solvers = len(cpu._solve.signatures)
    for array in (problem.Q, problem.Bt, problem.a, cold):
        array.setflags(write=False)
    warm = cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
    assert_array_equal(warm, cpu.solve_h(problem.Q, problem.Bt.copy(), problem.a, cold.copy()))
    assert len(cpu._solve.signatures) == solvers
