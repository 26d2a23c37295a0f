"""Noise levels and offsets of the sources of a dataset: those of the fit, or estimated where a source is new."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd.dataset import Dataset
from dbmd.estimator.fitted import FittedArrays
from dbmd.h_step import origin_of
from dbmd.model.noise import Noise
from dbmd.model.parts import Parts
from dbmd.model.start import nearest
from dbmd.model.statistics import Float
from dbmd.sweep import sweep

MAX_PASSES = 100
TOLERANCE = 1e-6  # relative change of a noise level, and of an offset in units of the noise, at which estimation ends


class SourceLevels(NamedTuple):
    """What a model knows of the sources of a dataset.

    Attributes
    ----------
    sigma2 : array of shape (n_sources of the dataset,)
        Their noise levels.
    parts : Parts
        With the offsets of these sources, if the model has offsets.
    V : array of shape (m, n_columns)
        The components of the model, and the offsets of these sources.
    """

    sigma2: NDArray[np.float64]
    parts: Parts
    V: Float


def source_levels(fitted: FittedArrays, data: Dataset) -> SourceLevels:
    """Return noise levels and offsets of each source of a dataset, known or estimated.

    Parameters
    ----------
    fitted : FittedArrays
        The model.
    data : Dataset
        Samples, possibly of sources that the model does not know.
    """
    sigma2, D = _known_levels(fitted, data), _known_offsets(fitted, data)
    parts = fitted.parts_for(data.n_sources)
    if np.isnan(sigma2).any() or (D is not None and np.isnan(D).any()):
        sigma2, D = estimate_unknown(fitted, data, sigma2, D)
    return SourceLevels(sigma2, parts, parts.assemble(fitted.W, D))


def _known_levels(fitted: FittedArrays, data: Dataset) -> NDArray[np.float64]:
    """Return sigma^2 of each source of a dataset, NaN where it is unknown."""
    if data.source_names is None and len(fitted.source_names) == 1:
        return fitted.sigma2
    if not isinstance(fitted.noise, str) or fitted.noise == "shared":
        return np.full(data.n_sources, fitted.sigma2[0])
    levels = dict(zip(fitted.source_names.tolist(), fitted.sigma2, strict=True))
    # Without labels the source is unknown.
    labels = [] if data.source_names is None else data.source_names.tolist()
    return np.array([levels.get(label, np.nan) for label in labels] or [np.nan])


def _known_offsets(fitted: FittedArrays, data: Dataset) -> Float | None:
    """Return the offsets of the sources of a dataset, shape (m, n_sources), NaN where unknown; None without offsets."""
    if fitted.offsets is None:
        return None
    known = dict(zip(fitted.source_names.tolist(), fitted.offsets, strict=True))
    unknown = np.full(len(fitted.W), np.nan)
    labels = [None] if data.source_names is None else data.source_names.tolist()
    return np.column_stack([known.get(label, unknown) for label in labels])


def estimate_unknown(
    fitted: FittedArrays, data: Dataset, sigma2: NDArray[np.float64], D: Float | None
) -> tuple[NDArray[np.float64], Float | None]:
    """Return noise levels and offsets in which NaN is replaced by an estimate from the samples.

    The objective is minimised over what is unknown and the memberships, with the components fixed.

    Parameters
    ----------
    fitted : FittedArrays
        The model.
    data : Dataset
        The samples.
    sigma2 : array of shape (n_sources of the dataset,)
        The noise level of each source, NaN where it is unknown.
    D : array of shape (m, n_sources of the dataset), optional
        The offset of each source, NaN where it is unknown.

    Returns
    -------
    sigma2, D : arrays of the same shapes
    """
    parts = fitted.parts_for(data.n_sources)
    W = parts.W(parts.assemble(fitted.W))
    origin, is_unknown = origin_of(W, data.dtype), np.isnan(sigma2)
    new = np.zeros(data.n_sources, bool) if D is None else np.isnan(D).any(axis=0)
    D = None if D is None else np.where(new, 0.0, D)
    step = partial(
        sweep, prior=parts.prior(fitted.prior), parts=parts, evidence=fitted.evidence_for(data), origin=origin
    )
    with fitted.engine_for(data) as engine:
        V = parts.assemble(fitted.W, D)
        hard = engine.ask(partial(nearest, origin=origin, parts=parts), V)
        noise = Noise.for_data("source", data.n_sources, hard, origin, data.dtype)
        sigma2 = np.where(is_unknown, noise.levels(parts.summaries(hard, V, origin), W), sigma2)
        for _ in range(MAX_PASSES):
            before, V_before = sigma2, V
            stats = engine.ask(partial(step, sigma2=sigma2), V)
            if D is not None:
                D = D.copy()
                for c in np.flatnonzero(new):
                    s = stats[int(c)]
                    residual = s.total + s.n * origin - W @ s.sizes
                    D[:, c] = residual / (s.n + sigma2[c] / fitted.offset_variance)
                V = parts.assemble(fitted.W, D)
            sigma2 = np.where(is_unknown, noise.levels(parts.summaries(stats, V, origin), W), sigma2)
            moved = np.sqrt(np.square(V - V_before).mean(axis=0).max())
            if (abs(sigma2 - before) <= TOLERANCE * before).all() and moved <= TOLERANCE * np.sqrt(sigma2.min()):
                break
    return sigma2, D
