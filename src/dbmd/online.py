"""Samples that come in batches: one step of the algorithm for each batch, on the statistics of this and earlier ones.

The W-step needs statistics of the samples only, and these add. So the statistics of earlier batches, with the
memberships that their samples had then, replace the samples (Mairal, Bach, Ponce and Sapiro, Online learning for matrix
factorization and sparse coding, JMLR 2010):

    H       of the batch, at the present W and sigma                     sweep.py
    W       (P) on the statistics of the batch and of the past           model/lasso.py, model/past.py
    sigma   a mean square over both, for each source of the batch        model/noise.py

With each batch the past is multiplied by ``forget_factor``. Problem (P) stays the same, so lam is relative to the
number of samples that the past counts for: n / (1 - forget_factor) in the long run with batches of n.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import Config
from dbmd.data.weights import NOTHING_LEFT
from dbmd.engines import Metered
from dbmd.errors import DataError
from dbmd.h_step import origin_of
from dbmd.model.evidence import Evidence
from dbmd.model.lasso import minimise
from dbmd.model.noise import Noise
from dbmd.model.objective import explained_variance, objective
from dbmd.model.offsets import OffsetPrior
from dbmd.model.parts import Parts
from dbmd.model.past import PastStatistics
from dbmd.model.peaks import PeaksOfModel
from dbmd.model.problem import Problem
from dbmd.model.result import Iteration, Result
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics
from dbmd.protocols import Engine
from dbmd.survey import survey
from dbmd.sweep import sweep


def update(
    engine: Engine,
    config: Config,
    before: PastStatistics,
    V: Float,
    sigma2: Float,
    evidence: Evidence | None,
    offset_variance: float | None = None,
    *,
    numbers: NDArray[np.intp],
    n_classes: int,
    dtype: np.dtype[Any],
) -> Result:
    """Return the model after a batch. Objective, profile and explained variance are those of the batch.

    Parameters
    ----------
    engine : Engine
        Has the nodes of the batch.
    config : Config
        The parameters.
    before : PastStatistics
        Of the batches before.
    V : array of shape (m, n_columns)
        The components so far, and the offsets of all sources if they have any.
    sigma2 : array of shape (n_sources,)
        The noise levels of all sources so far.
    evidence : Evidence, optional
        How the memberships are integrated out; None with ``map``.
    offset_variance : float, optional
        Variance of the prior of the offsets, if there are any.
    numbers : array of int of shape (n_sources of the batch,)
        The code of each source of the batch among all sources.
    n_classes : int
        Number of known classes.
    dtype : dtype
        Of the batch.

    Returns
    -------
    Result
    """
    clock, engine, n_sources = time.perf_counter(), Metered(engine), len(sigma2)
    parts = config.parts(n_sources)
    V_before, origin = V, origin_of(parts.W(V), dtype)
    past = before.faded(config.forget_factor).about(origin)

    def of_all(batch: PerSource[Statistics]) -> PerSource[Statistics]:
        return PerSource({int(numbers[c]): s for c, s in batch.items()})

    own_parts, own_V = parts.among(V, numbers)
    prior = parts.prior(config.prior)
    options: dict[str, Any] = {"prior": prior, "parts": own_parts, "evidence": evidence, "origin": origin}
    batch = of_all(engine.ask(partial(sweep, sigma2=sigma2[numbers], **options), own_V))
    if not batch:
        raise DataError(NOTHING_LEFT)
    stats = past.stats + batch
    offset_prior, ridge = None, None
    if offset_variance is not None:
        n = tuple(float(stats[c].n) if c in stats else 0.0 for c in range(n_sources))
        offset_prior = OffsetPrior(offset_variance, n)
        ridge = offset_prior.ridge
    V = _minimise(Quadratic.of(stats, sigma2, origin, ridge), V, config, parts)
    summaries = parts.summaries(stats, V, origin)
    if offset_prior is not None:
        offset_prior, summaries, _ = offset_prior.update(parts.offsets(V), summaries, sigma2)
    levels = Noise.for_data(config.noise, n_sources, stats, origin, dtype).levels(summaries, parts.W(V))
    # A batch says nothing about the noise of a source that is not in it.
    is_there = np.isin(np.arange(n_sources), numbers)
    sigma2 = np.where(is_there | (config.noise != "source"), levels, sigma2)
    traffic = engine.last

    # As at the end of a fit: labels, sizes and objective belong to the model as it is returned. Its memberships, which
    # are newer than those that V was found from, enter the past.
    V = V.astype(dtype).astype(np.float64)
    by_energy = config.shares == "energy"
    last = partial(survey, sigma2=sigma2[numbers], **options, n_classes=n_classes, by_energy=by_energy)
    found = engine.ask(last, parts.among(V, numbers)[1])
    model: dict[str, Any] = {"sigma2": sigma2[numbers], "prior": prior, "parts": own_parts, "evidence": evidence}
    model["norms"] = parts.norms(V) if by_energy else None
    batch = of_all(found.stats)
    summaries = parts.summaries(batch, V, origin)
    value = objective(summaries, parts.components(V), sigma2, config.lam).value
    record = Iteration(
        iteration=1,
        objective=value,
        seconds=time.perf_counter() - clock,
        rounds=1,
        floats_up=traffic.floats_up,
        floats_down=traffic.floats_down,
        total_floats_up=engine.traffic.floats_up,
        total_floats_down=engine.traffic.floats_down,
        w_change=Problem.of(summaries, sigma2, config.lam, engine.n_nodes).change(parts.W(V), parts.W(V_before)),
        w_converged=True,
        passes=2,
    )
    return Result(
        parts.components(V),
        sigma2,
        evidence,
        value,
        history=[record],
        converged=None,
        profile=found.profile.among(numbers, n_sources),
        sample=PeaksOfModel.at(found.peaks, parts.W(V), **model).among(numbers, n_sources),
        explained=explained_variance(batch, summaries, n_sources),
        past=PastStatistics(past.stats + batch, origin),
        offsets=parts.offsets(V).T if parts.n_offsets else None,
        offset_variance=None if offset_prior is None else offset_prior.variance,
    )


def _minimise(f: Quadratic, V: Float, config: Config, parts: Parts) -> Float:
    """Return V with its free columns where (P) is least."""
    free = parts.is_free
    if not free.any():
        return V
    lam, signs = parts.bounds_of_free(config.lam)
    found = minimise(parts.of_free(f, V), lam, parts.free(V), signs)
    return parts.with_free(V, found)
