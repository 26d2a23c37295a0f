"""Some samples at the peaks of their posteriors, from which their standard deviations follow at the end of a fit.

Which samples are kept is known only when those of all nodes are added. So nodes send what the standard deviations
follow from, and they are computed once, for the samples that are left, when somebody looks at them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.evidence import Evidence
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.parts import Parts
from dbmd.model.posterior import PosteriorModel, blocks, grams
from dbmd.model.reduce import ParallelMap
from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Peaks:
    """Samples of a :class:`~dbmd.model.membership_sample.MembershipSample`, and more about each. They add.

    Attributes
    ----------
    sample : MembershipSample
        k samples, without standard deviations.
    Ht : array of shape (k, n_patterns)
        Their memberships at the peak, with the dark component.
    gradient : array of shape (k, n_patterns)
        Q h - b over their observed features, in squared units of the data, up to a number that all components share.
    gaps : array of bool of shape (k, m), optional
        Which entries are missing; None: none.
    """

    sample: MembershipSample
    Ht: Float
    gradient: Float
    gaps: NDArray[np.bool_] | None = None

    @classmethod
    def empty(cls, n_sources: int, parts: Parts) -> Peaks:
        """Return no samples of data that will have so many sources."""
        none = np.zeros((0, parts.n_patterns))
        return cls(MembershipSample.empty(n_sources, parts.n_components), none, none)

    def __add__(self, other: Peaks) -> Peaks:
        both = self.sample.joined(other.sample)
        drawn = both.drawn()
        gaps = None
        if self.gaps is not None or other.gaps is not None:
            m = next(each.gaps.shape[1] for each in (self, other) if each.gaps is not None)
            gaps = np.concatenate([np.zeros((len(e.Ht), m), bool) if e.gaps is None else e.gaps for e in (self, other)])
        return Peaks(
            both.taken(drawn),
            np.concatenate([self.Ht, other.Ht])[drawn],
            np.concatenate([self.gradient, other.gradient])[drawn],
            None if gaps is None else gaps[drawn],
        )

    def with_std(
        self,
        *,
        Q: Float,
        sigma2: Float,
        prior: Float,
        parts: Parts,
        evidence: Evidence | None = None,
        norms: Float | None = None,
        W: Float | None = None,
        parallel_map: ParallelMap = map,
    ) -> MembershipSample:
        """Return the sample with the standard deviations of its memberships.

        Parameters
        ----------
        Q : array of shape (n_patterns, n_patterns)
            Gram matrix of the basis that the peaks were found with, about the mean of its columns.
        sigma2 : array of shape (n_sources,)
            The noise levels.
        prior : array of shape (n_patterns,)
            alpha0 - 1.
        parts : Parts
            Which of the components is the dark one.
        evidence : Evidence, optional
            How memberships are integrated out, if they are.
        norms : array of shape (r,), optional
            Norms of the components, if memberships are multiplied by them.
        W : array of shape (m, n_patterns), optional
            The basis about the mean of its columns, which is needed where entries are missing.
        parallel_map : callable
            As ``map``; it may run in threads.
        """
        std = np.empty((len(self.Ht), parts.n_components))
        for source_code in np.unique(self.sample.source_codes).tolist():
            noise = float(sigma2[source_code]) if evidence is None else evidence.noise(source_code, sigma2)
            model = PosteriorModel(Q, noise, parts, prior, norms)
            own = np.flatnonzero(self.sample.source_codes == source_code)
            std[own] = model.at(self.Ht[own], self.gradient[own], parallel_map=parallel_map).std
            if self.gaps is None:
                continue
            assert W is not None
            # Each sample with gaps has a Gram matrix of its own.
            own = own[self.gaps[own].any(axis=1)]
            for block in blocks(len(own), Q.size):
                some = own[block]
                Qs = grams(W, self.gaps[some], Q)
                std[some] = model.at(self.Ht[some], self.gradient[some], Qs).std
        return replace(self.sample, std=std)


@dataclass(frozen=True)
class PeaksOfModel:
    """Peaks in a fitted model, from which the sample with its standard deviations follows when it is asked for.

    Attributes
    ----------
    peaks : Peaks
        The samples.
    model : dict
        Arguments of :meth:`Peaks.with_std`.
    numbers : array of int of shape (n_own,), optional
        Among the sources of the model, the numbers of those that the samples come from; by default they are all.
    n_sources : int
        With ``numbers``, how many sources the model has.
    order : array of int of shape (r,), optional
        The order in which the components are numbered.
    """

    peaks: Peaks
    model: dict[str, Any]
    numbers: NDArray[np.intp] | None = None
    n_sources: int = 1
    order: NDArray[np.intp] | None = None

    @classmethod
    def at(cls, peaks: Peaks, W: Float, **rest: Any) -> PeaksOfModel:
        """Return the sample at a basis, shape (m, n_patterns), with the other arguments of :meth:`Peaks.with_std`."""
        centred = W - W.mean(axis=1, keepdims=True)
        needed = {"Q": centred.T @ centred, "W": None if peaks.gaps is None else centred}
        return cls(peaks, {**needed, **rest})

    def among(self, numbers: NDArray[np.intp], n_sources: int) -> PeaksOfModel:
        """Return the sample among n_sources sources, where source i of this one has the code numbers[i]."""
        return replace(self, numbers=numbers, n_sources=n_sources)

    def reordered(self, order: NDArray[np.intp]) -> PeaksOfModel:
        """Return the sample with its components in another order."""
        return replace(self, order=order if self.order is None else self.order[order])

    def found(self, parallel_map: ParallelMap = map) -> MembershipSample:
        """Return the sample, with standard deviations."""
        sample = self.peaks.with_std(**self.model, parallel_map=parallel_map)
        sample = sample if self.numbers is None else sample.among(self.numbers, self.n_sources)
        return sample if self.order is None else sample.reordered(self.order)


def peaks_of(sample: MembershipSample, Ht: Any, gradient: Any, gaps: Any = None) -> Peaks:
    """Return samples with their memberships and gradients, shapes (k, n_patterns), and gaps, shape (k, m), if any."""
    return Peaks(sample, np.asarray(Ht, np.float64), np.asarray(gradient, np.float64), gaps)
