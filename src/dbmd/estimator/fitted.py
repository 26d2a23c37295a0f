"""The arrays of a fitted model that memberships of further samples depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import Config, Missing, NoiseKind, prior_of
from dbmd.data.preparation import Preparation
from dbmd.dataset import Dataset
from dbmd.engines._device_arrays import has_device
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.protocols import Engine

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

Float = NDArray[np.float64]


def config_of_fitted(model: DBMD) -> Config:
    """Return the parameters of a fitted model; the number of components is that of the fit, as given or as chosen."""
    return Config.of(model, n_components=len(model.components_))


def prepared(engine: Engine, preparation: Preparation | None) -> Engine:
    """Return an engine whose nodes see scaled samples; None: the engine itself."""
    return engine if preparation is None else preparation.around(engine)


def _with_gaps(preparation: Preparation | None, missing: Missing, W: Float) -> Preparation | None:
    """Return how samples are scaled, with what to do about missing values: they may be allowed after a fit, too."""
    if missing == "error":
        return preparation
    how = Preparation() if preparation is None else preparation
    return replace(how, fill=W.mean(axis=1) if how.fill is None else how.fill, drops=missing == "drop")


@dataclass(frozen=True)
class FittedArrays:
    """What memberships and noise levels of further samples are computed from.

    Attributes
    ----------
    W : array of shape (m, r)
        The components, in the units of the scaled data and float64.
    prior : array of shape (r,)
        alpha0 - 1 of the Dirichlet prior.
    source_names : array of shape (n_sources,)
        The sources of the fit.
    sigma2 : array of shape (n_sources,)
        Their noise levels.
    noise : {"source", "shared"} or float
        The parameter of the model.
    excess : array of shape (n_sources,), optional
        Their noise excess; None with ``inference="map"``.
    effective_features : float, optional
        Of the fit; None with ``inference="map"``.
    n_nodes : int, optional
        Into how many nodes samples are split.
    engine : str
        The engine of this process: "gpu" if the model was fitted with it and there is a GPU, else "local".
    parts : Parts
        Of the fit.
    by_energy : bool
        Whether memberships are multiplied by the norms of the components, with brightness.
    offsets : array of shape (n_sources, m), optional
        The offsets of the sources of the fit, if they have any.
    offset_variance : float
        Variance of their prior.
    preparation : Preparation, optional
        How samples are scaled, and what stands in for missing values; None: they are taken as they are.
    """

    W: Float
    prior: Float
    source_names: NDArray[Any]
    sigma2: Float
    noise: NoiseKind | float
    excess: Float | None
    effective_features: float | None
    n_nodes: int | None
    parts: Parts
    by_energy: bool = False
    offsets: Float | None = None
    offset_variance: float = 1.0
    preparation: Preparation | None = None
    engine: str = "local"

    @classmethod
    def of(cls, model: DBMD) -> FittedArrays:
        """Return the arrays of a fitted estimator."""
        W = model.scaled_components_.T.astype(float)
        return cls(
            W=W,
            prior=prior_of(model.alpha, len(model.components_)),
            source_names=model.sources_,
            sigma2=model.noise_variance_,
            noise=model.noise,
            excess=getattr(model, "noise_excess_", None),
            effective_features=getattr(model, "effective_features_", None),
            n_nodes=model.n_nodes,
            parts=config_of_fitted(model).parts(len(model.sources_)),
            by_energy=model.shares == "energy",
            offsets=getattr(model, "_scaled_offsets", None),
            offset_variance=getattr(model, "offset_variance_", 1.0),
            preparation=_with_gaps(getattr(model, "_preparation", None), model.missing, W),
            engine="gpu" if model.engine == "gpu" and has_device() else "local",
        )

    @property
    def n_components(self) -> int:
        """Number of components, r."""
        return self.W.shape[1]

    @property
    def needs_source(self) -> bool:
        """Whether memberships depend on the source of a sample."""
        differs = self.noise == "source" and bool(self.prior.any())
        return len(self.source_names) > 1 and (differs or self.offsets is not None)

    @property
    def noise_matters(self) -> bool:
        """Whether memberships depend on the noise levels: without a prior on H and offsets they do not."""
        return bool(self.prior.any()) or self.offsets is not None

    def parts_for(self, n_sources: int) -> Parts:
        """Return the parts of the model for data of so many sources."""
        return replace(self.parts, n_offsets=n_sources if self.offsets is not None else 0)

    def engine_for(self, data: Dataset) -> Engine:
        """Return an engine with the samples of a dataset as its nodes, where they are."""
        return prepared(data.on(data.framework or self.engine, self.n_nodes, self.parts.n_patterns), self.preparation)

    def local_engine_for(self, data: Dataset) -> Engine:
        """Return an engine of this process with the samples of a dataset as its nodes."""
        engine = "gpu" if data.framework == "gpu" else self.engine
        return prepared(data.on(engine, self.n_nodes, self.parts.n_patterns), self.preparation)

    def evidence_for(self, data: Dataset) -> Evidence | None:
        """Return how the memberships of a dataset are integrated out; None with ``inference="map"``."""
        if self.excess is None or self.effective_features is None:
            return None
        n, m = data.shape
        known = dict(zip(self.source_names.tolist(), self.excess, strict=True))
        mean = m / self.effective_features
        if data.source_names is not None:
            excess = [known.get(label, mean) for label in data.source_names.tolist()]
        else:  # without labels the source is unknown, unless there is only one
            excess = list(known.values()) if len(known) == 1 else [mean]
        return Evidence.of(excess, n, self.parts.n_patterns)
