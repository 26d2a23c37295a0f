"""The W-step alone: problem (P) with memberships that are known, each source at a node of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbmd.engines.local import Engine
from dbmd.model.node import Node
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics
from dbmd.protocols import Engine as AnyEngine
from dbmd.registry import load_solver
from dbmd.solvers import WStep


@dataclass(frozen=True)
class WProblem:
    """min_W sum_c ||X_c - W H_c||^2 / (2 sigma_c^2) + lam ||W||_1.

    Attributes
    ----------
    terms : list of Quadratic
        The term of each node.
    problem : Problem
        What the driver knows of the problem.
    constant : float
        sum_c ||X_c||^2 / (2 sigma_c^2), which the terms leave out.
    """

    terms: list[Quadratic]
    problem: Problem
    constant: float

    @classmethod
    def of(cls, X: Sequence[Float], H: Sequence[Float], sigma2: Sequence[float] | Float, lam: float = 0.0) -> WProblem:
        """Form it from X_c, shape (m, n_c), and H_c, shape (r, n_c)."""
        stats = PerSource(
            {c: Statistics(X_c @ H_c.T, H_c @ H_c.T, float(np.vdot(X_c, X_c)), X_c.shape[1], 0.0)
             for c, (X_c, H_c) in enumerate(zip(X, H, strict=True))}
        )  # fmt: skip
        levels = np.asarray(sigma2, float)
        zero = np.zeros((len(X[0]), len(H[0])))
        return cls(
            [Quadratic.of(PerSource({c: s}), levels) for c, s in stats.items()],
            Problem.of(stats.map(lambda s: s.summary(zero)), levels, lam, len(stats)),
            sum(s.sq_norm / (2.0 * levels[c]) for c, s in stats.items()),
        )

    def objective(self, W: Float) -> float:
        """Return F(W)."""
        return self.constant + sum(f.value(W) for f in self.terms) + float(self.problem.penalty.value(W))

    def engine(self, n_threads: int = 1) -> Engine:
        """Return an engine with a node for each term."""
        return Engine([Node(f"source {c}", quadratic=f) for c, f in enumerate(self.terms)], n_threads)

    def solve(
        self,
        solver: str,
        *,
        engine: AnyEngine | None = None,
        start: Float | None = None,
        on_round: Callable[[Float], object] = lambda W: None,
        **options: Any,
    ) -> WStep:
        """Return what a solver finds, from W = 0 or another start, over the nodes of an engine."""
        W = np.zeros_like(self.terms[0].B) if start is None else start
        with self.engine() as own:
            return load_solver(solver).solve(W, (engine or own).ask, self.problem, on_round=on_round, **options)
