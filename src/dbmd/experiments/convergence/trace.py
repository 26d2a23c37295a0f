"""A solver on its way, and the rate that can be read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dbmd.experiments.known_memberships import WProblem
from dbmd.model.statistics import Float

FLOOR = 1e-10  # an error of W below this part of its norm has rounding in it


class Rate(NamedTuple):
    """How the error shrinks.

    Attributes
    ----------
    late : float
        By which factor in a round, the mean over the last third of the rounds above rounding.
    worst : float
        The largest factor of all rounds above rounding.
    """

    late: float
    worst: float


@dataclass(frozen=True)
class Trace:
    """What a solver went through from W = 0, the start first.

    Attributes
    ----------
    gaps : array of shape (rounds + 1,)
        (F - F*) / F*.
    losses : array of shape (rounds + 1,)
        The paper's log loss, ln((sum_c ||X_c - W H_c||^2 + lam ||W||_1) / C).
    errors : array of shape (rounds + 1,)
        ||W - W*|| / ||W*||.
    """

    gaps: Float
    losses: Float
    errors: Float

    @classmethod
    def follow(cls, problem: WProblem, best: Float, solver: str, rounds: int, **options: Any) -> Trace:
        """Let a solver run, and look at it after each round; ``best`` is W*."""
        passed = [np.zeros_like(best)]
        problem.solve(solver, max_rounds=rounds, tol=1e-14, on_round=lambda W: passed.append(W.copy()), **options)
        lowest = problem.objective(best)
        return cls(
            np.array([problem.objective(W) / lowest - 1.0 for W in passed]),
            np.array([log_loss(problem, W) for W in passed]),
            np.array([np.linalg.norm(W - best) for W in passed]) / np.linalg.norm(best),
        )

    def rate(self) -> Rate:
        """Return the rate at which the error shrinks."""
        below = np.flatnonzero(self.errors < FLOOR)
        end = max(1, below[0] - 1 if len(below) else len(self.errors) - 1)
        begin = min(2 * end // 3, end - 1)
        steps = np.diff(np.log(np.maximum(self.errors[: end + 1], np.finfo(float).tiny)))
        return Rate(float(np.exp(steps[begin:].mean())), float(np.exp(steps.max())))


def log_loss(problem: WProblem, W: Float) -> float:
    """Return ln((sum_c ||X_c - W H_c||^2 + lam ||W||_1) / C), as the authors plot it, where all sigma_c are 1."""
    penalty = problem.problem.lam * float(np.abs(W).sum())
    squares = 2.0 * (problem.objective(W) - penalty)
    return float(np.log((squares + penalty) / len(problem.terms)))


def rounds_to(gaps: Sequence[float] | Float, gap: float) -> int | None:
    """Return the first round with a gap as small as this; None if there is none."""
    reached = np.flatnonzero(np.asarray(gaps) <= gap)
    return int(reached[0]) if len(reached) else None
