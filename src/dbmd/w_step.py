"""The W-step: the driver has the statistics of a pass and solves (P) alone, or the nodes keep them and take part."""

from __future__ import annotations

from typing import NamedTuple

from dbmd.config import Config
from dbmd.engines import Metered, Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.node import Node
from dbmd.model.objective import objective
from dbmd.model.problem import Problem
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, gram
from dbmd.protocols import Solver
from dbmd.solvers import WStep
from dbmd.sweep import summarise


class WUpdate(NamedTuple):
    """A new W, and what the rest of the iteration needs to know at it.

    Attributes
    ----------
    step : WStep
        The new W, and how the solver found it.
    A : array of shape (r, r)
        Gram matrix of the memberships, weighted by precision: the curvature of (P).
    summaries : PerSource[Summary]
        At the new W.
    traffic : Traffic
        Of the W-step.
    """

    step: WStep
    A: Float
    summaries: PerSource[Summary]
    traffic: Traffic


def w_step_on_the_driver(
    W: Float,
    stats: PerSource[Statistics],
    sigma2: Float,
    origin: Float,
    engine: Metered,
    solver: Solver,
    config: Config,
) -> WUpdate:
    """Solve (P) on the statistics that the pass gathered: the solver asks one node, which is on the driver."""
    problem = Problem.of(stats.map(lambda s: s.summary(W, origin)), sigma2, config.lam, engine.n_nodes)
    total = Quadratic.of(stats, sigma2, origin)
    driver = LocalEngine([Node("driver", quadratic=total)])
    step = solver.solve(W, driver.ask, problem, **dict(config.solver_options or {}))
    return WUpdate(step, total.A, stats.map(lambda s: s.summary(step.W, origin)), engine.last)


def w_step_over_the_nodes(
    W: Float, summaries: PerSource[Summary], sigma2: Float, engine: Metered, solver: Solver, config: Config
) -> WUpdate:
    """Solve (P) in rounds over the nodes, which keep their statistics; the pass gathered summaries only."""
    problem = Problem.of(summaries, sigma2, config.lam, engine.n_nodes)
    start = engine.traffic
    step = solver.solve(W, engine.ask, problem, **dict(config.solver_options or {}))
    traffic = engine.traffic - start
    before, summaries_before = objective(summaries, W, sigma2, config.lam).value, summaries
    summaries = engine.ask(summarise, step.W)
    if objective(summaries, step.W, sigma2, config.lam).value > before:
        # A method that was stopped early may end higher than it began; the objective must not.
        step, summaries = step._replace(W=W), summaries_before
    return WUpdate(step, gram(summaries, sigma2), summaries, traffic)
