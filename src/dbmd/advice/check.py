"""Whether scaling, offsets or brightness would pay: fits of a sample with and without them, compared by J.

J is a negative log evidence: memberships, brightness and offsets are integrated out, so that a model is not preferred
for being able to fit more. With the same noise excess, and in the same units, the lower J says which model the data
come from.

- Noise excess is what the components do not explain. It is that of the simpler model, for both: with its own, the
  richer model would seem better whatever it leaves unexplained.
- J of data whose features are divided by s_j is in other units; n sum_j ln s_j brings it back. Only features without a
  value that most samples share are compared: the density of the others has no bound as their scale goes to zero, and
  pixels at the edge of a picture would decide. Samples divided by their sums or norms have no density to compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy import sparse

from dbmd import algorithm
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.advice.columns import variances
from dbmd.advice.findings import Finding
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.evidence import golden, pooled
from dbmd.model.result import Result
from dbmd.model.start import Sample
from dbmd.model.statistics import Float

SAMPLES, EACH = 5_000, 50  # largest number of samples that are compared, or so many for each component
NODES = 4
CLEAR = 1.0  # how much lower J must be for each sample: it is then e times as likely
CLEAR_OF_SCALES = 0.1  # and for each feature, if they are scaled
SHARED = 0.5  # a value that such a fraction of the samples have
LEAST_FEATURES = 2

PARAMETERS = {"scaling": 'scaling="standard"', "offsets": "offsets=True", "brightness": "brightness=True"}
OPTIONS = {"scaling": "--scaling standard", "offsets": "--offsets", "brightness": "--brightness"}
REASONS = {
    "scaling": "features differ in scale",
    "offsets": "sources are offset from each other, unless each holds patterns of its own",
    "brightness": "samples differ in brightness",
}


@dataclass(frozen=True)
class Comparison:
    """What scaling, offsets and brightness would change.

    Attributes
    ----------
    gains : dict of str to float
        For each that was tried, by how much J is lower with it, divided by the number of samples. Negative: without it,
        the data are more likely. Each is tried together with those before it that pay.
    pays : tuple of str
        Those with which J is lower by a clear margin.
    """

    gains: Mapping[str, float]
    pays: tuple[str, ...]

    def findings(self) -> list[Finding]:
        """Return what to do, for each that pays."""
        return [
            Finding("check", *(_sentence(name, self.gains[name], what) for what in (PARAMETERS, OPTIONS)))
            for name in self.pays
        ]


def _sentence(name: str, gain: float, what: Mapping[str, str]) -> str:
    return (
        f"In fits of a part of the data, the objective is lower by {gain:.1f} for each sample with {what[name]}: "
        f"{REASONS[name]}. Fit with it."
    )


@dataclass(frozen=True)
class _Fits:
    """Fits of samples on the driver.

    Attributes
    ----------
    n_sources, seed : int
        Sources, seed of the starts.
    known : array of shape (m, n_known), optional
        The known components.
    """

    n_sources: int
    seed: int
    known: Float | None

    def fit(self, sample: Sample, config: Config) -> Result:
        """Return the fit of a sample."""
        order = np.argsort(sample.source_codes, kind="stable")
        Xt, dtype = sample.Xt[order], np.dtype(np.float64)
        nodes = partition(Xt, sample.source_codes[order], NODES, dtype, weights=sample.weights[order])
        with LocalEngine(nodes) as engine, catch_warnings():
            simplefilter("ignore")
            return algorithm.fit(
                engine,
                config,
                n_sources=self.n_sources,
                n_features=Xt.shape[1],
                dtype=dtype,
                seed=self.seed,
                known=self.known,
            )

    def gain(self, sample: Sample, before: Config, after: Config, scale: Float | None = None) -> float:
        """Return by how much J is lower for each sample with other parameters, and with features divided by a scale."""
        result = self.fit(sample, before)
        if before.effective_features is None:
            assert result.evidence is not None
            excess = pooled(np.array(result.evidence.excess), result.sigma2)
            before, after = (replace(each, effective_features=sample.Xt.shape[1] / excess) for each in (before, after))
            if self.n_sources > 1:  # they had an excess each
                result = self.fit(sample, before)
        jacobian = 0.0
        if scale is not None:
            sample, jacobian = replace(sample, Xt=_divided(sample.Xt, scale)), float(np.log(scale).sum())
        change = self.fit(sample, after).objective - result.objective
        return -change / float(sample.weights.sum()) - jacobian


def compare(
    sample: Sample,
    config: Config,
    n_sources: int,
    seed: int,
    known: Float | None = None,
    on_phase: OnPhase = ignore_phase,
) -> Comparison:
    """Return what scaling, offsets and brightness would change, by fits of a sample.

    Parameters
    ----------
    sample : Sample
        Samples as they would be fitted.
    config : Config
        The parameters of the fit. What it has already is not tried.
    n_sources : int
        Sources have the codes 0 to n_sources - 1.
    seed : int
        Of the starts.
    known : array of shape (m, n_known), optional
        The known components.
    on_phase : callable
        Called with what is tried next.
    """
    fits, sample = _Fits(n_sources, seed, known), _fewer(sample, config.r)
    config = replace(config, inference="evidence", alpha=1.0, init="k-means++", n_init=1)
    gains: dict[str, float] = {}
    pays: list[str] = []

    def try_part(name: str, with_it: Config) -> Config:
        on_phase(f"comparing fits of a sample with and without {name}")
        gains[name] = fits.gain(sample, config, with_it)
        if gains[name] <= CLEAR:
            return config
        pays.append(name)
        return with_it

    # Offsets first: they would be taken for differences in scale.
    if n_sources > 1 and not config.offsets:
        config = try_part("offsets", replace(config, offsets=True))
    varied = _without_shared_values(sample)
    if config.scaling is None and known is None and varied.Xt.shape[1] >= LEAST_FEATURES:
        on_phase("comparing fits of a sample with and without scaling")
        gains["scaling"] = fits.gain(varied, config, config, _deviations(varied))
        if gains["scaling"] > max(CLEAR, CLEAR_OF_SCALES * varied.Xt.shape[1]):
            pays.append("scaling")
            sample = replace(sample, Xt=_divided(sample.Xt, _deviations(sample)))
    if not config.brightness:
        try_part("brightness", replace(config, brightness=True))
    return Comparison(gains, tuple(pays))


def _fewer(sample: Sample, r: int) -> Sample:
    """Return about SAMPLES of a sample, as float64. What was found for gaps is taken as it is, in all fits alike."""
    n = len(sample.weights)
    most = max(SAMPLES, EACH * r)
    kept = np.flatnonzero(golden(np.arange(n)) < most / n)
    Xt, source_codes, weights = sample.Xt[kept], sample.source_codes[kept], sample.weights[kept]
    return Sample(Xt.astype(np.float64), source_codes, weights, len(kept))


def _without_shared_values(sample: Sample) -> Sample:
    """Return a sample without the features that have one value in most samples."""
    Xt, n = sample.Xt, len(sample.weights)
    if sparse.issparse(Xt):  # only features with few zeros have a chance
        stored = np.bincount(Xt.indices, minlength=Xt.shape[1])
        Xt = Xt[:, np.flatnonzero(stored > SHARED * n)].toarray()
    # A value that more than half of the samples have is the median.
    median = np.sort(Xt, axis=0)[n // 2]
    return replace(sample, Xt=Xt[:, (Xt == median).mean(axis=0) < SHARED])


def _deviations(sample: Sample) -> Float:
    """Return the standard deviations of the features, shape (m,); 1 for a constant one."""
    deviations = np.sqrt(variances(sample.Xt, sample.weights))
    return np.where(deviations > 0.0, deviations, 1.0)


def _divided(Xt: Any, scale: Float) -> Any:
    return (Xt @ sparse.diags_array(1.0 / scale)).tocsr() if sparse.issparse(Xt) else Xt / scale
