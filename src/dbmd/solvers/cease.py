"""CEASE, communication-efficient statistical estimation: Algorithm 3, corrected by point 9 of docs/paper.md.

A round: W goes down and gradients come up, then the gradient of the sum goes down and the W_i come up (4 m r floats).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dbmd.model.lasso import minimise
from dbmd.model.node import Node, continues
from dbmd.model.penalty import Lam
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, Quadratic
from dbmd.protocols import Ask
from dbmd.solvers._step import OnRound, WStep, ignore

GATHERS = False

AUTO_GAMMA = 0.01  # in units of the cluster sizes; raised when a round goes uphill
MAX_GAMMA = 1e12  # at this nothing moves any more


@continues
def gradient(node: Node, W: Float) -> tuple[Node, Float]:
    """Node: keep W, and send the gradient of its term, W A_i - B_i, shape (m, r)."""
    assert node.quadratic is not None
    before = W if node.scratch is None else node.scratch[0]
    return replace(node, scratch=(W, before)), node.quadratic.gradient(W)


@continues
def local_solution(node: Node, G: Float, *, gamma: Float, problem: Problem, back: bool) -> tuple[Node, Float]:
    """Node: send p_i W_i, shape (m, r), where p_i is its share of the precision: the sum is the average of the W_i.

    W_i minimises f_i / p_i, scaled up to stand for the whole, with its gradient at W corrected to that of the whole:

        f_i(V) / p_i - <grad f_i(W) / p_i - G, V> + 1/2 ||V - W||_gamma^2 + lam ||V||_1

    With ``back`` W is not the last one, which went uphill, but the one before.
    """
    assert node.quadratic is not None
    f, W = node.quadratic, node.scratch[back]
    p = problem.share(f)
    node = replace(node, scratch=(W, W))
    if p == 0.0:  # no samples
        return node, np.zeros_like(W)
    A = f.A / p + np.diag(gamma)
    return node, p * minimise(Quadratic(A, W @ A - G), problem.lam, W, problem.nonnegative)


def solve(
    W: Float,
    ask: Ask,
    problem: Problem,
    *,
    gamma: float | None = None,
    tol: float = 1e-10,
    max_rounds: int = 300,
    on_round: OnRound = ignore,
) -> WStep:
    """Return the minimiser of (P) by averaging solutions of gradient-enhanced local problems.

    Every node solves with its own curvature and the gradient of all, and the solutions are averaged by the shares p_i.
    A round that would raise the objective is taken back, and gamma is raised fourfold.

    Parameters
    ----------
    W : array of shape (m, r)
        Where to start.
    ask : Ask
        Runs a function at every node and adds the replies.
    problem : Problem
        What the driver knows of (P).
    gamma : float, optional
        The paper's proximal weight, on the scale of H_c H_c'. Chosen automatically if not given.
    tol : float
        Stop when W changes less than this, relatively.
    max_rounds : int
        Stop after so many rounds: several times what data need on which it works, and no more where it crawls.
    on_round : callable
        Called with the W after each round.

    Returns
    -------
    WStep
    """
    weights = AUTO_GAMMA * problem.metric if gamma is None else np.full(W.shape[1], gamma * problem.S)
    W = problem.penalty.feasible(W)  # then all averages are, too
    candidate, G, change = W, np.zeros_like(W), np.inf
    for k in range(1, max_rounds + 1):
        G_candidate = ask(gradient, candidate)
        back = k > 1 and _rise(W, G, candidate, G_candidate, problem.lam) > 0.0
        if back:
            weights = np.minimum(4.0 * weights + 1e-3 * problem.metric, MAX_GAMMA * problem.metric)
        else:
            W, G = candidate, G_candidate
        candidate = ask(partial(local_solution, gamma=weights, problem=problem, back=back), G)
        on_round(candidate)
        change = problem.change(candidate, W)
        if change <= tol:
            return WStep(candidate, k, change, True)
    return WStep(W, max_rounds, change, False)


def _rise(W: Float, G: Float, V: Float, G_V: Float, lam: Lam) -> float:
    """Return by how much the objective is higher at V than at W, beyond rounding; G and G_V are the gradients there.

    f is quadratic, so f(V) - f(W) = <grad f(W) + grad f(V), V - W> / 2: no message is needed for it.
    """
    terms = 0.5 * (G + G_V) * (V - W) + lam * (np.abs(V) - np.abs(W))
    return float(terms.sum() - 1e-12 * np.abs(terms).sum())
