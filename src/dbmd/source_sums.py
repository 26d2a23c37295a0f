"""What a pass adds up of the samples of a source, chunk after chunk: sums, and covariances of memberships."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, to_host
from dbmd.data.block import Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.statistics import Float, SampleSums, Statistics
from dbmd.protocols import FaceCovariance, GapCovariance, Pass, Sums


class Summed(NamedTuple):
    """What a pass finds of a source: its statistics, and the sums over its samples, less the shift, behind them."""

    stats: Statistics
    sums: SampleSums


@dataclass
class SourceSums:
    """Sums over the samples of one source, chunk after chunk, which its statistics follow from.

    Attributes
    ----------
    h_step : HStep
        What their memberships are found with.
    source_code : int
        The source.
    rest : array of shape (m,)
        The point that statistics are taken about, less the shift.
    sums : Sums, optional
        Those of the kernel.
    covariance : Covariance, optional
        Of the memberships, if they are integrated out.
    at_once : Pass, optional
        What finds memberships and these sums at once; then there are no others.
    logs : array of the kernel's kind, shape (r,), or float
        Sum of the logarithms of memberships, if they have a prior.
    n_gaps : float, or array of the kernel's kind, shape ()
        Number of gaps, counted by the weights of their samples.
    """

    h_step: HStep
    source_code: int
    rest: Float
    sums: Sums | None = None
    covariance: Covariance | None = None
    at_once: Pass | None = None
    logs: Any = 0.0
    n_gaps: Any = 0.0

    def add_at_once(
        self, chunk: Chunk, Ht0: NDArray[Any] | None, out: NDArray[Any] | None, *, norms: bool
    ) -> NDArray[Any] | None:
        """Find the memberships of samples and add them, if the kernel can do both at once; else return None.

        It can do so for all samples of a source, or for none: sums would depend on which ones share a chunk.

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift.
        Ht0 : array of shape (rows, r), optional
            Where to start.
        out : array of shape (rows, r), optional
            Where to write the result; may be ``Ht0`` itself.
        norms : bool
            Whether squared norms are needed, too.

        Returns
        -------
        array of shape (rows, r), optional
            Memberships.
        """
        h_step = self.h_step
        if h_step.at_once is None or chunk.weights is not None:
            return None
        assert self.sums is None
        assert chunk.places is None
        if self.at_once is None:
            self.at_once = h_step.begin(self.source_code, norms=norms)
        if out is None:
            out = h_step.kernel.empty((chunk.Xt.shape[0], h_step.W.shape[1]), h_step.dtype)
        self.at_once.over(chunk.Xt, Ht0, out)
        return out

    def add(self, chunk: Chunk, Ht: NDArray[Any], first_row: int, *, norms: bool) -> None:
        """Add samples; their gaps are filled with their expectation, W h.

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift, with the places of their gaps. What stands in for gaps is replaced.
        Ht : array of shape (rows, r)
            Their memberships.
        first_row : int
            Number of the first row of the block in the whole data.
        norms : bool
            Whether squared norms are needed, too.
        """
        assert self.at_once is None
        h_step, places, weights = self.h_step, chunk.places, chunk.weights
        kernel = h_step.kernel
        if places is not None:
            kernel.put_products(chunk.Xt, places, Ht, h_step.W, h_step.centre_of(self.source_code))
            self.n_gaps = self.n_gaps + (len(places.columns) if weights is None else weights @ places.counts)
        if h_step.evidence is not None:  # first: elsewhere, it is computed beside the rest
            if self.covariance is None:
                self.covariance = Covariance(h_step, h_step.evidence, self.source_code)
            self.covariance.add(Ht, chunk, first_row)
        if self.sums is None:
            m, r = h_step.W.shape
            self.sums = kernel.Sums(m, r, h_step.dtype)
        self.sums.add(chunk.Xt, Ht, weights, norms=norms)
        if h_step.prior.any():
            self.logs = self.logs + (kernel.sum_log(Ht) if weights is None else weights @ np.log(Ht))

    def send(self) -> None:
        """Start to bring the sums here, if they are elsewhere; no samples are added afterwards."""
        for each in (self.at_once, self.sums, self.covariance):
            if each is not None:
                each.send()

    def total(self) -> Summed:
        """Return the sums over the samples so far, and the statistics that follow from them."""
        return self._total_of_parts() if self.at_once is None else self._total_at_once(self.at_once)

    def _total_at_once(self, at_once: Pass) -> Summed:
        sums, covariance, is_finite = at_once.total()
        if not is_finite:
            self.h_step.refuse()
        stats = Statistics.of(sums, self.rest)
        if covariance is not None:
            assert self.h_step.evidence is not None
            S, log_det = covariance
            sigma2 = float(self.h_step.sigma2[self.source_code])
            cost = self.h_step.evidence.cost(self.source_code, S, log_det, self.h_step.Q, sigma2)
            stats = stats.with_covariance(S, cost)
        return Summed(stats, sums)

    def _total_of_parts(self) -> Summed:
        assert self.sums is not None
        covariance = None if self.covariance is None else self.covariance.total()
        found, prior, sigma2 = self.sums.total(), self.h_step.prior, float(self.h_step.sigma2[self.source_code])
        stats = Statistics.of(found, self.rest, -float(prior @ to_host(self.logs)) if prior.any() else 0.0)
        n_gaps = float(self.n_gaps)
        if n_gaps:
            stats = stats.with_gaps(n_gaps, sigma2)
        if covariance is not None:
            S, cost, WS = covariance
            stats = stats.with_covariance(S, cost)
            if WS is not None:
                stats = stats.with_uncertain_gaps(WS, self.h_step.W, sigma2)
        return Summed(stats, found)


class Covariance:
    """The sum of the covariances of the memberships of a source, chunk after chunk.

    Parameters
    ----------
    h_step : HStep
        What the memberships are found with.
    evidence : Evidence
        How they are integrated out.
    source_code : int
        The source.
    """

    def __init__(self, h_step: HStep, evidence: Evidence, source_code: int) -> None:
        self._h_step, self._evidence, self._source_code = h_step, evidence, source_code
        self._sigma2, self._noise = float(h_step.sigma2[source_code]), evidence.noise(source_code, h_step.sigma2)
        self._faces: FaceCovariance = h_step.kernel.FaceCovariance(h_step.Q, self._noise)
        self._with_gaps: GapCovariance | None = None

    def add(self, Ht: NDArray[Any], chunk: Chunk, first_row: int) -> None:
        """Add samples.

        Parameters
        ----------
        Ht : array of shape (rows, r)
            Their memberships.
        chunk : Chunk
            The samples, with the places of their gaps.
        first_row : int
            Number of the first row of the block in the whole data.
        """
        weights, places = chunk.weights, chunk.places
        if places is None:
            if self._evidence.one_in > 1:
                rows = self._counted_rows(Ht, chunk, first_row)
                Ht, weights = Ht[rows], None if weights is None else weights[rows]
            self._faces.add(Ht, weights)
            return
        counted = self._evidence.counted(first_row + chunk.numbers)
        if counted is not None:
            weights = counted.astype(np.float64) if weights is None else counted * weights
        some, _ = places.some()
        if not some.all():
            self._faces.add(Ht[~some], None if weights is None else weights[~some])
            weights = some.astype(np.float64) if weights is None else weights * some
        if self._with_gaps is None:
            self._with_gaps = self._h_step.kernel.GapCovariance(self._h_step.Q, self._h_step.W, self._noise)
        self._with_gaps.add(Ht, places, weights)

    def _counted_rows(self, Ht: Any, chunk: Chunk, first_row: int) -> Any:
        """Return the positions in a chunk of samples that have a covariance computed, of the kind of Ht."""
        if is_here(Ht) or not isinstance(chunk.rows, slice):
            return self._evidence.counted_rows(first_row + chunk.numbers)
        # How many they are would have to be waited for, and they are the same in every pass.
        kernel: Any = self._h_step.kernel
        first = first_row + chunk.rows.start
        return _kept_rows(self._evidence.one_in, first, len(Ht), kernel, int(Ht.device.id))

    def send(self) -> None:
        """Start to bring the sum here, if it is elsewhere."""
        self._faces.send()

    def total(self) -> tuple[Float, float, Float | None]:
        """Return the sum of the covariances so far, what they cost, and with gaps the sums of w_j'S over each gap j.

        Returns
        -------
        S : array of shape (r, r)
            Sum of the covariances.
        cost : float
            What they add to the objective.
        WS : array of shape (m, r), optional
            See :meth:`dbmd.protocols.GapCovariance.total`.
        """
        each = float(self._evidence.one_in)
        S, log_det = self._faces.total()
        WS = None
        if self._with_gaps is not None:
            S_gaps, log_det_gaps, WS = self._with_gaps.total()
            S, log_det, WS = S + S_gaps, log_det + log_det_gaps, each * WS
        S = each * S
        return S, self._evidence.cost(self._source_code, S, each * log_det, self._h_step.Q, self._sigma2), WS


@lru_cache(maxsize=16)
def _kept_rows(one_in: int, first: int, count: int, kernel: Any, device: int) -> Any:
    """Return which of consecutive rows, from one of the whole data on, have a covariance computed, on a device."""
    return kernel.asarray(Evidence((), one_in).counted_rows(np.arange(first, first + count)))
