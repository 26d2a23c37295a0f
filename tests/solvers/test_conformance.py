"""What holds for every solver: all reach the same minimiser of (P)."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.engines import Metered
from dbmd.engines.local import Engine
from dbmd.model.node import Node
from dbmd.registry import load, names
from strategies import w_problem, w_problems

SOLVERS = names("solvers")
PRECISE = {"tol": 1e-12, "max_rounds": 20_000}

PROBLEMS = {
    "equal nodes": {},
    "one node": {"sizes": [80]},
    "many nodes": {"sizes": [20] * 9, "sigma2": np.linspace(0.5, 2.0, 9)},
    "unequal noise": {"sigma2": [0.01, 1.0, 100.0]},
    "unequal sizes": {"sizes": [3, 30, 900]},
    "unequal noise and sizes": {"sizes": [400, 20, 5], "sigma2": [50.0, 0.1, 2.0]},
    "a node without samples": {"sizes": [40, 0, 60]},
    "only the last node has samples": {"sizes": [0, 0, 60]},
    "nodes with fewer samples than components": {"sizes": [2] * 15, "r": 4},
    "one component": {"r": 1},
    "one feature": {"m": 1},
    "many components": {"r": 12, "sizes": [200, 100]},
}
SINGULAR = {
    "two components always equal": {"kind": "duplicate", "r": 4},
    "a component that no sample uses": {"kind": "empty", "r": 4},
    "fewer samples than components": {"sizes": [1, 2, 1], "r": 6},
    "one sample": {"sizes": [1], "r": 3},
    "one sample and a node without any": {"sizes": [1, 0], "r": 3},
    "a component that no sample uses, unequal noise": {
        "kind": "empty",
        "sigma2": [0.01, 1.0, 100.0],
        "sizes": [9, 90, 20],
    },
}


def solve(name, given_problem, **options):
    """Return the WStep of a solver on a problem, by the local engine."""
    with Engine(given_problem.nodes, n_threads=1) as engine:
        options = PRECISE | options
        return load("solvers", name).solve(given_problem.W0, engine.ask, given_problem.problem, **options)


def assert_same_W(W, expected, rtol=1e-6):
    assert np.linalg.norm(W - expected) <= rtol * np.linalg.norm(expected)


def kkt_violation(given_problem, W):
    """Return the largest violation of 0 in gradient + lam sign(W), relative to the gradient at zero.

    At a zero that must not be negative the gradient has no upper limit.
    """
    problem, f = given_problem.problem, given_problem.total
    lam, nonnegative = problem.lam, False if problem.nonnegative is None else problem.nonnegative
    G = f.gradient(W)
    at_zero = np.where(nonnegative, np.maximum(-G - lam, 0.0), np.maximum(np.abs(G) - lam, 0.0))
    wrong = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), at_zero)
    assert not (nonnegative & (W < 0.0)).any()
    return wrong.max() / np.abs(f.B).max()


@pytest.mark.parametrize("lam", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_reaches_the_minimiser_of_the_exact_solver(name, case, lam, rng):
    given_problem = w_problem(rng, lam=lam, **PROBLEMS[case])
    step = solve(name, given_problem)
    assert step.converged
    assert kkt_violation(given_problem, step.W) <= 1e-6
    assert_same_W(step.W, solve("exact", given_problem).W)


@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("name", SOLVERS)
def test_without_penalty_a_singular_problem_has_one_answer_for_all_solvers(name, case, rng):
    given_problem = w_problem(rng, **SINGULAR[case])
    step = solve(name, given_problem)
    assert step.converged
    assert kkt_violation(given_problem, step.W) <= 1e-6
    assert_same_W(step.W, solve("exact", given_problem).W)


@pytest.mark.parametrize("lam", [0.05, 0.5])
@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("name", SOLVERS)
def test_with_penalty_a_singular_problem_is_solved_to_the_same_objective(name, case, lam, rng):
    given_problem = w_problem(rng, lam=lam, **SINGULAR[case])
    step = solve(name, given_problem)
    least = given_problem.objective(solve("exact", given_problem).W)
    start = given_problem.objective(given_problem.W0)
    assert step.converged
    assert kkt_violation(given_problem, step.W) <= 1e-6
    assert_allclose(given_problem.objective(step.W), least, rtol=1e-9, atol=1e-9 * abs(start))


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_component_that_no_sample_uses_stays_or_with_penalty_becomes_zero(name, lam, rng):
    given_problem = w_problem(rng, kind="empty", r=4, lam=lam)
    column = solve(name, given_problem).W[:, -1]
    if lam == 0.0:
        assert_allclose(column, given_problem.W0[:, -1], rtol=1e-9)
    else:
        assert_array_equal(column, 0.0)


@pytest.mark.parametrize("name", SOLVERS)
@given(given_problem=w_problems())
@settings(max_examples=60)
def test_agrees_with_the_exact_solver_on_random_problems(name, given_problem):
    step = solve(name, given_problem)
    assert kkt_violation(given_problem, step.W) <= 1e-6
    assert_same_W(step.W, solve("exact", given_problem).W)


KINDS = {
    "nonnegative": {"nonnegative": [True] * 4},
    "nonnegative with penalty": {"nonnegative": [True] * 4, "lam": 0.1},
    "a weight for each": {"lam": [0.0, 0.02, 0.1, 0.5]},
    "all kinds": {"nonnegative": [True, True, False, False], "lam": [0.0, 0.1, 0.1, 0.0]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["equal nodes", "unequal noise and sizes", "a node without samples"])
@pytest.mark.parametrize("name", SOLVERS)
def test_columns_may_have_weights_and_signs_of_their_own(name, case, kind, rng):
    given_problem = w_problem(rng, **(PROBLEMS[case] | {"r": 4} | KINDS[kind]))
    step = solve(name, given_problem)
    assert step.converged
    assert kkt_violation(given_problem, step.W) <= 1e-6
    assert_same_W(step.W, solve("exact", given_problem).W)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("name", SOLVERS)
def test_a_singular_problem_with_signs_is_solved_to_the_same_objective(name, case, kind, rng):
    given_problem = w_problem(rng, **(SINGULAR[case] | {"r": 4} | KINDS[kind]))
    step = solve(name, given_problem)
    least = given_problem.objective(solve("exact", given_problem).W)
    assert kkt_violation(given_problem, step.W) <= 1e-6
    size = np.abs(given_problem.total.B * step.W).sum()
    assert_allclose(given_problem.objective(step.W), least, rtol=1e-8, atol=1e-8 * size)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_component_that_no_sample_uses_is_clipped_where_it_must_be_nonnegative(name, rng):
    given_problem = w_problem(rng, kind="empty", r=4, lam=[0.0, 0.1, 0.0, 0.0], nonnegative=[False, False, True, True])
    column = solve(name, given_problem).W[:, -1]
    assert_allclose(column, np.maximum(given_problem.W0[:, -1], 0.0), rtol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_weight_for_each_column_is_one_weight_if_they_are_equal(name, rng):
    given_problem = w_problem(rng, lam=0.1)
    problem = replace(given_problem.problem, lam=np.full(3, given_problem.problem.lam))
    assert_array_equal(solve(name, replace(given_problem, problem=problem)).W, solve(name, given_problem).W)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_order_of_the_nodes_is_irrelevant(name, lam, rng):
    given_problem = w_problem(rng, sizes=[5, 50, 0, 20], sigma2=[0.1, 1.0, 1.0, 10.0], lam=lam)
    turned = replace(given_problem, nodes=given_problem.nodes[::-1])
    assert_same_W(solve(name, turned).W, solve(name, given_problem).W, rtol=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("name", SOLVERS)
def test_nodes_may_be_merged(name, lam, rng):
    given_problem = w_problem(rng, sizes=[30, 50], sigma2=[0.1, 10.0], lam=lam)
    merged = replace(given_problem, nodes=[Node("all", quadratic=given_problem.total)])
    assert_same_W(solve(name, merged).W, solve(name, given_problem).W)


@pytest.mark.parametrize("name", SOLVERS)
def test_where_it_starts_is_irrelevant(name, rng):
    given_problem = w_problem(rng, lam=0.1)
    elsewhere = replace(given_problem, W0=100.0 * given_problem.W0)
    assert_same_W(solve(name, elsewhere).W, solve(name, given_problem).W)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("name", SOLVERS)
def test_neither_the_start_nor_the_nodes_are_changed(name, lam, rng):
    given_problem = w_problem(rng, lam=lam)
    W0 = given_problem.W0.copy()
    shares = [(node.quadratic.A.copy(), node.quadratic.B.copy()) for node in given_problem.nodes]
    step = solve(name, given_problem)
    assert not np.shares_memory(step.W, given_problem.W0)
    assert_array_equal(given_problem.W0, W0)
    for node, (A, B) in zip(given_problem.nodes, shares, strict=True):
        assert_array_equal(node.quadratic.A, A)
        assert_array_equal(node.quadratic.B, B)
        assert node.scratch is None


class Forgetful(Engine):
    """An engine whose nodes lose once what they remember: before the third question."""

    asked = 0

    def ask(self, node_function, *broadcast):
        self.asked += 1
        if self.asked == 3:
            self.nodes = [replace(node, scratch=None) for node in self.nodes]
        return super().ask(node_function, *broadcast)


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_node_may_lose_its_memory_between_two_rounds(name, lam, rng):
    given_problem = w_problem(rng, sigma2=[0.1, 1.0, 10.0], lam=lam)
    with Engine(given_problem.nodes, n_threads=1) as engine:
        expected = load("solvers", "exact").solve(given_problem.W0, engine.ask, given_problem.problem).W
    with Forgetful(given_problem.nodes, n_threads=1) as engine:
        step = load("solvers", name).solve(given_problem.W0, engine.ask, given_problem.problem, **PRECISE)
    assert_same_W(step.W, expected)


@pytest.mark.parametrize("lam", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_objective_is_not_raised_even_from_the_minimiser(name, case, lam, rng):
    given_problem = w_problem(rng, lam=lam, **PROBLEMS[case])
    starts = [given_problem.W0, solve("exact", given_problem).W]
    for W0 in starts:
        there = replace(given_problem, W0=W0)
        before = given_problem.objective(W0)
        rounding = 1e-12 * (abs(before) + np.abs(given_problem.total.B * W0).sum())
        assert given_problem.objective(solve(name, there).W) <= before + rounding


@pytest.mark.parametrize("name", SOLVERS)
def test_a_penalty_that_is_large_enough_gives_zero(name, rng):
    given_problem = w_problem(rng, lam=1.01)
    assert_array_equal(solve(name, given_problem).W, 0.0)


@pytest.mark.parametrize("name", [name for name in SOLVERS if not load("solvers", name).GATHERS])
def test_stops_at_max_rounds_and_says_that_it_has_not_converged(name, rng):
    given_problem = w_problem(rng, sizes=[50, 50], r=4)
    for max_rounds in (1, 3):
        step = solve(name, given_problem, tol=0.0, max_rounds=max_rounds)
        assert step.rounds == max_rounds
        assert not step.converged
        assert step.change > 0.0


@pytest.mark.parametrize("name", SOLVERS)
def test_a_smaller_tolerance_takes_no_fewer_rounds(name, rng):
    given_problem = w_problem(rng, sizes=[50, 50], r=4, lam=0.05)
    rounds = [solve(name, given_problem, tol=tol).rounds for tol in (1e-2, 1e-5, 1e-8)]
    assert all(few <= many for few, many in pairwise(rounds))


# Floats up and down, each round: Table 1 of the paper, and m r + r^2 for the one round of exact.
TRAFFIC = {
    "agd": lambda m, r: (m * r, m * r),
    "admm": lambda m, r: (m * r, m * r),
    "cease": lambda m, r: (2 * m * r, 2 * m * r),
    "exact": lambda m, r: (m * r + r * r, 0),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_what_travels_in_a_round_does_not_depend_on_the_number_of_samples(name, rng):
    per_round = set()
    for sizes in ([20, 20], [3000, 50]):
        given_problem = w_problem(rng, sizes=sizes, m=7, r=3)
        engine = Metered(Engine(given_problem.nodes, n_threads=1))
        step = load("solvers", name).solve(given_problem.W0, engine.ask, given_problem.problem, tol=1e-6)
        per_round.add((engine.traffic.floats_up / step.rounds, engine.traffic.floats_down / step.rounds))
    assert len(per_round) == 1


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("sizes", [[60], [20, 2000, 50]])
@pytest.mark.parametrize("name", TRAFFIC)
def test_what_travels_is_as_stated_whatever_the_number_of_samples(name, sizes, lam, rng):
    m, r = 7, 3
    given_problem = w_problem(rng, sizes=sizes, m=m, r=r, lam=lam)
    engine = Metered(Engine(given_problem.nodes, n_threads=1))
    step = load("solvers", name).solve(given_problem.W0, engine.ask, given_problem.problem, tol=1e-6)
    up, down = TRAFFIC[name](m, r)
    assert engine.traffic.floats_up == step.rounds * up
    assert engine.traffic.floats_down == step.rounds * down
