"""Accelerated gradient descent (FISTA) over the nodes: Algorithm 1, corrected by points 6 and 7 of docs/paper.md.

A round: the point Y goes down (m r floats), gradients come up (m r floats).
"""

from __future__ import annotations

import numpy as np

from dbmd.model.node import Node, continues
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float
from dbmd.protocols import Ask
from dbmd.solvers._step import OnRound, WStep, ignore

GATHERS = False


@continues
def gradient(node: Node, Y: Float) -> tuple[Node, Float]:
    """Node: send the gradient of its term, Y A_i - B_i, shape (m, r)."""
    assert node.quadratic is not None
    return node, node.quadratic.gradient(Y)


def solve(
    W: Float,
    ask: Ask,
    problem: Problem,
    *,
    tol: float = 1e-10,
    max_rounds: int = 1000,
    on_round: OnRound = ignore,
) -> WStep:
    """Return the minimiser of (P) by proximal gradient steps with Nesterov's momentum.

        W_k     = soft(Y_k - G(Y_k) / d, lam / d)             G = sum_i (Y_k A_i - B_i)
        t_k+1   = (1 + sqrt(1 + 4 t_k^2)) / 2
        Y_k+1   = W_k + (t_k - 1) / t_k+1 (W_k - W_k-1)

    The paper's step is 1 / L with L = lambda_max(sum_i A_i); ours is 1 / d_k for component k, which is as
    safe and adapts to the size of each cluster. The momentum starts anew when it points uphill [1]_.

    Parameters
    ----------
    W : array of shape (m, r)
        Where to start.
    ask : Ask
        Runs a function at every node and adds the replies.
    problem : Problem
        What the driver knows of (P).
    tol : float
        Stop when W changes less than this, relatively.
    max_rounds : int
        Stop after so many rounds.
    on_round : callable
        Called with the W after each round.

    Returns
    -------
    WStep

    References
    ----------
    .. [1] B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, Found. Comput. Math. 2015.
    """
    d = problem.metric
    Y, t, change = W, 1.0, np.inf
    for k in range(1, max_rounds + 1):
        G = ask(gradient, Y)
        W, before = problem.penalty.proximal(Y - G / d, d), W
        on_round(W)
        change = problem.change(W, Y)
        if change <= tol:
            return WStep(W, k, change, True)
        if np.vdot((Y - W) * d, W - before) > 0.0:
            t = 1.0
        t, t_before = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0, t
        Y = W + (t_before - 1.0) / t * (W - before)
    return WStep(W, max_rounds, change, False)
