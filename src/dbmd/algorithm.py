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
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dbmd.config import Config
from dbmd.engines import Metered, Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.node import Node
from dbmd.model.noise import Noise
from dbmd.model.objective import explained_variance, has_converged, objective
from dbmd.model.problem import Problem
from dbmd.model.start import k_means_of_a_sample, k_means_parallel, nearest, random_samples
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary
from dbmd.registry import load
from dbmd.result import Iteration, Result, State
from dbmd.solvers import WStep
from dbmd.sweep import Survey, origin_of, summarise, survey, sweep

OnIteration = Callable[[State], object]
STARTS = {"k-means++": k_means_of_a_sample, "k-means||": k_means_parallel, "random": random_samples}
# Every so many sweeps start from nothing but W: a fit that is resumed there cannot be told from one that ran through.
FRESH = 10


def fit(
    engine: Any,
    config: Config,
    *,
    n_sources: int,
    n_features: int,
    dtype: np.dtype[Any],
    seed: int,
    n_classes: int = 0,
    start: tuple[Float, Float] | None = None,
    resume: State | None = None,
    on_iteration: OnIteration = lambda state: None,
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
    n_classes : int
        Number of known classes, which the clusters found are set against.
    start : tuple of arrays, optional
        W, shape (n_features, n_components), and sigma2, shape (n_sources,), to go on from instead of a start.
    resume : State, optional
        Go on from here, to the end that an uninterrupted fit of the same data with the same seed has.
    on_iteration : callable
        Called after each iteration with the :class:`~dbmd.result.State`. The descent stops when it returns something
        true.

    Returns
    -------
    Result
    """
    setting = {"engine": engine, "config": config, "n_sources": n_sources, "dtype": dtype}
    given = config.start(n_features)
    attempts = config.n_init if start is None and given is None else 1
    best: State | None = None
    for attempt in range(resume.attempt if resume else 0, attempts):
        if resume is not None and attempt == resume.attempt:
            state = resume
        elif start is not None:
            state = begin(*start, **setting)
        elif given is not None:
            state = begin(given, **setting)
        else:
            state = begin(STARTS[str(config.init)](engine.ask, config.n_components, seed + 1000 * attempt), **setting)
            state = replace(state, attempt=attempt, best=best)
        state = descend(state, **setting, on_iteration=on_iteration)
        best = min((s for s in (state.best, replace(state, best=None)) if s), key=lambda s: s.history[-1].objective)
    assert best is not None

    # A last sweep, from nothing but W and sigma: labels, sizes and objective are those of the model as it is kept.
    W, sigma2 = best.W.astype(dtype).astype(np.float64), best.sigma2
    origin = origin_of(W, dtype)
    last = partial(survey, sigma2=sigma2, prior=config.prior, origin=origin, n_classes=n_classes)
    found: Survey = engine.ask(last, W)
    summaries = found.stats.map(lambda s: s.summary(W, origin))
    value = objective(summaries, W, sigma2, config.lam).value
    explained = explained_variance(found.stats, summaries, n_sources)
    return Result(W, sigma2, value, list(best.history), best.converged, found.profile, explained)


def begin(
    W: Float,
    sigma2: Float | None = None,
    *,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
) -> State:
    """Return the state before the first iteration from W, shape (m, r), and sigma2, shape (n_sources,), if given."""
    origin = origin_of(W, dtype)
    hard: PerSource[Statistics] = engine.ask(partial(nearest, origin=origin), W)
    noise = Noise.for_data(config.noise, n_sources, hard, dtype)
    if sigma2 is None:
        sigma2 = noise.levels(hard.map(lambda s: s.summary(W, origin)), len(W))
    return State(W, sigma2, origin, noise.floor)


def descend(
    state: State,
    *,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
    on_iteration: OnIteration,
) -> State:
    """Alternate H, W and sigma from a state until it converges."""
    engine = Metered(engine)
    solver = load("solvers", config.solver)
    w_step = _w_step_at_the_centre if solver.GATHERS else _w_step_over_the_nodes
    noise = Noise(config.noise, n_sources, state.floor)
    origin = state.origin
    h_step = partial(sweep, prior=config.prior, origin=origin, gather=solver.GATHERS)

    while not state.converged and len(state.history) < config.max_iter:
        clock, traffic, last = time.perf_counter(), engine.traffic, state.objective
        W, sigma2 = state.W, state.sigma2
        replies = engine.ask(partial(h_step, sigma2=sigma2, warm=len(state.history) % FRESH > 0), W)
        step, summaries, w_traffic = w_step(W, replies, sigma2, origin, engine, solver, config)
        levels = noise.levels(summaries, len(W))
        now = objective(summaries, step.W, levels, config.lam)
        if last is not None and now.exceeds(last, dtype):
            return replace(state, converged=True)  # as far as the numbers of this type can tell: stay where we were

        total = engine.traffic - traffic
        record = Iteration(
            iteration=len(state.history) + 1,
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
        state = replace(
            state,
            W=step.W,
            sigma2=levels,
            objective=now,
            history=(*state.history, record),
            converged=last is not None and has_converged(last, now, config.tol),
        )
        if on_iteration(state):
            break
    return state


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
