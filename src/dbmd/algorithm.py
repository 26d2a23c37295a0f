"""Distributed Bayesian matrix decomposition: the whole algorithm on one page.

    X_c = W H_c + noise(sigma_c),  Laplace prior on W,  memberships (columns of H) on the simplex

W and the noise levels are found by their evidence: the memberships are integrated out, by Laplace's approximation on
the face of the simplex that each sample's peak lies on (model/evidence.py). Three steps alternate:

    H       at the nodes, each sample alone: the peak, and the covariance about it          sweep.py, kernels/
    W       one small problem, (P) of docs/paper.md                                            solvers/
    sigma   a mean square for each source                                                   model/noise.py

until W stays where it is. With faces fixed, none of them raises the objective J. With ``inference="map"`` memberships
are taken at their peak, as in the paper; then they minimise one objective, Eq. (opt1), which never rises.

That alone would take some hundred passes over the data. Most of them are made over a sample (``find_start``), and
between passes W goes further than to its minimiser (``descend``, model/path.py).

The nodes are reached by one verb, ``ask``; where they live (threads, a cluster) is the engine's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dbmd._utils.threads import one_blas_thread
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.engines import Metered, Traffic
from dbmd.engines.local import Engine as LocalEngine
from dbmd.engines.local import available_threads
from dbmd.model.draw import Moments, check_magnitude, moments
from dbmd.model.evidence import Evidence, noise_excess
from dbmd.model.low_rank import LowRank
from dbmd.model.memory import Memory
from dbmd.model.node import Node
from dbmd.model.noise import Noise, least_level
from dbmd.model.objective import explained_variance, objective
from dbmd.model.path import Path
from dbmd.model.problem import Problem
from dbmd.model.result import Iteration, Result, State
from dbmd.model.start import (
    Sample,
    draw_sample,
    k_means,
    k_means_of_a_sample,
    k_means_parallel,
    nearest,
    random_samples,
)
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, gram, middle
from dbmd.registry import load
from dbmd.solvers import WStep
from dbmd.sweep import Survey, origin_of, summarise, survey, sweep

OnIteration = Callable[[State], object]
STARTS = {"k-means++": k_means_of_a_sample, "k-means||": k_means_parallel, "random": random_samples}
# Every so many sweeps start from nothing but W: a fit that is resumed there cannot be told from one that ran through.
FRESH = 10
# A sample at the centre has as many nodes, one for so many samples; not by the machine, whose threads must not change
# the sums.
SAMPLE_NODES, SAMPLES_AT_A_NODE = 8, 1000
SAMPLE_TOL = 0.1  # tolerance of the fit of a sample, relative to that of all: an iteration there costs next to nothing


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
        Called after each iteration with the :class:`~dbmd.model.result.State`. The descent stops when it returns
        something true.

    Returns
    -------
    Result
    """
    setting = {"engine": engine, "config": config, "n_sources": n_sources, "dtype": dtype}
    given = config.start(n_features)
    attempts = config.n_init if start is None and given is None else 1
    # One excess for all attempts: only with the same can objectives be compared.
    excess: Float | None = None
    if config.inference == "evidence":
        if resume is not None and resume.evidence is not None:
            excess = np.array(resume.evidence.excess)
        elif config.effective_features is not None:
            excess = np.full(n_sources, n_features / config.effective_features)
    known: PerSource[Moments] = PerSource()
    if resume is None or attempts > 1:
        known = engine.ask(moments)
        check_magnitude(known, dtype)
    best: State | None = None
    for attempt in range(resume.attempt if resume else 0, attempts):
        if resume is not None and attempt == resume.attempt:
            state = resume
        else:
            own_seed = seed + 1000 * attempt
            if start is not None:
                state = begin(*start, excess=excess, **setting)
            elif given is not None:
                state = begin(given, excess=excess, **setting)
            else:
                state = find_start(own_seed, known, excess, **setting)
            if config.inference == "evidence":
                evidence = state.evidence or find_evidence(state, engine, known, config.n_components, own_seed)
                state, excess = replace(state, evidence=evidence), np.array(evidence.excess)
            state = replace(state, attempt=attempt, best=best)
        with one_blas_thread():  # matrices of the size of W are small: threads would mostly wait for each other
            state = descend(state, **setting, on_iteration=on_iteration)
        best = min((s for s in (state.best, replace(state, best=None)) if s), key=lambda s: s.history[-1].objective)
    assert best is not None

    # A last sweep, from nothing but W and sigma: labels, sizes and objective are those of the model as it is kept.
    W, sigma2, origin = best.W.astype(dtype).astype(np.float64), best.sigma2, best.origin
    last = partial(
        survey, sigma2=sigma2, prior=config.prior, origin=origin, evidence=best.evidence, n_classes=n_classes
    )
    found: Survey = engine.ask(last, W)
    summaries = found.stats.map(lambda s: s.summary(W, origin))
    value = objective(summaries, W, sigma2, config.lam).value
    explained = explained_variance(found.stats, summaries, n_sources)
    memory = Memory(found.stats, origin)
    return Result(W, sigma2, best.evidence, value, list(best.history), best.converged, found.profile, explained, memory)


