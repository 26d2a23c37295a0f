"""Memberships of samples under a fitted model: computed here, or lazily for collections of Dask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import namespace
from dbmd.data.weights import NOTHING_LEFT
from dbmd.dataset import Dataset, framework_of
from dbmd.engines._device_arrays import brought_here, device_of
from dbmd.errors import DataError
from dbmd.estimator._new_sources import source_levels
from dbmd.estimator._opening import opened
from dbmd.estimator.fitted import FittedArrays
from dbmd.h_step import origin_of
from dbmd.memberships import MembershipModel, write_memberships
from dbmd.model.node import Node
from dbmd.registry import load
from dbmd.sweep import sweep, sweep_and_keep

# The attributes that memberships depend on.
SMALL = (
    *("components_", "sources_", "noise_variance_", "n_features_in_"),
    *("offset_variance_", "_scaled_components", "_scaled_offsets", "_preparation"),
    *("noise_excess_", "effective_features_"),
)

KINDS = ("peak", "mean")

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


def check_can_transform(X: Any) -> None:
    """Raise a TypeError if the memberships of data cannot be computed by the estimator."""
    home = X.framework if isinstance(X, Dataset) else framework_of(X)
    if home == "spark":
        raise TypeError("For a DataFrame of Spark take dbmd.spark.DBMDModel(model).transform(frame).")
    if home == "dask" and (isinstance(X, Dataset | list | tuple) or type(X).__name__ == "Delayed"):
        raise TypeError("Of what is on Dask take transform(X) of the dask.array or dask.dataframe itself.")


@dataclass(frozen=True)
class Wanted:
    """What is wanted of samples.

    Attributes
    ----------
    kind : {"peak", "mean"}
        Which memberships.
    with_std : bool
        Whether standard deviations are wanted, too.
    errors : array of shape (k, n_patterns, n_patterns), optional
        Likely errors of the components, which they are to account for.
    """

    kind: str = "peak"
    with_std: bool = False
    errors: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be 'peak' or 'mean'. Got {self.kind!r}.")

    @property
    def is_plain(self) -> bool:
        """Whether peaks are all that is wanted."""
        return self.kind == "peak" and not self.with_std


PEAKS = Wanted()


def membership_model(fitted: FittedArrays, data: Dataset, wanted: Wanted = PEAKS) -> MembershipModel:
    """Return what the memberships of a dataset are computed from."""
    if fitted.noise_matters or not wanted.is_plain:
        sigma2, parts, V = source_levels(fitted, data)
    else:
        parts = fitted.parts_for(data.n_sources)
        sigma2, V = np.ones(data.n_sources), parts.assemble(fitted.W)
    plain = MembershipModel(V, parts, sigma2, fitted.prior, fitted.by_energy)
    if wanted.is_plain:
        return plain
    return replace(
        plain,
        evidence=fitted.evidence_for(data),
        is_mean=wanted.kind == "mean",
        with_std=wanted.with_std,
        errors=wanted.errors,
    )


def membership_model_of_fit(fitted: FittedArrays, *, knows_source: bool) -> MembershipModel:
    """Return what memberships are computed from, of samples of the sources of the fit, in their order.

    If the source is not known it must not matter, or there must be only one.
    """
    n_sources = len(fitted.source_names) if knows_source else 1
    parts = fitted.parts_for(n_sources)
    offsets = None if fitted.offsets is None else fitted.offsets[:n_sources].T
    return MembershipModel(
        parts.assemble(fitted.W, offsets), parts, fitted.sigma2[:n_sources], fitted.prior, fitted.by_energy
    )


def memberships_of(
    fitted: FittedArrays, data: Dataset, wanted: Wanted = PEAKS
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Return the memberships of the samples of a dataset, shape (n, r), their brightness, shape (n,), and their std.

    Standard deviations are of shape (n, r); None if they are not wanted. The arrays are where the samples are.
    """
    model, n = membership_model(fitted, data, wanted), data.shape[0]
    out, brightness = data.empty((n, model.width)), data.empty((n,))
    step = partial(write_memberships, out=out, brightness=brightness)
    with fitted.local_engine_for(data) as engine:
        engine.ask(step, model)
    if not wanted.with_std:
        return out, brightness, None
    r, contiguous = fitted.n_components, namespace(out).ascontiguousarray
    with device_of(out):
        return contiguous(out[:, :r]), brightness, contiguous(out[:, r:])


