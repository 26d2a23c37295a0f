"""Distributed Bayesian matrix decomposition: the whole algorithm on one page.

    X_c = W H_c + noise(sigma_c),  Laplace prior on W,  Dirichlet prior on the columns of H,  maximum a posteriori

alternates three exact minimisations of one objective, Eq. (opt1), so it never rises:

    H       at the nodes, each sample alone                   sweep.py, kernels/
    W       one small problem, (P) of the errata              solvers/
    sigma   a mean square for each source                     model/noise.py

The nodes are reached by one verb, ``ask``; where they live (threads, a cluster) is the engine's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dbmd.config import Config
from dbmd.engines import Metered, Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.node import Node
from dbmd.model.noise import Noise
from dbmd.model.objective import has_converged, objective
from dbmd.model.problem import Problem
from dbmd.model.start import k_means_parallel, nearest, random_samples
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary
from dbmd.registry import load
from dbmd.result import Iteration, Result
from dbmd.solvers import WStep
from dbmd.sweep import origin_of, summarise, sweep

OnIteration = Callable[[Iteration, Float, Float], object]
STARTS = {"k-means||": k_means_parallel, "random": random_samples}


def fit(
    engine: Any,
    config: Config,
    *,
    n_sources: int,
    n_features: int,
    dtype: np.dtype[Any],
    seed: int,
    start: tuple[Float, Float] | None = None,
    on_iteration: OnIteration = lambda record, W, sigma2: None,
) -> Result:
    """Return the best of ``config.n_init`` fits.

    Parameters
    ----------
    engine : Engine
        Holds the nodes.
    config : Config
        The parameters.
    n_sources, n_features : int
        Sources are numbered 0 to n_sources - 1.
    dtype : dtype
        Of the data.
    seed : int
        Of the start.
    start : tuple of arrays, optional
        W, shape (n_features, n_components), and sigma2, shape (n_sources,), to go on from instead of a start.
    on_iteration : callable
        Called after each iteration with its :class:`~dbmd.result.Iteration`, W and sigma2. The fit stops when it
        returns something true.

    Returns
    -------
    Result
    """
    go = partial(descend, engine=engine, config=config, n_sources=n_sources, dtype=dtype, on_iteration=on_iteration)
    given = config.start(n_features)
    if start is not None:
        best = go(*start)
    elif given is not None:
        best = go(given)
    else:
        draw = partial(STARTS[str(config.init)], engine.ask, config.n_components)
        best = min((go(draw(seed + 1000 * i)) for i in range(config.n_init)), key=lambda end: end.history[-1].objective)

    # A last sweep, from nothing but W and sigma: labels, sizes and objective are those of the model as it is kept.
    W, sigma2, history, converged = best
    W = W.astype(dtype).astype(np.float64)
    h_step = partial(sweep, prior=config.prior, origin=origin_of(W, dtype), gather=False, warm=False)
    summaries: PerSource[Summary] = engine.ask(partial(h_step, sigma2=sigma2), W)
    value = objective(summaries, W, sigma2, config.lam).value
    sizes = np.sum([s.sizes for s in summaries.values()], axis=0)
    return Result(W, sigma2, sizes, value, history, converged)


class Descent(NamedTuple):
    """Where a descent ended, and how it got there."""

    W: Float
    sigma2: Float
    history: list[Iteration]
    converged: bool


def descend(
    W: Float,
    sigma2: Float | None = None,
    *,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
    on_iteration: OnIteration,
) -> Descent:
    """Alternate H, W and sigma from W, shape (m, r), and sigma2, shape (n_sources,), if given, until it converges."""
    engine = Metered(engine)
    solver = load("solvers", config.solver)
    w_step = _w_step_at_the_centre if solver.GATHERS else _w_step_over_the_nodes
    origin = origin_of(W, dtype)
    h_step = partial(sweep, prior=config.prior, origin=origin, gather=solver.GATHERS)

    hard: PerSource[Statistics] = engine.ask(partial(nearest, origin=origin), W)
    noise = Noise.for_data(config.noise, n_sources, hard, dtype)
    if sigma2 is None:
        sigma2 = noise.levels(hard.map(lambda s: s.summary(W, origin)), len(W))

    history: list[Iteration] = []
    last, converged = None, False
    for iteration in range(1, config.max_iter + 1):
        clock, traffic = time.perf_counter(), engine.traffic
        replies = engine.ask(partial(h_step, sigma2=sigma2), W)
        step, summaries, w_traffic = w_step(W, replies, sigma2, origin, engine, solver, config)
        levels = noise.levels(summaries, len(W))
        now = objective(summaries, step.W, levels, config.lam)
        if last is not None and now.exceeds(last, dtype):
            converged = True  # as far as the numbers of this type can tell: stay where we were
            break
        W, sigma2 = step.W, levels

        total = engine.traffic - traffic
        record = Iteration(
            iteration=iteration,
            objective=now.value,
            seconds=time.perf_counter() - clock,
            rounds=step.rounds,
            floats_up=w_traffic.floats_up,
            floats_down=w_traffic.floats_down,
            total_floats_up=total.floats_up,
            total_floats_down=total.floats_down,
            w_change=step.change,
            w_converged=step.converged,
        )
        history.append(record)
        converged = last is not None and has_converged(last, now, config.tol)
        if on_iteration(record, W, sigma2) or converged:
            break
        last = now
    return Descent(W, sigma2, history, converged)


WOutcome = tuple[WStep, PerSource[Summary], Traffic]


def _w_step_at_the_centre(
    W: Float, replies: PerSource[Statistics], sigma2: Float, origin: Float, engine: Metered, solver: Any, config: Config
) -> WOutcome:
    """Solve (P) on the statistics that the sweep brought: the centre asks itself."""
    problem = Problem.of(replies.map(lambda s: s.summary(W, origin)), sigma2, config.lam, engine.n_nodes)
    centre = LocalEngine([Node("centre", quadratic=Quadratic.of(replies, sigma2, origin))])
    step = solver.solve(W, centre.ask, problem, **dict(config.solver_options or {}))
    return step, replies.map(lambda s: s.summary(step.W, origin)), engine.last


def _w_step_over_the_nodes(
    W: Float, replies: PerSource[Summary], sigma2: Float, origin: Float, engine: Metered, solver: Any, config: Config
) -> WOutcome:
    """Solve (P) in rounds over the nodes, which keep their statistics."""
    problem = Problem.of(replies, sigma2, config.lam, engine.n_nodes)
    start = engine.traffic
    step = solver.solve(W, engine.ask, problem, **dict(config.solver_options or {}))
    traffic = engine.traffic - start
    summaries: PerSource[Summary] = engine.ask(summarise, step.W)
    before = objective(replies, W, sigma2, config.lam).value
    if objective(summaries, step.W, sigma2, config.lam).value > before:
        # A method that was stopped early may end higher than it began; the objective must not.
        return step._replace(W=W), replies, traffic
    return step, summaries, traffic
