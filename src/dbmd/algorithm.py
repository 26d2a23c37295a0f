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
from typing import Any

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
from dbmd.sweep import summarise, sweep

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
    on_iteration : callable
        Called after each iteration with its :class:`~dbmd.result.Iteration`, W and sigma2. The fit stops when it
        returns something true.

    Returns
    -------
    Result
    """
    given = config.start(n_features)
    results = []
    for attempt in range(config.n_init if given is None else 1):
        W = given
        if W is None:
            W = STARTS[str(config.init)](engine.ask, config.n_components, seed + 1000 * attempt)
        results.append(fit_from(W, engine, config, n_sources=n_sources, dtype=dtype, on_iteration=on_iteration))
    return min(results, key=lambda result: result.objective)


def fit_from(
    W: Float,
    engine: Any,
    config: Config,
    *,
    n_sources: int,
    dtype: np.dtype[Any],
    on_iteration: OnIteration,
) -> Result:
    """Return the fit that starts at W, shape (m, r)."""
    engine = Metered(engine)
    solver = load("solvers", config.solver)
    w_step = _w_step_at_the_centre if solver.GATHERS else _w_step_over_the_nodes
    h_step = partial(sweep, prior=config.prior, gather=solver.GATHERS)

    hard: PerSource[Statistics] = engine.ask(nearest, W)
    noise = Noise.for_data(config.noise, n_sources, hard, dtype)
    sigma2 = noise.levels(hard.map(lambda s: s.summary(W)), len(W))

    history: list[Iteration] = []
    last, converged = None, False
    for iteration in range(1, config.max_iter + 1):
        clock, traffic = time.perf_counter(), engine.traffic
        replies = engine.ask(partial(h_step, sigma2=sigma2), W)
        step, summaries, w_traffic = w_step(W, replies, sigma2, engine, solver, config)
        W = step.W
        sigma2 = noise.levels(summaries, len(W))
        now = objective(summaries, W, sigma2, config.lam)

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

    # A last sweep, from nothing but W and sigma: labels, sizes and objective are those of the model as it is kept.
    W = W.astype(dtype).astype(np.float64)
    summaries = engine.ask(partial(sweep, sigma2=sigma2, prior=config.prior, gather=False, warm=False), W)
    value = objective(summaries, W, sigma2, config.lam).value
    sizes = np.sum([s.sizes for s in summaries.values()], axis=0)
    return Result(W, sigma2, sizes, value, history, converged)


WOutcome = tuple[WStep, PerSource[Summary], Traffic]


def _w_step_at_the_centre(
    W: Float, replies: PerSource[Statistics], sigma2: Float, engine: Metered, solver: Any, config: Config
) -> WOutcome:
    """Solve (P) on the statistics that the sweep brought: the centre asks itself."""
    problem = Problem.of(replies.map(lambda s: s.summary(W)), sigma2, config.lam, engine.n_nodes)
    centre = LocalEngine([Node("centre", quadratic=Quadratic.of(replies, sigma2))])
    step = solver.solve(W, centre.ask, problem, **dict(config.solver_options or {}))
    return step, replies.map(lambda s: s.summary(step.W)), engine.last


def _w_step_over_the_nodes(
    W: Float, replies: PerSource[Summary], sigma2: Float, engine: Metered, solver: Any, config: Config
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
