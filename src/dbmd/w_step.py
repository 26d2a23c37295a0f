"""The W-step: the driver has the statistics of a pass and solves (P) alone, or the nodes keep them and take part."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from dbmd.config import Config
from dbmd.engines import Metered, Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.node import Node
from dbmd.model.objective import objective
from dbmd.model.parts import Parts
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, gram
from dbmd.protocols import Ask, Solver
from dbmd.solvers import WStep
from dbmd.sweep import summarise


class WUpdate(NamedTuple):
    """A new W, and what the rest of the iteration needs to know at it.

    Attributes
    ----------
    V : array of shape (m, n_columns)
        The new components and offsets.
    step : WStep
        How the solver found the free columns.
    A : array of shape (n_columns, n_columns)
        Gram matrix of the memberships, weighted by precision: the curvature of (P).
    summaries : PerSource[Summary]
        At the new V.
    traffic : Traffic
        Of the W-step.
    """

    V: Float
    step: WStep
    A: Float
    summaries: PerSource[Summary]
    traffic: Traffic


def w_step_on_the_driver(
    V: Float,
    stats: PerSource[Statistics],
    sigma2: Float,
    origin: Float,
    engine: Metered,
    solver: Solver,
    config: Config,
    parts: Parts,
    ridge: Float | None = None,
) -> WUpdate:
    """Solve (P) on the statistics that the pass gathered: the solver asks one node, which is on the driver."""
    total = Quadratic.of(stats, sigma2, origin, ridge)
    driver = LocalEngine([Node("driver", quadratic=parts.of_free(total, V))])
    A, n = gram(stats, sigma2, ridge), sum(s.n for s in stats.values())
    step = _solve(V, driver.ask, A, n, engine.n_nodes, solver, config, parts)
    V = parts.with_free(V, step.W)
    return WUpdate(V, step, total.A, parts.summaries(stats, V, origin), engine.last)


def w_step_over_the_nodes(
    V: Float,
    summaries: PerSource[Summary],
    sigma2: Float,
    engine: Metered,
    solver: Solver,
    config: Config,
    parts: Parts,
    ridge: Float | None = None,
) -> WUpdate:
    """Solve (P) in rounds over the nodes, which keep their statistics; the pass gathered summaries only."""
    A, n, start = gram(summaries, sigma2, ridge), sum(s.n for s in summaries.values()), engine.traffic
    step = _solve(V, engine.ask, A, n, engine.n_nodes, solver, config, parts)
    traffic = engine.traffic - start
    found = parts.with_free(V, step.W)
    there = engine.ask(partial(summarise, parts=parts), found)
    before = _value(summaries, V, sigma2, config, parts, ridge)
    if _value(there, found, sigma2, config, parts, ridge) > before:
        # A method that was stopped early may end higher than it began; the objective must not.
        found, there = V, summaries
    return WUpdate(found, step, A, there, traffic)


def _solve(V: Float, ask: Ask, A: Float, n: float, n_nodes: int, solver: Solver, config: Config, parts: Parts) -> WStep:
    """Return the free columns of V that minimise (P), with A of shape (n_columns, n_columns) and n samples."""
    free = parts.is_free
    if not free.any():
        return WStep(parts.free(V), 0, 0.0, True)
    lam, signs = parts.bounds_of_free(config.lam)
    problem = Problem.of_gram(A[np.ix_(free, free)], n, lam, n_nodes, nonnegative=signs)
    return solver.solve(parts.free(V), ask, problem, **dict(config.solver_options or {}))


def _value(
    summaries: PerSource[Summary], V: Float, sigma2: Float, config: Config, parts: Parts, ridge: Float | None
) -> float:
    """Return the objective at V, up to what does not depend on V."""
    value, D = objective(summaries, parts.components(V), sigma2, config.lam).value, parts.offsets(V)
    if ridge is None:
        return value
    n = np.array([summaries[c].n if c in summaries else 0.0 for c in range(D.shape[1])])
    return value + 0.5 * float(np.square(D).sum(axis=0) @ (ridge * n))