def find_start(
    seed: int,
    known: PerSource[Moments],
    excess: Float | None,
    *,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
) -> State:
    """Return the state before the first iteration, as ``config.init`` says.

    After k-means of a sample comes a fit of that sample at the centre: its iterations cost next to nothing, and take W
    and the noise levels to where a few passes over all samples do the rest. Wide samples are clustered and fitted in
    the space of their leading principal directions (model/reduce.py), and the noise off that space counts.
    """
    setting = {"engine": engine, "config": config, "n_sources": n_sources, "dtype": dtype}
    if config.init != "k-means++":
        W = STARTS[str(config.init)](engine.ask, config.n_components, seed)
        return begin(W, excess=excess, **setting)
    sample = draw_sample(engine.ask, known, config.n_components, seed)
    with ThreadPoolExecutor(available_threads()) as pool, one_blas_thread():
        clusters = k_means(sample, config.n_components, seed, pool.map)
        if config.inference == "evidence" and excess is None:
            excess = noise_excess(sample.Xt, clusters.weights, sample.source, n_sources, config.n_components, pool.map)
    if config.inference == "map" and not sample.is_worth_a_peak_fit:
        return begin(clusters.W, **setting)
    # In float64 whatever the data: many small moves are wanted, and float32 cannot tell them from rounding. Of reduced
    # samples all but the memberships is in float64 anyway.
    own_type = dtype if isinstance(clusters.Xt, LowRank) else np.dtype(np.float64)
    with LocalEngine(_at_the_centre(sample, clusters.Xt, own_type)) as centre, one_blas_thread():
        own = replace(config, solver="exact", solver_options=None, tol=SAMPLE_TOL * config.tol)
        setting |= {"engine": centre, "config": own, "dtype": own_type}
        state = begin(clusters.W, **setting)
        if excess is not None:
            state = replace(state, evidence=Evidence.of(excess, len(sample.source), config.n_components))
        state = descend(state, **setting)
    origin = state.origin.astype(dtype).astype(np.float64)  # exact in the type of the samples
    floor = state.floor * least_level(dtype) / least_level(own_type)
    evidence = None if excess is None else Evidence.of(excess, sample.n_of_all, config.n_components)
    return State(state.W, state.sigma2, origin, floor, evidence, path=state.path.elsewhere())


