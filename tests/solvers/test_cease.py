import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbmd.engines.local import Engine
from dbmd.solvers import cease, exact
from strategies import w_problem, w_problems


def solve(solver, given_problem, **options):
    with Engine(given_problem.nodes, n_threads=1) as engine:
        return solver.solve(given_problem.W0, engine.ask, given_problem.problem, **options)


def assert_not_higher(given_problem, W):
    before = given_problem.objective(given_problem.W0)
    rounding = 1e-12 * (abs(before) + np.abs(given_problem.total.B * given_problem.W0).sum())
    assert given_problem.objective(W) <= before + rounding


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 50.0])
def test_the_fixed_gamma_of_the_paper_reaches_the_same_W(gamma, lam, rng):
    given_problem = w_problem(rng, sizes=[30, 100, 60], sigma2=[0.1, 1.0, 10.0], lam=lam)
    step = solve(cease, given_problem, gamma=gamma, tol=1e-12, max_rounds=20_000)
    assert step.converged
    expected = solve(exact, given_problem).W
    assert np.linalg.norm(step.W - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("sizes", [[40, 60, 50], [3, 300, 30], [4] * 12])
def test_a_gamma_that_is_nil_does_not_diverge(sizes, lam, rng):
    given_problem = w_problem(rng, sizes=sizes, lam=lam)
    for max_rounds in range(1, 20):
        step = solve(cease, given_problem, gamma=1e-3, tol=0.0, max_rounds=max_rounds)
        assert_not_higher(given_problem, step.W)


@given(w_problems(), st.sampled_from([1e-3, 0.1, 10.0]), st.integers(1, 12), st.sampled_from([1e-1, 1e-3, 1e-6]))
@settings(max_examples=80)
def test_never_ends_higher_than_it_began(given_problem, gamma, max_rounds, tol):
    assert_not_higher(given_problem, solve(cease, given_problem, gamma=gamma, tol=tol, max_rounds=max_rounds).W)


def test_a_round_that_goes_uphill_is_taken_back(rng):
    # Nodes far smaller than the number of components see little of the curvature, and overshoot without gamma.
    given_problem = w_problem(rng, sizes=[2] * 20, r=5)
    seen = []

    class Watching(Engine):
        def ask(self, node_function, *broadcast):
            if node_function is cease.gradient:
                seen.append(given_problem.objective(broadcast[0]))
            return super().ask(node_function, *broadcast)

    with Watching(given_problem.nodes, n_threads=1) as engine:
        step = cease.solve(given_problem.W0, engine.ask, given_problem.problem, gamma=1e-3, max_rounds=200)
    assert max(seen) > seen[0]  # it did go uphill on the way
    assert step.converged
    assert_not_higher(given_problem, step.W)