def mean_log_likelihood(fitted: FittedArrays, data: Dataset) -> float:
    """Return the mean log-likelihood of the samples of a dataset, of the entries that are there."""
    sigma2, parts, V = source_levels(fitted, data)
    m = data.shape[1]
    origin = origin_of(parts.W(V), data.dtype)
    step = partial(sweep, sigma2=sigma2, prior=parts.prior(fitted.prior), parts=parts, origin=origin)
    ridge = np.zeros(parts.n_offsets) if parts.n_offsets else None
    with fitted.engine_for(data) as engine:
        found = engine.ask(partial(sweep_and_keep, sweep=step, sigma2=sigma2, parts=parts, ridge=ridge), V)
        gaps = engine.ask(partial(count_gaps, n_sources=len(sigma2))) if data.missing == "allow" else 0.0 * sigma2
    if not found:
        raise DataError(NOTHING_LEFT)
    # In a gap the squares are expected to be sigma^2.
    log_likelihood = -0.5 * sum(
        s.squares / sigma2[c] - gaps[c] + (m * s.n - gaps[c]) * np.log(2 * np.pi * sigma2[c]) for c, s in found.items()
    )
    return float(log_likelihood / sum(s.n for s in found.values()))


def count_gaps(node: Node, *, n_sources: int) -> tuple[Node, NDArray[np.float64]]:
    """Node: send the number of missing entries of each source, shape (n_sources,), times the weights of samples."""
    counts = np.zeros(n_sources)
    for chunk in node.samples.chunks():
        if chunk.gaps is not None:
            of_each = chunk.gaps.sum(axis=1)
            counts[chunk.source_code] += float(of_each.sum() if chunk.weights is None else of_each @ chunk.weights)
    return node, counts


# -- collections of Dask -------------------------------------------------------------------------------------------


def lazy_memberships(model: DBMD, X: Any, source: Any, wanted: Wanted = PEAKS) -> tuple[Any, Any, Any]:
    """Return the memberships of a dask.array or dask.dataframe, shape (n, r), brightness, shape (n,), and their std."""
    fitted = FittedArrays.of(model)
    needs_source = fitted.needs_source or (not wanted.is_plain and len(model.sources_) > 1)
    if source is None and needs_source:
        raise ValueError(
            f"The model knows {len(model.sources_)} sources: say in source= which samples are of which. What is not "
            "known of a source can be estimated for samples that are here, transform(X.compute()), not for such as are "
            "not yet."
        )
    # What travels to the workers is small: not the history, the profile and the labels.
    small = type(model)(**model.get_params(deep=False) | {"engine": "local", "n_nodes": 1})
    for name in SMALL:
        if hasattr(model, name):
            setattr(small, name, getattr(model, name))
    names, r = list(getattr(model, "feature_names_in_", ())), fitted.n_components
    width = r * (1 + wanted.with_std) + 1
    found = load("engines", "dask").map_rows(partial(_chunk_memberships, small, wanted), X, source, names, width)
    return found[:, :r], found[:, -1], found[:, r:-1] if wanted.with_std else None


def _chunk_memberships(model: DBMD, wanted: Wanted, Xt: Any, source: Any = None) -> NDArray[Any]:
    """Return memberships, their std if wanted, and brightness of a chunk, of sources that the model knows.

    The result is of shape (n, r + 1) or (n, 2 r + 1).
    """
    if not Xt.shape[0]:
        return namespace(Xt).empty((0, len(model.components_) * (1 + wanted.with_std) + 1), model.components_.dtype)
    fitted, source = FittedArrays.of(model), brought_here(source)
    levels = fitted.noise == "source" and (fitted.noise_matters or not wanted.is_plain)
    matters = levels or fitted.offsets is not None
    unknown = set() if source is None or not matters else {*np.unique(source)} - {*model.sources_}
    if unknown:
        raise ValueError(
            f"The model does not know the sources {unknown}: it has a noise level"
            f"{'' if fitted.offsets is None else ' and an offset'} for {model.sources_}."
        )
    with opened(model, Xt, source, None, reset=False) as data:
        found, brightness, std = memberships_of(fitted, data, wanted)
    with device_of(found):
        return np.column_stack([found, brightness] if std is None else [found, std, brightness])
