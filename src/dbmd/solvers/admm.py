"""Consensus ADMM over the nodes: Algorithm 2 of the paper, corrected by points 8 and 14 of docs/paper.md.

A round: W goes down (m r floats), W_i R_i - U_i comes up (m r floats).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dbmd.model.node import Node, continues
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float
from dbmd.protocols import Ask
from dbmd.solvers._step import OnRound, WStep, ignore

GATHERS = False

# Penalty in units of the cluster sizes. The best is near the square root of the least eigenvalue of A in these units:
# 1 for crisp memberships, 0.1 for very soft ones. In between, it costs at most twice the rounds of the best.
AUTO_RHO = 0.2


@continues
def local_step(node: Node, W: Float, *, R: Float, problem: Problem, first: bool) -> tuple[Node, Float]:
    """Node: update its dual U_i and its own W_i, and send W_i R_i - U_i, shape (m, r).

    U_i = U_i + (W - W_i) R_i               (at first the gradient of f_i at W, its value at a solution)
    W_i = (B_i + U_i + W R_i) (A_i + R_i)^-1
    """
    assert node.quadratic is not None
    f = node.quadratic
    R_i = R * problem.share(f)
    if not R_i.any():  # no samples
        return node, np.zeros_like(W)
    if first or node.scratch is None:  # a dual that was lost restarts at its value at a solution
        U = f.gradient(W)
    else:
        W_i, U = node.scratch
        U = U + (W - W_i) * R_i
    W_i = np.linalg.solve(f.A + np.diag(R_i), (f.B + U + W * R_i).T).T
    return replace(node, scratch=(W_i, U)), W_i * R_i - U


def solve(
    W: Float,
    ask: Ask,
    problem: Problem,
    *,
    rho: float | None = None,
    tol: float = 1e-12,
    max_rounds: int = 1000,
    on_round: OnRound = ignore,
) -> WStep:
    """Return the minimiser of (P) by the alternating direction method of multipliers.

        W = soft( sum_i (W_i R_i - U_i) / R, lam / R ),     R = sum_i R_i

    The node penalties R_i are shares of R by precision: R = rho S is the paper's method with the weights 1 / sigma_c^2,
    where a node is a source. Without rho, R is a part of the metric, so that every cluster has a penalty on its scale.

    Parameters
    ----------
    W : array of shape (m, r)
        Where to start.
    ask : Ask
        Runs a function at every node and adds the replies.
    problem : Problem
        What the driver knows of (P).
    rho : float, optional
        The paper's fixed penalty, on the scale of H_c H_c'. Chosen automatically if not given.
    tol : float
        Stop when W changes less than this, relatively.
    max_rounds : int
        Stop after so many rounds.
    on_round : callable
        Called with the W after each round.

    Returns
    -------
    WStep
    """
    R = AUTO_RHO * problem.metric if rho is None else np.full(W.shape[1], rho * problem.S)
    mean, change = np.full_like(W, np.inf), np.inf
    for k in range(1, max_rounds + 1):
        mean, before = ask(partial(local_step, R=R, problem=problem, first=k == 1), W) / R, mean
        W = problem.penalty.proximal(mean, R)
        on_round(W)
        # The change before thresholding: W may rest at zero while the duals are still on their way.
        change = problem.change(mean, before)
        if change <= tol:
            return WStep(W, k, change, True)
    return WStep(W, max_rounds, change, False)
