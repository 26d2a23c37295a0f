import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.kernels import _faces, _interior_point, _pivoting, cpu
from strategies import h_problem

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("basis", ["plain", "outliers", "duplicate columns"])
@pytest.mark.parametrize("prior", [0.0, 0.05])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("r", [5, _faces.MAX_RANK + 3])
def test_a_sample_has_the_same_bits_whoever_shares_its_batch(r, dtype, prior, basis, warm, rng):
    n = 2 * _interior_point.LANES + 45
    problem = h_problem(rng, r, n, basis=basis, prior=prior, dtype=dtype)
    Ht0 = rng.dirichlet(np.ones(r), n).astype(dtype) if warm else None

    def solve(rows):
        start = None if Ht0 is None else Ht0[rows]
        return cpu.solve_h(problem.Q, np.ascontiguousarray(problem.Bt[rows]), problem.a, start)

    whole = solve(np.arange(n))
    batches = [
        rng.permutation(n),
        np.arange(n)[::-1],
        np.arange(_interior_point.LANES + 1),
        np.arange(_interior_point.LANES),
        np.arange(0, n, 3),
        np.repeat(np.arange(4), 50),
        np.arange(0),
    ]
    for rows in batches + [np.array([i]) for i in (0, 7, _interior_point.LANES, n - 1)]:
        assert_array_equal(solve(rows), whole[rows])


def test_is_compiled_once_for_each_type_whatever_the_rank(rng):
    def solve(r, n, dtype):
        problem = h_problem(rng, r, n, prior=0.05, dtype=dtype)
        cold = cpu.solve_h(problem.Q, problem.Bt, problem.a)
        cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
        cpu.sum_log(cold)

    for dtype in DTYPES:
        solve(3, 10, dtype)
    solvers, logarithms = len(cpu.solve_interior.signatures), len(cpu._sum_log.signatures)
    for dtype in DTYPES:
        for r in (1, 2, 4, 13, 60):
            solve(r, 1 + 5 * r, dtype)
    assert len(cpu.solve_interior.signatures) == solvers
    assert len(cpu._sum_log.signatures) == logarithms


def test_read_only_inputs_do_not_compile_it_again(rng):
    # What comes back from another process, or lies in a file, is often read-only.
    problem = h_problem(rng, 3, 10, prior=0.05)
    cold = cpu.solve_h(problem.Q, problem.Bt, problem.a)
    cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
    solvers = len(cpu.solve_interior.signatures)
    for array in (problem.Q, problem.Bt, problem.a, cold):
        array.setflags(write=False)
    warm = cpu.solve_h(problem.Q, problem.Bt, problem.a, cold)
    assert_array_equal(warm, cpu.solve_h(problem.Q, problem.Bt.copy(), problem.a, cold.copy()))
    assert len(cpu.solve_interior.signatures) == solvers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("r", [1, 2, 5, 10, _faces.MAX_RANK, _faces.MAX_RANK + 1, 20, 47])
def test_face_by_face_a_sample_is_solved_as_well_as_from_inside(r, dtype, rng, monkeypatch):
    problem = h_problem(rng, r, 300, dtype=dtype, m=60)
    by_faces = cpu.solve_h(problem.Q, problem.Bt, problem.a)
    warm = cpu.solve_h(problem.Q, problem.Bt, problem.a, by_faces)
    for name in ("solve_on_faces", "solve_by_pivoting"):
        monkeypatch.setattr(cpu, name, lambda Q, Bt, *_: np.arange(len(Bt)))
    from_inside = cpu.solve_h(problem.Q, problem.Bt, problem.a)
    assert (problem.objective(by_faces) <= problem.objective(from_inside) + 1e-7 * problem.scale).all()
    assert problem.residual(by_faces).max() <= (1e-6 if dtype is np.float32 else 1e-11)
    assert_allclose(warm, by_faces, atol=1e-6 if dtype is np.float32 else 1e-11)


@pytest.mark.parametrize(("r", "solve"), [(4, _faces.solve_on_faces), (15, _pivoting.solve_by_pivoting)])
def test_what_faces_cannot_solve_is_left_over(r, solve, rng):
    problem = h_problem(rng, r, 60)
    expected = cpu.solve_h(problem.Q, problem.Bt, problem.a)
    broken = problem.Bt.copy()
    broken[::7] = np.nan
    out = np.full_like(broken, -1.0)
    left = solve(problem.Q, broken, None, out, 1.0)
    assert_array_equal(left, np.arange(0, 60, 7))
    assert (out[left] == -1.0).all()
    found = cpu.solve_h(problem.Q, broken, problem.a)
    whole = np.isfinite(broken).all(axis=1)
    assert_array_equal(found[whole], expected[whole])
    # Two equal components: on no face that has both is the solution unique.
    twins = np.ones((2, 2))
    assert len(solve(twins, np.zeros((5, 2)), None, np.empty((5, 2)), 1.0)) == 5


def test_maps_of_another_Q_are_not_taken_for_those_of_this(rng):
    problems = [h_problem(rng, 4, 40) for _ in range(2)]
    expected = [cpu.solve_h(p.Q, p.Bt, p.a) for p in problems]
    for p, first in [*zip(problems, expected, strict=True)] * 2:
        assert_array_equal(cpu.solve_h(p.Q, p.Bt, p.a), first)
        assert_array_equal(cpu.solve_h(p.Q.copy(), p.Bt, p.a), first)
