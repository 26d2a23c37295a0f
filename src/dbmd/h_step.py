"""The H-step: the memberships of samples at a given W, prepared once and applied chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, to_host
from dbmd.data.block import Chunk, Samples
from dbmd.errors import DataError
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.model.posterior import Posterior, PosteriorModel, blocks, grams
from dbmd.model.statistics import Float, SampleSums, Statistics
from dbmd.protocols import FaceCovariance, GapCovariance, Kernel, Pass, Sums
from dbmd.registry import load_kernel, load_pass


@dataclass(frozen=True)
class HStep:
    """The H-step at a given W: everything but the samples, whose arrays are of the kernel's kind.

    Memberships sum to one, so x - W h = (x - c) - (W - c 1')h for any vector c. If c is the mean of the columns of W, Q
    and b lose the part that all components share, which is most of them on raw data. Where that part is small, c is the
    shift, and no offset is needed.

    This holds feature by feature, hence also for the observed features of a sample with gaps. An entry that equals c
    adds nothing to b: so c is put into gaps, and Q is that of the observed features.

    Attributes
    ----------
    shift : array of shape (m,)
        What is subtracted from samples while they are read: ``samples.chunks(h_step.shift)``.
    dtype : dtype
        Of the data.
    offset : array of shape (r,) or (n_sources, r), optional
        (W - c 1')'(c - shift + d_c), where d_c is the offset of a source, if they have some: to be subtracted from
        (x - shift)'(W - c 1'). None if it is zero.
    prior : array of shape (r,)
        alpha0 - 1.
    sigma2 : array of shape (n_sources,)
        Noise level of each source.
    kernel : Kernel
        See :mod:`dbmd.kernels`.
    at_once : type of Pass, optional
        What finds memberships and sums at once, if samples are such that the kernel can.
    evidence : Evidence, optional
        How the memberships are integrated out, if they are.
    centre : array of shape (m,)
        c - shift.
    W : array of shape (m, r)
        W - c 1' in float64.
    offsets : array of shape (m, n_sources), optional
        The offset of each source, if they have any.
    unseen : list of arrays
        Of products elsewhere that were not looked at yet, the sum, shape (), and the last ones, see :meth:`check`; or a
        function that returns the sum when it is here.
    """

    shift: Float
    dtype: np.dtype[Any]
    offset: Float | None
    prior: Float
    sigma2: Float
    kernel: Kernel
    at_once: type[Pass] | None
    evidence: Evidence | None
    centre: Float
    W: Float
    offsets: Float | None
    unseen: list[Any] = field(default_factory=list)

    @classmethod
    def prepare(
        cls,
        samples: Samples,
        W: Float,
        *,
        sigma2: Float,
        prior: Float,
        origin: Float | None = None,
        near_zero: bool = False,
        evidence: Evidence | None = None,
        offsets: Float | None = None,
    ) -> HStep:
        """Return the H-step for samples at W.

        Parameters
        ----------
        samples : Samples
            Only their type and kernel matter, and whether they are sparse or have to be gathered.
        W : array of shape (m, r)
            The basis.
        sigma2 : array of shape (n_sources,)
            The noise levels.
        prior : array of shape (r,)
            alpha0 - 1.
        origin : array of shape (m,), optional
            A point amidst the samples, by default :func:`origin_of` W. It is the shift of dense samples.
        near_zero : bool
            Whether dense samples that need not be gathered are read as they are, without a shift.
        evidence : Evidence, optional
            How the memberships are integrated out, if they are.
        offsets : array of shape (m, n_sources) or (m, 0), optional
            The offset of each source, if they have any.
        """
        kernel = load_kernel(samples.kernel)
        origin = origin_of(W, samples.dtype) if origin is None else origin
        offsets = offsets if offsets is not None and offsets.size else None
        is_near = near_zero and samples.is_contiguous
        shift = np.zeros_like(origin) if is_near else samples.shift_for(origin)
        c = W @ np.full(W.shape[1], 1.0 / W.shape[1])  # a mean takes several times as long, which kernels wait for
        # With a prior, where the H-step stops depends on Q: then it must be the same for dense and sparse samples.
        may_keep = not prior.any()
        if may_keep and is_near and 2.0 * (c @ c) <= np.vdot(W, W) / W.shape[1]:  # as below, without W - c 1'
            W_centred, centre = W, shift
        else:
            W_centred, centre = W - c[:, None], c - shift
            if may_keep and centre @ centre <= np.vdot(W_centred, W_centred) / W.shape[1]:
                W_centred, centre = W - shift[:, None] if shift.any() else W, np.zeros_like(c)
        offset = centre @ W_centred if centre.any() else None
        if offsets is not None:
            offset = (centre[:, None] + offsets).T @ W_centred
        is_plain = may_keep and not samples.is_sparse and (evidence is None or evidence.one_in == 1)
        at_once = load_pass(samples.kernel) if is_plain else None
        if at_once is not None and W.shape[1] > at_once.MAX_RANK:
            at_once = None
        return cls(shift, samples.dtype, offset, prior, sigma2, kernel, at_once, evidence, centre, W_centred, offsets)

    @cached_property
    def W_in_type(self) -> NDArray[Any]:
        """W - c 1', an array of the kernel's kind of shape (m, r), of the type of the data."""
        return self.kernel.asarray(np.ascontiguousarray(self.W, self.dtype))

    @cached_property
    def offset_in_type(self) -> NDArray[Any] | None:
        """The offset as an array of the kernel's kind, of the type of the data."""
        return None if self.offset is None else self.kernel.asarray(self.offset, self.dtype)

    @cached_property
    def Q(self) -> Float:
        """Gram matrix of W - c 1', shape (r, r).

        It is found when it is needed: where products with the samples are computed elsewhere, while that is done.
        """
        return self.W.T @ self.W

    def located(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the places of its gaps."""
        if chunk.gaps is None or chunk.places is not None:
            return chunk
        return chunk._replace(places=self.kernel.locate(chunk.gaps))

    def memberships(
        self, chunk: Chunk, Ht0: NDArray[Any] | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return Ht, shape (rows, r): for each sample the minimiser of the objective given W and sigma.

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift. What stands in for their gaps is replaced.
        Ht0 : array of shape (rows, r), optional
            Where to start.
        out : array of shape (rows, r), optional
            Where to write the result; may be ``Ht0`` itself.
        """
        places = self.located(chunk).places
        if places is not None:
            self.kernel.put(chunk.Xt, places, self.centre_of(chunk.source_code))
        Bt = self._products(chunk.Xt, chunk.source_code)
        a = self.sigma2[chunk.source_code] * self.prior
        if places is None:
            return self.kernel.solve_h(self.Q, Bt, a, Ht0, out)
        # Samples of the more frequent kind are solved where they are, and the others, which were wrong, once more.
        some, of_some = places.some()
        without, with_gaps = (
            partial(self.kernel.solve_h, self.Q),
            partial(self.kernel.solve_h_with_gaps, self.Q, self.W),
        )
        if 2 * np.count_nonzero(some) > len(some):
            rows, first, again = np.flatnonzero(~some), partial(with_gaps, places), without
        else:
            rows, first, again = np.flatnonzero(some), without, partial(with_gaps, of_some)
        start = None if Ht0 is None else Ht0[rows]
        Ht = first(Bt, a, Ht0, out)
        if len(rows):
            Ht[rows] = again(Bt[rows], a, start)
        return Ht

    def check(self) -> None:
        """Raise a DataError if products elsewhere that were not looked at yet left the range of their type."""
        self.send_products()
        while self.unseen:
            self._check(self.unseen.pop()())  # a copy is cheaper than a function of an array elsewhere

    def send_products(self) -> None:
        """Start to bring the sum of products elsewhere here."""
        self.look_at_products()
        self.unseen[:] = [each if callable(each) else self.kernel.coming(each) for each in self.unseen]

    def look_at_products(self) -> None:
        """Start to add up products elsewhere, which :meth:`check` waits for."""
        if self.unseen and not callable(self.unseen[-1]) and self.unseen[-1].ndim:
            last = self.unseen.pop().sum()
            self.unseen[:] = [sum(self.unseen, last)]

    def _check(self, total: Any) -> None:
        """Raise a DataError if the sum of products is not finite."""
        if not np.isfinite(total):
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise a DataError: products with a sample are not finite."""
        raise DataError(
            f"A sample is too large for {self.dtype}: its products with the components leave the range of the type. "
            "Take the data in the units that the model was fitted in."
        )

    def _products(self, Xt: Any, source_code: int) -> NDArray[Any]:
        """Return b of samples of a source, shape (rows, r); their gaps have the entries that add nothing to it."""
        offset = self.offset_in_type
        if offset is not None and self.offsets is not None:
            offset = offset[source_code]
        self.look_at_products()
        with np.errstate(over="ignore", invalid="ignore"):
            Bt: NDArray[Any] = self.kernel.products(Xt, self.W_in_type, offset)
            if is_here(Bt):
                self._check(Bt.sum())
        if not is_here(Bt):  # to look at them would be to wait for them, and the next step is more urgent
            self.unseen.append(Bt)
        return Bt

    def posterior(
        self,
        chunk: Chunk,
        Ht: NDArray[Any],
        parts: Parts,
        *,
        norms: Float | None = None,
        errors: Float | None = None,
    ) -> Posterior:
        """Return means and standard deviations of memberships, as arrays of NumPy, before gaps are filled.

        Parameters
        ----------
        chunk : Chunk
            The samples that :meth:`memberships` was called with.
        Ht : array of shape (rows, r)
            Their memberships.
        parts : Parts
            Which of the components is the dark one.
        norms : array of shape (n_components,), optional
            Norms of the components, if shares are multiplied by them.
        errors : array of shape (k, r, r), optional
            Likely errors of W, by default none.
        """
        excess = 1.0 if self.evidence is None else self.evidence.excess[chunk.source_code]
        noise = float(excess * self.sigma2[chunk.source_code])
        model = PosteriorModel(self.Q, noise, parts, self.prior, norms, errors)
        h, gradient, gaps = self.peaks(chunk, Ht)
        found = model.at(h, gradient)
        if gaps is None:
            return found
        # Each sample with gaps has a Gram matrix of its own.
        has_gaps = np.flatnonzero(gaps.any(axis=1))
        for block in blocks(len(has_gaps), self.Q.size):
            some = has_gaps[block]
            own = model.at(h[some], gradient[some], grams(self.W, gaps[some], self.Q))
            found.mean[some], found.std[some], found.brightness[some] = own.mean, own.std, own.brightness
        return found

    def peaks(
        self, chunk: Chunk, Ht: NDArray[Any], rows: NDArray[np.intp] | None = None
    ) -> tuple[Float, Float, NDArray[np.bool_] | None]:
        """Return what the posterior of samples follows from, as arrays of NumPy, before their gaps are filled.

        Parameters
        ----------
        chunk : Chunk
            The samples that :meth:`memberships` was called with.
        Ht : array of shape (rows, r)
            Their memberships.
        rows : array of int, optional
            Which samples of the chunk, by their positions; by default all.

        Returns
        -------
        h : array of shape (n, r)
            Their memberships.
        gradient : array of shape (n, r)
            Q h - b over the observed features.
        gaps : array of bool of shape (n, m), optional
            Which entries are missing; None: none.
        """
        Xt, gaps = chunk.Xt, chunk.gaps
        if rows is not None:
            there = self.kernel.asarray(rows)
            Xt, gaps, Ht = Xt[there], None if gaps is None else gaps[there], Ht[there]
        h, Bt = (to_host(each).astype(np.float64) for each in (Ht, self._products(Xt, chunk.source_code)))
        gradient = h @ self.Q - Bt
        if gaps is None:
            return h, gradient, None
        gaps = to_host(gaps)
        return h, gradient - np.where(gaps, h @ self.W.T, 0.0) @ self.W, gaps  # gaps add nothing to b

    def sums(self, source_code: int, rest: Float) -> SourceSums:
        """Return sums of no samples of a source, for statistics about the shift plus the rest, shape (m,)."""
        return SourceSums(self, source_code, rest)

    def begin(self, source_code: int, *, norms: bool) -> Pass:
        """Return a pass at once over samples of a source."""
        assert self.at_once is not None
        offset, noise = self.offset, None
        if offset is not None and self.offsets is not None:
            offset = offset[source_code]
        if self.evidence is not None:
            noise = self.evidence.noise(source_code, self.sigma2)
        return self.at_once(self.W, offset, lambda: self.Q, noise, self.dtype, norms=norms)

    def centre_of(self, source_code: int) -> Float:
        """Return the entries of samples of a source that add nothing to b, less the shift, shape (m,)."""
        return self.centre if self.offsets is None else self.centre + self.offsets[:, source_code]


class Summed(NamedTuple):
    """What a pass finds of a source: its statistics, and the sums over its samples, less the shift, behind them."""

    stats: Statistics
    sums: SampleSums

    def plus(self, other: Summed) -> Summed:
        """Return what is found of the samples of both."""
        return Summed(self.stats + other.stats, self.sums.plus(other.sums))


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
        The sums over samples whose memberships were found at the same time.
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

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift, with the places of their gaps.
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
        if h_step.at_once is None or chunk.places is not None or chunk.weights is not None:
            return None
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
        kernel, places, weights = self.h_step.kernel, chunk.places, chunk.weights
        if places is not None:
            kernel.put_products(chunk.Xt, places, Ht, self.h_step.W, self.h_step.centre_of(self.source_code))
            self.n_gaps = self.n_gaps + (len(places.columns) if weights is None else weights @ places.counts)
        h_step = self.h_step
        if h_step.evidence is not None:  # first: elsewhere, it is computed beside the rest
            if self.covariance is None:
                self.covariance = Covariance(h_step, h_step.evidence, self.source_code)
            self.covariance.add(Ht, chunk, first_row)
        if self.sums is None:
            m, r = h_step.W.shape
            self.sums = kernel.Sums(m, r, h_step.dtype)
        self.sums.add(chunk.Xt, Ht, weights, norms=norms)
        if self.h_step.prior.any():
            self.logs = self.logs + (kernel.sum_log(Ht) if weights is None else weights @ np.log(Ht))

    def send(self) -> None:
        """Start to bring the sums here, if they are elsewhere; no samples are added afterwards."""
        for each in (self.at_once, self.sums, self.covariance):
            if each is not None:
                each.send()

    def total(self) -> Summed:
        """Return the sums over the samples so far, and the statistics that follow from them."""
        of_others = None if self.sums is None else self._total_of_others(self.sums)
        if self.at_once is None:
            assert of_others is not None
            return of_others
        sums, covariance, is_finite = self.at_once.total()
        if not is_finite:
            self.h_step.refuse()
        stats = Statistics.of(sums, self.rest)
        if covariance is not None:
            assert self.h_step.evidence is not None
            S, log_det = covariance
            sigma2 = float(self.h_step.sigma2[self.source_code])
            cost = self.h_step.evidence.cost(self.source_code, S, log_det, self.h_step.Q, sigma2)
            stats = stats.with_covariance(S, cost)
        found = Summed(stats, sums)
        return found if of_others is None else found.plus(of_others)

    def _total_of_others(self, sums: Sums) -> Summed:
        """Return the same for samples that were not added at once."""
        covariance = None if self.covariance is None else self.covariance.total()
        found, prior, sigma2 = sums.total(), self.h_step.prior, float(self.h_step.sigma2[self.source_code])
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


def origin_of(W: Float, dtype: np.dtype[Any]) -> Float:
    """Return the mean of the columns of W, shape (m,), rounded to the type of the samples: a point amidst them."""
    return W.mean(axis=1).astype(dtype).astype(np.float64)
