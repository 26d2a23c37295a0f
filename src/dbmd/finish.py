"""The end of a fit: a last pass at the final V, from which labels, sizes, objective and noise levels follow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dbmd.model.noise import Noise
from dbmd.model.objective import explained_variance, objective
from dbmd.model.offsets import ridge_of
from dbmd.model.past import PastStatistics
from dbmd.model.peaks import PeaksOfModel
from dbmd.model.result import Result, State
from dbmd.model.statistics import Float
from dbmd.model.uncertainty import uncertainty
from dbmd.start import Setting
from dbmd.survey import survey
from dbmd.sweep import sweep


def finish(state: State, setting: Setting, n_classes: int) -> Result:
    """Return the result of a fit that ended in a state. Whatever it has belongs to V and sigma as they are returned.

    Parameters
    ----------
    state : State
        The last one.
    setting : Setting
        The fit.
    n_classes : int
        Number of known classes.
    """
    config, dtype, parts = setting.config, setting.dtype, setting.parts
    noise = Noise(config.noise, setting.n_sources, state.floor, float(np.finfo(dtype).eps))
    # All components are known, and no iteration was asked for: two passes give the noise levels.
    has_no_levels = config.max_iter == 0
    if has_no_levels:
        state = replace(state, sigma2=_levels_at_peaks(state, setting, noise))
    V, sigma2, origin = state.V.astype(dtype).astype(np.float64), state.sigma2, state.origin
    by_energy = config.shares == "energy"
    model: dict[str, Any] = {
        "sigma2": sigma2.copy(),  # users may change their model
        "prior": parts.prior(config.prior),
        "parts": parts,
        "evidence": state.evidence,
    }
    last = partial(survey, **model, origin=origin, n_classes=n_classes, by_energy=by_energy)
    found = setting.engine.ask(last, V)
    sample = PeaksOfModel.at(found.peaks, parts.W(V), **model, norms=parts.norms(V) if by_energy else None)
    summaries = parts.summaries(found.stats, V, origin)
    explained = explained_variance(found.stats, summaries, setting.n_sources)
    offset_prior, offset_cost = state.offset_prior, 0.0
    if offset_prior is not None:
        offset_prior, summaries, offset_cost = offset_prior.update(parts.offsets(V), summaries, sigma2)
    if has_no_levels:
        sigma2 = noise.levels_from_peaks(sigma2, summaries, parts.W(V))
    known = None
    if state.evidence is not None and found.stats:
        ridge = ridge_of(offset_prior)
        known = uncertainty(found.stats, found.squares, V, parts=parts, sigma2=sigma2, origin=origin, ridge=ridge)
    return Result(
        parts.components(V),
        sigma2,
        state.evidence,
        objective(summaries, parts.components(V), sigma2, config.lam, offset_cost).value,
        list(state.history),
        state.converged or has_no_levels,
        found.profile,
        sample,
        explained,
        PastStatistics(found.stats, origin),
        parts.offsets(V).T if parts.n_offsets else None,
        None if offset_prior is None else offset_prior.variance,
        noise.is_at_floor(sigma2, parts.W(V)),
        known,
    )


def _levels_at_peaks(state: State, setting: Setting, noise: Noise) -> Float:
    """Return noise levels, shape (n_sources,), from the squares at the peaks of the memberships."""
    parts, origin = setting.parts, state.origin
    at_peaks = partial(sweep, sigma2=state.sigma2, prior=parts.prior(setting.config.prior), parts=parts, origin=origin)
    stats = setting.engine.ask(at_peaks, state.V)
    return noise.levels(parts.summaries(stats, state.V, origin), parts.W(state.V))
