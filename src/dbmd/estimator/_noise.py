"""Noise levels of the sources of a dataset: those of the fit, or estimated where a source is new."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dbmd.dataset import Dataset
from dbmd.estimator.fitted import FittedArrays
from dbmd.h_step import origin_of
from dbmd.model.noise import Noise
from dbmd.model.start import nearest
from dbmd.sweep import sweep, sweep_and_keep

MAX_PASSES = 100
TOLERANCE = 1e-6  # relative change of a noise level at which the estimation ends


def noise_levels(fitted: FittedArrays, data: Dataset) -> NDArray[np.float64]:
    """Return sigma^2 of each source of a dataset, known or estimated.

    Parameters
    ----------
    fitted : FittedArrays
        The model.
    data : Dataset
        Samples, possibly of sources that the model does not know.

    Returns
    -------
    array of shape (n_sources of the dataset,)
    """
    if data.source_names is None and len(fitted.source_names) == 1:
        return fitted.sigma2
    if not isinstance(fitted.noise, str) or fitted.noise == "shared":
        return np.full(data.n_sources, fitted.sigma2[0])
    levels = dict(zip(fitted.source_names.tolist(), fitted.sigma2, strict=True))
    # Without labels the source is unknown.
    labels = [] if data.source_names is None else data.source_names.tolist()
    sigma2 = np.array([levels.get(label, np.nan) for label in labels] or [np.nan])
    return estimate_unknown(fitted, data, sigma2) if np.isnan(sigma2).any() else sigma2


def estimate_unknown(fitted: FittedArrays, data: Dataset, sigma2: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return noise levels in which NaN is replaced by an estimate from the samples.

    The objective is minimised over the unknown levels and the memberships, with W fixed.

    Parameters
    ----------
    fitted : FittedArrays
        The model.
    data : Dataset
        The samples.
    sigma2 : array of shape (n_sources of the dataset,)
        The noise level of each source, NaN where it is unknown.

    Returns
    -------
    array of shape (n_sources of the dataset,)
    """
    W, origin, unknown = fitted.W, origin_of(fitted.W, data.dtype), np.isnan(sigma2)
    step = partial(sweep, prior=fitted.prior, evidence=fitted.evidence_for(data), origin=origin)
    with fitted.engine_for(data) as engine:
        hard = engine.ask(partial(nearest, origin=origin), W)
        noise = Noise.for_data("source", data.n_sources, hard, origin, data.dtype)
        levels = noise.levels(hard.map(lambda s: s.summary(W, origin)), W)
        sigma2 = np.where(unknown, levels, sigma2)
        for _ in range(MAX_PASSES):
            before = sigma2
            at_nodes = partial(sweep_and_keep, sweep=partial(step, sigma2=sigma2), sigma2=sigma2)
            levels = noise.levels(engine.ask(at_nodes, W), W)
            sigma2 = np.where(unknown, levels, sigma2)
            if (abs(sigma2 - before) <= TOLERANCE * before).all():
                break
    return sigma2
