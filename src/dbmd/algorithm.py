"""Distributed Bayesian matrix decomposition: the whole algorithm on one page.

    X_c = W H_c + noise(sigma_c),  Laplace prior on W,  memberships (columns of H) on the simplex

W and the noise levels maximise their evidence: the memberships are integrated out, by Laplace's approximation on the
face of the simplex that contains each sample's peak (model/evidence.py). Three steps alternate until W stays the same:

    H       at the nodes, each sample alone: the peak, and the covariance about it     sweep.py, h_step.py, kernels/
    W       one small problem, (P) of docs/paper.md                                    w_step.py, solvers/
    sigma   a mean square for each source                                              model/noise.py

With the faces fixed, no step raises the objective J. With ``inference="map"`` the memberships are taken at their peak,
as in the paper. Then all steps minimise one objective, Eq. (opt1), which never rises.

Offsets of sources, brightness and known components are columns of one matrix V = [W, D] (model/parts.py): the three
steps do not tell them from components. Scaling, weights and gaps are a matter of how samples are read (data/).

Alternation alone would need some hundred passes over the data. Most of them are made over a sample (start.py), and
between passes W goes further than to the minimiser of (P) (limited-memory BFGS, model/lbfgs.py).

The driver, which runs this file, reaches the nodes by one verb, ``ask``. Where the nodes are, in threads or in a
cluster, is up to the engine (engines/).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd._utils.threads import one_blas_thread
from dbmd.config import Config
from dbmd.engines import Metered
from dbmd.finish import finish
from dbmd.model.draw import Moments, check_magnitude, moments
from dbmd.model.evidence import Evidence
from dbmd.model.lbfgs import LBFGS
from dbmd.model.noise import Noise
from dbmd.model.objective import objective
from dbmd.model.offsets import ridge_of
from dbmd.model.result import Iteration, Result, State
from dbmd.model.start import Sample
from dbmd.model.statistics import Float, PerSource
from dbmd.protocols import Engine
from dbmd.registry import load_solver
from dbmd.start import Setting, find_start, start_from
from dbmd.sweep import sweep_and_keep
from dbmd.w_step import w_step_on_the_driver, w_step_over_the_nodes

OnIteration = Callable[[State], object]
# In one sweep of so many, memberships start from W alone instead of from the last memberships: a fit that is resumed
# there gives the same result, bit for bit, as one that was not interrupted.
COLD_EVERY = 10


def fit(
    engine: Engine,
    config: Config,
    *,
    n_sources: int,
    n_features: int,
    dtype: np.dtype[Any],
    seed: int,
    n_classes: int = 0,
    known: Float | None = None,
    start: tuple[Float, Float, Float | None] | None = None,
    resume: State | None = None,
    on_iteration: OnIteration = lambda state: None,
    on_sample: Callable[[Sample], object] = lambda sample: None,
    on_phase: OnPhase = ignore_phase,
) -> Result:
    """Return the best of ``config.n_init`` fits.

    Parameters
    ----------
    engine : Engine
        Has the nodes.
    config : Config
        The parameters.
    n_sources, n_features : int
        Sources have the codes 0 to n_sources - 1.
    dtype : dtype
        Of the data.
    seed : int
        Of the start.
    n_classes : int
        Number of known classes, which clusters are compared with.
    known : array of shape (n_features, n_known), optional
        The known components, in the units of the samples.
    start : tuple of arrays, optional
        W, shape (n_features, n_components), sigma2, shape (n_sources,), and the offsets, shape (n_features, n_sources),
        or None, to start from.
    resume : State, optional
        Continue from this state. With the same data and seed, the result is that of an uninterrupted fit.
    on_iteration : callable
        Called with the :class:`~dbmd.model.result.State` after each iteration. If it returns something true, the
        descent stops.
    on_sample : callable
        Called with the samples that are drawn for each start, if any are.
    on_phase : callable
        Called with what is done next, in words, and in a phase with iterations of its own with the number of each.

    Returns
    -------
    Result
    """
    setting = Setting(engine, config, n_sources, dtype, known, on_sample, on_phase)
    parts = setting.parts
    given = config.start(n_features) if known is None or known.shape[1] < config.r else known
    attempts = config.n_init if start is None and given is None else 1
    sums: PerSource[Moments] = PerSource()
    if resume is None or attempts > 1:
        on_phase("finding means and variances")
        sums = engine.ask(moments)
        check_magnitude(sums, dtype)
    # All attempts have the same noise excess: only then can their objectives be compared.
    evidence: Evidence | None = None
    if config.inference == "evidence":
        if resume is not None and resume.evidence is not None:
            evidence = resume.evidence
        elif config.effective_features is not None:
            excess = np.full(n_sources, n_features / config.effective_features)
            evidence = Evidence.of(excess, sum(each.rows for each in sums.values()), parts.n_patterns)
    best: State | None = None
    for attempt in range(resume.attempt if resume else 0, attempts):
        if resume is not None and attempt == resume.attempt:
            state = resume
        else:
            basis = (setting, sums, seed + 1000 * attempt, evidence)
            if start is not None:
                state = start_from(*basis, *start)
            elif given is not None:
                state = start_from(*basis, setting.with_known(given))
            else:
                state = find_start(*basis, descend)
            evidence = state.evidence
            state = replace(state, attempt=attempt, best=best)
        on_phase("fitting all samples")
        with one_blas_thread():  # matrices of the size of W are small: threads would mostly wait for each other
            state = descend(state, setting, on_iteration)
        best = min((s for s in (state.best, replace(state, best=None)) if s), key=_last_objective)
    assert best is not None

    on_phase("finding the last memberships")
    return finish(best, setting, n_classes)


def _last_objective(state: State) -> float:
    return state.history[-1].objective if state.history else np.inf


def descend(state: State, setting: Setting, on_iteration: OnIteration = lambda state: None) -> State:
    """Return the state after iterations of H-, W- and sigma-step, until W converges or ``max_iter`` is reached."""
    config, dtype, parts = setting.config, setting.dtype, setting.parts
    engine, solver = Metered(setting.engine), load_solver(config.solver)
    noise = Noise(config.noise, setting.n_sources, state.floor, float(np.finfo(dtype).eps))
    origin, evidence = state.origin, state.evidence
    near_zero = noise.is_near_zero(origin, dtype)
    h_step = partial(
        setting.sweep,
        prior=parts.prior(config.prior),
        parts=parts,
        evidence=evidence,
        origin=origin,
        near_zero=near_zero,
    )

    while not state.converged and len(state.history) < config.max_iter:
        clock, traffic = time.perf_counter(), engine.traffic
        last, lbfgs, sigma2, prior = state.objective, state.lbfgs, state.sigma2, state.offset_prior
        point = state.V if lbfgs.ahead is None else lbfgs.ahead
        passes, warm = 0, len(state.history) % COLD_EVERY > 0
        while True:
            # H and W: one pass over the samples at a point, then (P) on its statistics, which the driver gathers or the
            # nodes keep.
            at_nodes = partial(h_step, sigma2=sigma2, warm=warm)
            if solver.GATHERS:
                stats = engine.ask(at_nodes, point)
                found = w_step_on_the_driver(point, stats, sigma2, origin, prior, engine, solver, setting)
            else:
                keeping = partial(sweep_and_keep, sweep=at_nodes, sigma2=sigma2, parts=parts, ridge=ridge_of(prior))
                kept = engine.ask(keeping, point)
                found = w_step_over_the_nodes(point, kept, sigma2, prior, engine, solver, setting)
            # sigma
            W = parts.W(found.V)
            levels = noise.levels(found.summaries, W)
            now = objective(found.summaries, parts.components(found.V), levels, config.lam, found.offset_cost)
            passes += 1
            if evidence is None:
                break
            # Where to make the next pass. Residuals that may be rounding say nothing about directions.
            known = lbfgs if noise.is_above_rounding(found.summaries, W) else LBFGS()
            bounds = parts.lam(config.lam), parts.signs, parts.n_patterns
            updated = known.update(point, found.V, found.A, origin, *bounds)
            if lbfgs.accepts(updated, found.A):
                lbfgs = updated
                break
            point, lbfgs, warm = state.V, lbfgs.restart(), True  # the step was too long: continue from V itself
        if evidence is None and last is not None and now.exceeds(last, dtype):
            return replace(state, converged=True)  # within rounding of this type nothing improves: keep the last state

        change = now.gain(last) if evidence is None else lbfgs.change
        if not parts.is_free.any():  # all components are known: only the noise levels are to be found
            change = float(np.abs(levels / sigma2 - 1.0).max())
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
            V=found.V,
            sigma2=levels,
            offset_prior=found.offset_prior,
            objective=now,
            history=(*state.history, record),
            lbfgs=lbfgs,
            converged=change <= config.tol or lbfgs.is_stuck(sum(s.n for s in found.summaries.values())),
        )
        if on_iteration(state):
            break
    return state
