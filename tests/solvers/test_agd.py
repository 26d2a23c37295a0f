import numpy as np
import pytest

from dbmd.engines.local import Engine
from dbmd.model.penalty import soft
from dbmd.solvers import agd, exact
from strategies import w_problem


def solve(solver, given_problem, **options):
    with Engine(given_problem.nodes, n_threads=1) as engine:
        return solver.solve(given_problem.W0, engine.ask, given_problem.problem, **options)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("r", [2, 8])
def test_the_gap_falls_as_fast_as_the_theory_of_fista_promises(r, lam, rng):
    given_problem = w_problem(rng, r=r, lam=lam)
    W_best = solve(exact, given_problem).W
    least = given_problem.objective(W_best)
    distance = float(((given_problem.W0 - W_best) ** 2 * given_problem.problem.metric).sum())
    for k in (1, 2, 3, 5, 10, 20, 40, 80):
        gap = given_problem.objective(solve(agd, given_problem, tol=0.0, max_rounds=k).W) - least
        assert gap <= 2.0 * distance / (k + 1) ** 2


def test_momentum_saves_most_of_the_rounds_of_plain_gradient_descent(rng):
    given_problem = w_problem(rng, sizes=[30, 30], r=12)
    f, d, W = given_problem.total, given_problem.problem.metric, given_problem.W0
    tol, plain = 1e-8, 0
    while True:
        plain += 1
        W, before = soft(W - f.gradient(W) / d, given_problem.problem.lam / d), W
        if given_problem.problem.change(W, before) <= tol:
            break
    step = solve(agd, given_problem, tol=tol)
    assert step.converged
    assert step.rounds < plain / 3


def test_the_first_round_is_a_proximal_gradient_step(rng):
    given_problem = w_problem(rng, lam=0.1)
    f, d, W0 = given_problem.total, given_problem.problem.metric, given_problem.W0
    expected = soft(W0 - f.gradient(W0) / d, given_problem.problem.lam / d)
    np.testing.assert_allclose(solve(agd, given_problem, max_rounds=1).W, expected, rtol=1e-12)
