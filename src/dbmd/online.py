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
from dbmd.engines import Metered
from dbmd.h_step import origin_of
from dbmd.model.evidence import Evidence
from dbmd.model.lasso import minimise
from dbmd.model.noise import Noise
from dbmd.model.objective import explained_variance, objective
from dbmd.model.past import PastStatistics
from dbmd.model.problem import Problem
from dbmd.model.result import Iteration, Result
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary
from dbmd.protocols import Engine
from dbmd.sweep import survey, sweep


def update(
    engine: Engine,
    config: Config,
    before: PastStatistics,
    W: Float,
    sigma2: Float,
    evidence: Evidence | None,
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
    W : array of shape (m, r)
        The basis so far.
    sigma2 : array of shape (n_sources,)
        The noise levels of all sources so far.
    evidence : Evidence, optional
        How the memberships are integrated out; None with ``map``.
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
    W_before, origin = W, origin_of(W, dtype)
    past = before.faded(config.forget_factor).about(origin)

    def of_all(batch: PerSource[Statistics]) -> PerSource[Statistics]:
        return PerSource({int(numbers[c]): s for c, s in batch.items()})

    def at(W: Float, stats: PerSource[Statistics]) -> PerSource[Summary]:
        return stats.map(lambda s: s.summary(W, origin))

    h_step = partial(sweep, sigma2=sigma2[numbers], prior=config.prior, evidence=evidence, origin=origin)
    stats = past.stats + of_all(engine.ask(h_step, W))
    W = minimise(Quadratic.of(stats, sigma2, origin), config.lam, W)
    levels = Noise.for_data(config.noise, n_sources, stats, origin, dtype).levels(at(W, stats), W)
    # A batch says nothing about the noise of a source that is not in it.
    is_there = np.isin(np.arange(n_sources), numbers)
    sigma2 = np.where(is_there | (config.noise != "source"), levels, sigma2)
    traffic = engine.last

    # As at the end of a fit: labels, sizes and objective belong to the model as it is returned. Its memberships, which
    # are newer than those that W was found from, enter the past.
    W = W.astype(dtype).astype(np.float64)
    last = partial(
        survey, sigma2=sigma2[numbers], prior=config.prior, origin=origin, evidence=evidence, n_classes=n_classes
    )
    found = engine.ask(last, W)
    batch = of_all(found.stats)
    summaries = at(W, batch)
    value = objective(summaries, W, sigma2, config.lam).value
    record = Iteration(
        iteration=1,
        objective=value,
        seconds=time.perf_counter() - clock,
        rounds=1,
        floats_up=traffic.floats_up,
        floats_down=traffic.floats_down,
        total_floats_up=engine.traffic.floats_up,
        total_floats_down=engine.traffic.floats_down,
        w_change=Problem.of(summaries, sigma2, config.lam, engine.n_nodes).change(W, W_before),
        w_converged=True,
        passes=2,
    )
    return Result(
        W,
        sigma2,
        evidence,
        value,
        history=[record],
        converged=None,
        profile=found.profile.among(numbers, n_sources),
        explained=explained_variance(batch, summaries, n_sources),
        past=PastStatistics(past.stats + batch, origin),
    )
