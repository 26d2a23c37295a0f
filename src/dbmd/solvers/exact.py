"""The exact W-step: the driver sums the statistics once and solves m small lassos.

A = sum_c A_c / sigma_c^2 and B = sum_c B_c / sigma_c^2 are sufficient for (P). One sum of m r + r^2 numbers, less
than a single round of the others takes both ways, and the minimiser is found to rounding (docs/paper.md, point 11).
"""

from __future__ import annotations

from dbmd.model.lasso import minimise
from dbmd.model.node import Node, continues
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, Quadratic
from dbmd.protocols import Ask
from dbmd.solvers._step import OnRound, WStep, ignore

GATHERS = True


@continues
def own_term(node: Node) -> tuple[Node, Quadratic]:
    """Node: send its term of (P): A_i, shape (r, r), and B_i, shape (m, r)."""
    assert node.quadratic is not None
    return node, node.quadratic


def solve(
    W: Float,
    ask: Ask,
    problem: Problem,
    *,
    tol: float = 0.0,
    max_rounds: int = 1,
    on_round: OnRound = ignore,
) -> WStep:
    """Return the minimiser of (P) to KKT precision, in one round.

    Parameters
    ----------
    W : array of shape (m, r)
        Where to start; matters only where the minimiser is not unique.
    ask : Ask
        Runs a function at every node and adds the replies.
    problem : Problem
        What the driver knows of (P).
    tol, max_rounds
        Ignored: one round is exact.
    on_round : callable
        Called with the W after each round.

    Returns
    -------
    WStep
    """
    solution = minimise(ask(own_term), problem.lam, W, problem.nonnegative)
    on_round(solution)
    return WStep(solution, 1, problem.change(solution, W), True)