def _at_the_centre(sample: Sample, Xt: Any, dtype: np.dtype[Any]) -> list[Node]:
    """Return nodes of the samples, as they were clustered; by source, so that there are few chunks, however many."""
    order = np.argsort(sample.source, kind="stable")
    n_nodes = min(SAMPLE_NODES, 1 + len(order) // SAMPLES_AT_A_NODE)
    nodes = partition(Xt[order], sample.source[order], n_nodes, dtype)
    weights = np.split(sample.weights[order], [node.block.first_row for node in nodes[1:]])
    return [replace(node, weights=own) for node, own in zip(nodes, weights, strict=True)]


def begin(
    W: Float,
    sigma2: Float | None = None,
    *,
    excess: Float | None = None,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
) -> State:
    """Return the state before the first iteration from W, shape (m, r), and sigma2, shape (n_sources,), if given.

    With evidence, the excess of the noise in the plane of W may be given, too, shape (n_sources,); else it has still to
    be found.
    """
    amidst = origin_of(W, dtype)
    hard: PerSource[Statistics] = engine.ask(partial(nearest, origin=amidst), W)
    noise = Noise.for_data(config.noise, n_sources, hard, amidst, dtype)
    if sigma2 is None:
        sigma2 = noise.levels(hard.map(lambda s: s.summary(W, amidst)), W)
    n = round(sum(s.n for s in hard.values()))
    evidence = None if excess is None else Evidence.of(excess, n, config.n_components)
    # One column of W may be far out; the mean of the samples is not.
    mean = amidst + middle(hard)
    return State(W, sigma2, mean.astype(dtype).astype(np.float64), noise.floor, evidence)


def find_evidence(state: State, engine: Any, known: PerSource[Moments], r: int, seed: int) -> Evidence:
    """Return how to integrate r memberships out, as a sample tells it at the noise levels of a state."""
    sample = draw_sample(engine.ask, known, r, seed)
    with one_blas_thread():
        weights = sample.weights / state.sigma2[sample.source]
        excess = noise_excess(sample.Xt, weights, sample.source, len(state.sigma2), r)
    return Evidence.of(excess, sample.n_of_all, r)


def descend(
    state: State,
    *,
    engine: Any,
    config: Config,
    n_sources: int,
    dtype: np.dtype[Any],
    on_iteration: OnIteration = lambda state: None,
) -> State:
    """Alternate H, W and sigma from a state until it converges."""
    engine = Metered(engine)
    solver = load("solvers", config.solver)
    w_step = _w_step_at_the_centre if solver.GATHERS else _w_step_over_the_nodes
    noise = Noise(config.noise, n_sources, state.floor, float(np.finfo(dtype).eps))
    origin, evidence = state.origin, state.evidence
    near_zero = noise.is_near_zero(origin, dtype)
    h_step = partial(
        sweep, prior=config.prior, evidence=evidence, origin=origin, near_zero=near_zero, gather=solver.GATHERS
    )

    while not state.converged and len(state.history) < config.max_iter:
        clock, traffic, last, path = time.perf_counter(), engine.traffic, state.objective, state.path
        point = state.W if path.ahead is None else path.ahead
        passes, warm = 0, len(state.history) % FRESH > 0
        while True:
            replies = engine.ask(partial(h_step, sigma2=state.sigma2, warm=warm), point)
            found = w_step(point, replies, state.sigma2, origin, engine, solver, config)
            levels = noise.levels(found.summaries, found.step.W)
            now = objective(found.summaries, found.step.W, levels, config.lam)
            passes += 1
            if evidence is None:
                break
            # What may be rounding tells no direction.
            behind = path if noise.can_be_told(found.summaries, found.step.W) else Path()
            onward = behind.to(point, found.step.W, found.A, origin, config.lam)
            if path.leads_to(onward, found.A):
                path = onward
                break
            point, path, warm = state.W, path.anew(), True  # too far: alternation goes on from W itself
        if evidence is None and last is not None and now.exceeds(last, dtype):
            return replace(state, converged=True)  # as far as the numbers of this type can tell: stay where we were

        change = now.gain(last) if evidence is None else path.change
        total = engine.traffic - traffic
        record = Iteration(
            iteration=len(state.history) + 1,
            objective=now.value,
            seconds=time.perf_counter() - clock,
            rounds=found.step.rounds,
            floats_up=found.traffic.floats_up,
            floats_down=found.traffic.floats_down,
            total_floats_up=total.floats_up,
            total_floats_down=total.floats_down,
            w_change=found.step.change,
            w_converged=found.step.converged,
            passes=passes,
            change=change if np.isfinite(change) else None,
        )
        state = replace(
            state,
            W=found.step.W,
            sigma2=levels,
            objective=now,
            history=(*state.history, record),
            path=path,
            converged=change <= config.tol or path.is_stuck(sum(s.n for s in found.summaries.values())),
        )
        if on_iteration(state):
            break
    return state


class Found(NamedTuple):
    """What a W-step leads to.

    Attributes
    ----------
    step : WStep
        W, and how it was found.
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


def _w_step_at_the_centre(
    W: Float, replies: PerSource[Statistics], sigma2: Float, origin: Float, engine: Metered, solver: Any, config: Config
) -> Found:
    """Solve (P) on the statistics that the sweep brought: the centre asks itself."""
    problem = Problem.of(replies.map(lambda s: s.summary(W, origin)), sigma2, config.lam, engine.n_nodes)
    share = Quadratic.of(replies, sigma2, origin)
    centre = LocalEngine([Node("centre", quadratic=share)])
    step = solver.solve(W, centre.ask, problem, **dict(config.solver_options or {}))
    return Found(step, share.A, replies.map(lambda s: s.summary(step.W, origin)), engine.last)


def _w_step_over_the_nodes(
    W: Float, replies: PerSource[Summary], sigma2: Float, origin: Float, engine: Metered, solver: Any, config: Config
) -> Found:
    """Solve (P) in rounds over the nodes, which keep their statistics."""
    problem = Problem.of(replies, sigma2, config.lam, engine.n_nodes)
    start = engine.traffic
    step = solver.solve(W, engine.ask, problem, **dict(config.solver_options or {}))
    traffic = engine.traffic - start
    summaries: PerSource[Summary] = engine.ask(summarise, step.W)
    before = objective(replies, W, sigma2, config.lam).value
    if objective(summaries, step.W, sigma2, config.lam).value > before:
        # A method that was stopped early may end higher than it began; the objective must not.
        step, summaries = step._replace(W=W), replies
    return Found(step, gram(summaries, sigma2), summaries, traffic)
