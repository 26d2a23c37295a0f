"""Moments of the features, and what follows from them: how samples are scaled, and what stands in for gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, is_sparse, namespace, to_host, with_data
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.data.preparation import Preparation, PreparedSamples
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.protocols import Engine

Float = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureMoments:
    """Moments of each feature over the entries that are there. It adds, about the mean of the sum.

    Sums of squares about zero would lose all digits of features far from it.

    Attributes
    ----------
    n : array of shape (m,)
        Number of entries; where samples are weighted, the sum of the weights.
    mean : array of shape (m,)
        Their mean; 0 where there are none.
    squares : array of shape (m,)
        Sum of their squared distances from the mean.
    low, high : array of shape (m,)
        The least and the largest.
    """

    n: Float
    mean: Float
    squares: Float
    low: Float
    high: Float

    @classmethod
    def nothing(cls, m: int) -> FeatureMoments:
        """Return the moments of no samples."""
        return cls(np.zeros(m), np.zeros(m), np.zeros(m), np.full(m, np.inf), np.full(m, -np.inf))

    @classmethod
    def of(cls, Xt: Any, weights: Float | None = None) -> FeatureMoments:
        """Return the moments of samples.

        Parameters
        ----------
        Xt : array or CSR array of shape (n, m)
            The samples, NaN where an entry is missing.
        weights : array of shape (n,), optional
            For how many samples each stands.
        """
        if weights is not None and not weights.all():  # a sample without weight is as if it were not there
            counted = np.flatnonzero(weights > 0.0)
            Xt, weights = Xt[counted], weights[counted]
        if not Xt.shape[0]:
            return cls.nothing(Xt.shape[1])
        counts = namespace(Xt).ones(Xt.shape[0]) if weights is None else weights
        return cls(*map(to_host, _of_sparse(Xt, counts) if is_sparse(Xt) else _of_dense(Xt, counts)))

    def __add__(self, other: FeatureMoments) -> FeatureMoments:
        n = self.n + other.n
        part = np.divide(other.n, n, out=np.zeros(len(n)), where=n > 0.0)
        apart = np.where((self.n > 0.0) & (other.n > 0.0), other.mean - self.mean, 0.0)
        mean = np.where(self.n > 0.0, self.mean, other.mean) + part * apart
        squares = self.squares + other.squares + self.n * part * np.square(apart)
        return FeatureMoments(n, mean, squares, np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def standard(self) -> Float:
        """Standard deviations, shape (m,); 1 for a feature that is the same in all samples."""
        found = np.sqrt(np.divide(self.squares, self.n, out=np.zeros(len(self.n)), where=self.n > 0.0))
        return np.where(self.low < self.high, found, 1.0)

    @property
    def range(self) -> Float:
        """Differences of the largest and the least entry, shape (m,); 1 for a feature that is always the same."""
        with np.errstate(over="ignore"):
            return np.where(self.low < self.high, self.high - self.low, 1.0)


def _of_dense(Xt: NDArray[Any], counts: Float) -> tuple[Any, ...]:
    """Return the fields of FeatureMoments for dense samples; counts: for how many each stands, shape (n,)."""
    gaps = np.isnan(Xt)
    is_there = ~gaps.all(axis=0)
    if is_here(Xt):
        low, high = np.fmin.reduce(Xt, axis=0), np.fmax.reduce(Xt, axis=0)
    else:  # arrays elsewhere have no reduction that passes over NaN
        low, high = np.where(gaps, np.inf, Xt).min(axis=0), np.where(gaps, -np.inf, Xt).max(axis=0)
    n = counts.sum() - counts @ gaps
    # First about an entry, so that features that are far from zero, or always the same, lose no digits.
    near = np.where(is_there, low, 0.0)
    values = Xt - near
    np.copyto(values, 0.0, where=gaps)
    mean = np.where(is_there, (counts @ values) / np.where(is_there, n, 1.0), 0.0)
    values -= mean
    np.copyto(values, 0.0, where=gaps)
    squares = counts @ np.square(values, out=values)
    return n, near + mean, squares, np.where(is_there, low, np.inf), np.where(is_there, high, -np.inf)


def _of_sparse(Xt: Any, counts: Float) -> tuple[Any, ...]:
    """Return the fields of FeatureMoments for CSR samples; counts: for how many each stands, shape (n,)."""
    total = float(counts.sum())
    by_feature = Xt.T.tocsr()
    mean = (by_feature @ counts) / total
    stored = with_data(by_feature, np.ones_like(by_feature.data)) @ counts
    apart = np.square(by_feature.data - np.repeat(mean, np.diff(by_feature.indptr)))
    # The zeros that are not stored count, too.
    squares = with_data(by_feature, apart) @ counts + np.maximum(total - stored, 0.0) * np.square(mean)
    low, high = (each.toarray().astype(np.float64).ravel() for each in (Xt.min(axis=0), Xt.max(axis=0)))
    return np.full_like(mean, total), mean, squares, low, high


@dataclass(frozen=True)
class FoundFeatures:
    """What a pass over the nodes found of the features. It adds.

    Attributes
    ----------
    features : FeatureMoments
        Of all samples that are not left out.
    n_samples, n_dropped : int
        Number of samples, and of those that are left out because they have gaps.
    """

    features: FeatureMoments
    n_samples: int
    n_dropped: int

    def __add__(self, other: FoundFeatures) -> FoundFeatures:
        return FoundFeatures(
            self.features + other.features, self.n_samples + other.n_samples, self.n_dropped + other.n_dropped
        )


def feature_moments(node: Node, *, preparation: Preparation) -> tuple[Node, FoundFeatures]:
    """Node: send the moments of the features of its samples after a preparation that fills no gaps."""
    # In float64: what all samples are divided by should not have the rounding of float32.
    samples = PreparedSamples(node.samples, preparation, np.dtype(np.float64))
    n, m = samples.shape
    features, dropped = FeatureMoments.nothing(m), 0
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is checked
        for chunk in samples.chunks():
            features += FeatureMoments.of(chunk.Xt, chunk.weights)
            dropped += 0 if chunk.dropped is None else int(chunk.dropped.sum())
    return node, FoundFeatures(features, n, dropped)


def find_preparation(
    engine: Engine,
    *,
    scaling: Literal["standard", "minmax", "sum", "l2"] | None = None,
    log: bool = False,
    missing: Literal["error", "allow", "drop"] = "error",
    feature_names: Sequence[str] | None = None,
    on_phase: OnPhase = ignore_phase,
) -> Preparation | None:
    """Return how the samples of an engine are prepared; None if they stay as they are.

    It takes a pass over the samples if features are scaled or entries may be missing.

    Parameters
    ----------
    engine : Engine
        With the samples as they are.
    scaling : {"standard", "minmax", "sum", "l2"}, optional
        Features are divided by their standard deviation or range, or samples by their sum or norm.
    log : bool
        Whether log(1 + x) is taken of the samples first.
    missing : {"error", "allow", "drop"}
        What to do with missing entries.
    feature_names : sequence of str, optional
        Names of the features, for messages.
    on_phase : callable
        Called before the pass, if there is one.
    """
    by_sample = scaling if scaling in ("sum", "l2") else None
    found = Preparation(log, by_sample, drops=missing == "drop")
    if scaling not in ("standard", "minmax") and missing == "error":
        return None if found.is_identity else found
    on_phase("finding the scales of the features" if scaling in ("standard", "minmax") else "finding missing values")
    seen = engine.ask(partial(feature_moments, preparation=found))
    features = seen.features
    _check_there(seen, feature_names, drops=found.drops)
    if scaling in ("standard", "minmax"):
        found = replace(found, scale=features.standard if scaling == "standard" else features.range)
        _check_scale(found, feature_names)
    if missing != "error":
        found = replace(found, fill=features.mean if found.scale is None else features.mean / found.scale)
    return found


def _check_there(seen: FoundFeatures, feature_names: Sequence[str] | None, *, drops: bool) -> None:
    """Raise a DataError if nothing is left to fit."""
    if drops and seen.n_dropped == seen.n_samples:
        raise DataError(
            "Every sample has a missing entry, so that none is left. Allow gaps "
            "(missing='allow'), or leave out the features that are missing most."
        )
    empty = np.flatnonzero(seen.features.n <= 0.0)
    if len(empty):
        raise DataError(f"Feature {_name(empty[0], feature_names)} has no number in any sample. Leave it out.")


def _check_scale(found: Preparation, feature_names: Sequence[str] | None) -> None:
    """Raise a DataError if a feature has no scale."""
    assert found.scale is not None
    bad = np.flatnonzero(~((found.scale > 0.0) & (found.scale < np.inf)))
    if len(bad):
        raise DataError(
            f"Feature {_name(bad[0], feature_names)} cannot be scaled: its numbers are so small or large that their "
            "squares leave the range of float64. Multiply it by a constant."
        )


def _name(feature: int, feature_names: Sequence[str] | None) -> str:
    return str(feature) if feature_names is None else repr(str(feature_names[feature]))
