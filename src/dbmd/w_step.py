"""The W-step: the driver has the statistics of a pass and solves (P) alone, or the nodes keep them and take part."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dbmd.engines import Metered, Traffic
from dbmd.model.node import Node
from dbmd.model.objective import objective
from dbmd.model.offsets import OffsetPrior, ridge_of
from dbmd.model.parts import Parts
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, gram
from dbmd.protocols import Ask, NodeFunction, Reply, Solver
from dbmd.solvers import WStep
from dbmd.start import Setting
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
        At the new V; with offsets, with the squares that are expected given their posterior.
    traffic : Traffic
        Of the W-step.
    offset_prior : OffsetPrior, optional
        The prior of the offsets, updated.
    offset_cost : float
        What offsets add to the objective.
    """

    V: Float
    step: WStep
    A: Float
    summaries: PerSource[Summary]
    traffic: Traffic
    offset_prior: OffsetPrior | None = None
    offset_cost: float = 0.0


def w_step_on_the_driver(
    V: Float,
    stats: PerSource[Statistics],
    sigma2: Float,
    origin: Float,
    prior: OffsetPrior | None,
    engine: Metered,
    solver: Solver,
    setting: Setting,
) -> WUpdate:
    """Solve (P) on the statistics that the pass gathered: the solver asks one node, which is on the driver."""
    parts, ridge = setting.parts, ridge_of(prior)
    total = Quadratic.of(stats, sigma2, origin, ridge)
    driver = Node("driver", quadratic=parts.of_free(total, V))

    def ask(node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        return node_function(driver, *broadcast)[1]

    A, n = gram(stats, sigma2, ridge), sum(s.n for s in stats.values())
    step = _solve(V, ask, A, n, engine.n_nodes, solver, setting)
    V = parts.with_free(V, step.W)
    return _with_offsets(
        WUpdate(V, step, total.A, parts.summaries(stats, V, origin), engine.last), prior, sigma2, parts
    )


def w_step_over_the_nodes(
    V: Float,
    summaries: PerSource[Summary],
    sigma2: Float,
    prior: OffsetPrior | None,
    engine: Metered,
    solver: Solver,
    setting: Setting,
) -> WUpdate:
    """Solve (P) in rounds over the nodes, which keep their statistics; the pass gathered summaries only."""
    parts, ridge = setting.parts, ridge_of(prior)
    A, n, start = gram(summaries, sigma2, ridge), sum(s.n for s in summaries.values()), engine.traffic
    step = _solve(V, engine.ask, A, n, engine.n_nodes, solver, setting)
    traffic = engine.traffic - start
    found = parts.with_free(V, step.W)
    there = engine.ask(partial(summarise, parts=parts), found)
    if _value(there, found, sigma2, ridge, setting) > _value(summaries, V, sigma2, ridge, setting):
        # A method that was stopped early may end higher than it began; the objective must not.
        found, there = V, summaries
    return _with_offsets(WUpdate(found, step, A, there, traffic), prior, sigma2, parts)


def _with_offsets(update: WUpdate, prior: OffsetPrior | None, sigma2: Float, parts: Parts) -> WUpdate:
    """Return an update with the step for the prior of the offsets, if there are any."""
    if prior is None:
        return update
    prior, summaries, cost = prior.update(parts.offsets(update.V), update.summaries, sigma2)
    return update._replace(summaries=summaries, offset_prior=prior, offset_cost=cost)


def _solve(V: Float, ask: Ask, A: Float, n: float, n_nodes: int, solver: Solver, setting: Setting) -> WStep:
    """Return the free columns of V that minimise (P), with A of shape (n_columns, n_columns) and n samples."""
    config, parts = setting.config, setting.parts
    free = parts.is_free
    if not free.any():
        return WStep(parts.free(V), 0, 0.0, True)
    lam, signs = parts.bounds_of_free(config.lam)
    A = A if free.all() else A[np.ix_(free, free)]
    problem = Problem.of_gram(A, n, lam, n_nodes, nonnegative=signs)
    return solver.solve(parts.free(V), ask, problem, **dict(config.solver_options or {}))


def _value(summaries: PerSource[Summary], V: Float, sigma2: Float, ridge: Float | None, setting: Setting) -> float:
    """Return the objective at V, up to what does not depend on V."""
    parts, lam = setting.parts, setting.config.lam
    value = objective(summaries, parts.components(V), sigma2, lam).value
    if ridge is None:
        return value
    squares = np.square(parts.offsets(V)).sum(axis=0)
    return value + 0.5 * sum(ridge[c] * s.n * float(squares[c]) for c, s in summaries.items())
