import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd.engines.local import Engine
from dbmd.model.node import Node
from dbmd.model.problem import Problem
from dbmd.model.statistics import Quadratic
from dbmd.solvers import admm, exact
from strategies import w_problem


def solve(solver, given_problem, **options):
    with Engine(given_problem.nodes, n_threads=1) as engine:
        return solver.solve(given_problem.W0, engine.ask, given_problem.problem, **options)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("rho", [1.0, 50.0])
def test_the_fixed_rho_of_the_paper_reaches_the_same_W(rho, lam, rng):
    given_problem = w_problem(rng, sizes=[30, 100, 60], sigma2=[0.1, 1.0, 10.0], lam=lam)
    step = solve(admm, given_problem, rho=rho, tol=1e-12, max_rounds=20_000)
    assert step.converged
    expected = solve(exact, given_problem).W
    assert np.linalg.norm(step.W - expected) <= 1e-6 * np.linalg.norm(expected)


def test_a_round_with_fixed_rho_is_that_of_the_papers_correction(rng):
    # Nodes of one size, each a source: there the shares of the precision are the weights 1 / sigma_c^2.
    sigma2, rho = np.array([0.5, 1.0, 4.0]), 7.0
    given_problem = w_problem(rng, sizes=[40, 40, 40], sigma2=sigma2, lam=0.1)
    lam, W0 = given_problem.problem.lam, given_problem.W0
    A = [node.quadratic.A * s for node, s in zip(given_problem.nodes, sigma2, strict=True)]
    B = [node.quadratic.B * s for node, s in zip(given_problem.nodes, sigma2, strict=True)]
    S = (1.0 / sigma2).sum()

    W = W0
    U = [W0 @ A_c - B_c for A_c, B_c in zip(A, B, strict=True)]
    for k in range(1, 4):
        W_c = [
            np.linalg.solve(A_c + rho * np.eye(3), (B_c + U_c + rho * W).T).T
            for A_c, B_c, U_c in zip(A, B, U, strict=True)
        ]
        mean = sum((W_i - U_i / rho) / s for W_i, U_i, s in zip(W_c, U, sigma2, strict=True)) / S
        W = np.sign(mean) * np.maximum(np.abs(mean) - lam / (rho * S), 0.0)
        U = [U_i + rho * (W - W_i) for U_i, W_i in zip(U, W_c, strict=True)]
        assert_allclose(solve(admm, given_problem, rho=rho, tol=0.0, max_rounds=k).W, W, rtol=1e-9, atol=1e-12)


def test_does_not_stop_while_W_rests_at_zero_but_the_duals_move():
    f = Quadratic(np.array([[11.0]]), np.array([[0.7]]))
    problem = Problem(lam=0.14, metric=np.array([11.0]), precision=11.0, S=1.0)
    step = admm.solve(np.array([[0.9]]), Engine([Node("only", quadratic=f)]).ask, problem)
    assert_allclose(step.W, (0.7 - 0.14) / 11.0, rtol=1e-6)
