"""The H-step: the memberships of samples at a given W, prepared once and applied chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Chunk, Samples
from dbmd.errors import DataError
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.model.posterior import Posterior, PosteriorModel, blocks, grams
from dbmd.model.statistics import Float, Statistics, statistics
from dbmd.protocols import FaceCovariance, GapCovariance, Kernel
from dbmd.registry import load_kernel


@dataclass(frozen=True)
class HStep:
    """The H-step at a given W: everything but the samples.

    Memberships sum to one, so x - W h = (x - c) - (W - c 1')h for any vector c. If c is the mean of the columns of W, Q
    and b lose the part that all components share, which is most of them on raw data. Where that part is small, c is the
    shift, and no offset is needed.

    This holds feature by feature, hence also for the observed features of a sample with gaps. An entry that equals c
    adds nothing to b: so c is put into gaps, and Q is that of the observed features.

    Attributes
    ----------
    shift : array of shape (m,)
        What is subtracted from samples while they are read: ``samples.chunks(h_step.shift)``.
    W_centred : array of shape (m, r), of the type of the data
        W - c 1'.
    offset : array of shape (r,), optional
        (W - c 1')'(c - shift), to be subtracted from (x - shift)'(W - c 1'). None if it is zero.
    Q : array of shape (r, r)
        Gram matrix of W - c 1'.
    prior : array of shape (r,)
        alpha0 - 1.
    sigma2 : array of shape (n_sources,)
        Noise level of each source.
    kernel : Kernel
        See :mod:`dbmd.kernels`.
    evidence : Evidence, optional
        How the memberships are integrated out, if they are.
    source_offsets : array of shape (n_sources, r), of the type of the data, optional
        d_c'(W - c 1') for the offset d_c of each source, to be subtracted as well. None if sources have no offsets.
    centre : array of shape (m,)
        c - shift.
    W : array of shape (m, r)
        W - c 1' in float64.
    offsets : array of shape (m, n_sources), optional
        The offset of each source, if they have any.
    """

    shift: Float
    W_centred: NDArray[Any]
    offset: NDArray[Any] | None
    Q: Float
    prior: Float
    sigma2: Float
    kernel: Kernel
    evidence: Evidence | None
    source_offsets: NDArray[Any] | None
    centre: Float
    W: Float
    offsets: Float | None

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
        kernel: str = "cpu",
    ) -> HStep:
        """Return the H-step for samples at W.

        Parameters
        ----------
        samples : Samples
            Only their type matters, and whether they are sparse or have to be gathered.
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
        kernel : str
            Name of the kernel.
        """
        origin = origin_of(W, samples.dtype) if origin is None else origin
        offsets = offsets if offsets is not None and offsets.size else None
        shift = np.zeros_like(origin) if near_zero and samples.is_contiguous else samples.shift_for(origin)
        c = W.mean(axis=1)
        shared, own = np.sum((c - shift) ** 2), np.sum((W - c[:, None]) ** 2) / W.shape[1]
        # With a prior, where the H-step stops depends on Q: then it must be the same for dense and sparse samples.
        c = shift if shared <= own and not prior.any() else c
        W_centred = W - c[:, None]
        return cls(
            shift,
            np.ascontiguousarray(W_centred, samples.dtype),
            None if c is shift else ((c - shift) @ W_centred).astype(samples.dtype),
            W_centred.T @ W_centred,
            prior,
            sigma2,
            load_kernel(kernel),
            evidence,
            None if offsets is None else (offsets.T @ W_centred).astype(samples.dtype),
            c - shift,
            W_centred,
            offsets,
        )

    def located(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the places of its gaps."""
        if chunk.gaps is None or chunk.places is not None:
            return chunk
        return chunk._replace(places=self.kernel.locate(chunk.gaps))

    def memberships(self, chunk: Chunk, Ht0: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return Ht, shape (rows, r): for each sample the minimiser of the objective given W and sigma.

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift. What stands in for their gaps is replaced.
        Ht0 : array of shape (rows, r), optional
            Where to start.
        """
        places = self.located(chunk).places
        if places is not None:
            self.kernel.put(chunk.Xt, places, self._centre_of(chunk.source_code))
        Bt = self._products(chunk.Xt, chunk.source_code)
        a = self.sigma2[chunk.source_code] * self.prior
        if places is None:
            return self.kernel.solve_h(self.Q, Bt, a, Ht0)
        # Samples of the more frequent kind are solved where they are, and the others, which were wrong, once more.
        some, of_some = places.some()
        without, with_gaps = (
            partial(self.kernel.solve_h, self.Q),
            partial(self.kernel.solve_h_with_gaps, self.Q, self.W),
        )
        if 2 * np.count_nonzero(some) > len(some):
            Ht, rows, again = with_gaps(places, Bt, a, Ht0), np.flatnonzero(~some), without
        else:
            Ht, rows, again = without(Bt, a, Ht0), np.flatnonzero(some), partial(with_gaps, of_some)
        if len(rows):
            Ht[rows] = again(Bt[rows], a, None if Ht0 is None else Ht0[rows])
        return Ht

    def _products(self, Xt: Any, source_code: int) -> NDArray[Any]:
        """Return b of samples of a source, shape (rows, r); their gaps have the entries that add nothing to it."""
        with np.errstate(over="ignore", invalid="ignore"):
            Bt: NDArray[Any] = Xt @ self.W_centred
            if self.offset is not None:
                Bt -= self.offset
            if self.source_offsets is not None:
                Bt -= self.source_offsets[source_code]
            if not np.isfinite(Bt.sum()):
                raise DataError(
                    f"A sample is too large for {Bt.dtype}: its products with the components leave the range of the "
                    "type. Take the data in the units that the model was fitted in."
                )
        return Bt

    def posterior(
        self,
        chunk: Chunk,
        Ht: NDArray[Any],
        parts: Parts,
        *,
        norms: Float | None = None,
        errors: Float | None = None,
        rows: NDArray[np.intp] | None = None,
    ) -> Posterior:
        """Return means and standard deviations of memberships, before :meth:`statistics` fills gaps.

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
        rows : array of int, optional
            Which samples of the chunk, by their positions; by default all.
        """
        excess = 1.0 if self.evidence is None else self.evidence.excess[chunk.source_code]
        noise = float(excess * self.sigma2[chunk.source_code])
        model = PosteriorModel(self.Q, noise, parts, self.prior, norms, errors)
        Xt, gaps, h = chunk.Xt, chunk.gaps, Ht.astype(np.float64)
        if rows is not None:
            Xt, gaps, h = Xt[rows], None if gaps is None else gaps[rows], h[rows]
        Bt = self._products(Xt, chunk.source_code).astype(np.float64)
        found = model.at(h, h @ self.Q - Bt)
        if gaps is None:
            return found
        # Each sample with gaps has a Gram matrix of its own.
        has_gaps = np.flatnonzero(gaps.any(axis=1))
        for block in blocks(len(has_gaps), self.Q.size):
            some = has_gaps[block]
            Q = grams(self.W, gaps[some], self.Q)
            own = model.at(h[some], (Q @ h[some][:, :, None])[:, :, 0] - Bt[some], Q)
            found.mean[some], found.std[some], found.brightness[some] = own.mean, own.std, own.brightness
        return found

    def statistics(self, chunk: Chunk, Ht: NDArray[Any], rest: Float, *, norms: bool) -> Statistics:
        """Return the statistics of a chunk; gaps are filled with their expectation, W h.

        Parameters
        ----------
        chunk : Chunk
            Samples, less the shift. What stands in for their gaps is replaced.
        Ht : array of shape (rows, r)
            Their memberships.
        rest : array of shape (m,)
            The origin less the shift.
        norms : bool
            Whether to compute squared norms, too. With gaps they depend on W, and are computed always.
        """
        places, weights = self.located(chunk).places, chunk.weights
        if places is not None:
            self.kernel.put_products(chunk.Xt, places, Ht, self.W, self._centre_of(chunk.source_code))
        cost = self._dirichlet(Ht, weights)
        found = statistics(chunk.Xt, Ht, rest, cost, norms=norms or places is not None, weights=weights)
        if places is None:
            return found
        n_gaps = float(len(places.columns) if weights is None else weights @ places.counts)
        return found.with_gaps(n_gaps, float(self.sigma2[chunk.source_code]))

    def _centre_of(self, source_code: int) -> Float:
        """Return the entries of samples of a source that add nothing to b, less the shift, shape (m,)."""
        return self.centre if self.offsets is None else self.centre + self.offsets[:, source_code]

    def _dirichlet(self, Ht: NDArray[Any], weights: Float | None) -> float:
        """Return the Dirichlet term of the objective for memberships, shape (rows, r), each counted by its weight."""
        if not self.prior.any():
            return 0.0
        return -float(self.prior @ (self.kernel.sum_log(Ht) if weights is None else weights @ np.log(Ht)))

    def covariance(self, source_code: int) -> Covariance:
        """Return an accumulator for the covariances of the memberships of a source."""
        assert self.evidence is not None
        level = float(self.sigma2[source_code])
        noise = self.evidence.excess[source_code] * level
        faces, with_gaps = self.kernel.FaceCovariance(self.Q, noise), self.kernel.GapCovariance(self.Q, self.W, noise)
        return Covariance(faces, with_gaps, self.evidence, source_code, self.Q, self.W, level)


@dataclass(frozen=True)
class Covariance:
    """The sum of the covariances of the memberships of a source, chunk after chunk.

    Attributes
    ----------
    faces, with_gaps : FaceCovariance, GapCovariance
        The accumulators of the kernel, for samples without gaps and with gaps.
    evidence : Evidence
        How memberships are integrated out.
    source_code : int
        The source.
    Q : array of shape (r, r)
        Gram matrix of W.
    W : array of shape (m, r)
        The basis, about any point.
    sigma2 : float
        Noise level of the source.
    """

    faces: FaceCovariance
    with_gaps: GapCovariance
    evidence: Evidence
    source_code: int
    Q: Float
    W: Float
    sigma2: float

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
        counted = self.evidence.counted(first_row + chunk.numbers)
        if counted is not None:
            factors = self.evidence.one_in * counted.astype(np.float64)
            weights = factors if weights is None else factors * weights
        if places is None:
            rows = slice(None) if counted is None else counted
            self.faces.add(Ht[rows], None if weights is None else weights[rows])
            return
        some, _ = places.some()
        if not some.all():
            self.faces.add(Ht[~some], None if weights is None else weights[~some])
            weights = some.astype(np.float64) if weights is None else weights * some
        self.with_gaps.add(Ht, places, weights)

    def added_to(self, stats: Statistics) -> Statistics:
        """Return the statistics of the source with the covariances of its memberships, and what they cost."""
        S, log_det = self.faces.total()
        S_gaps, log_det_gaps, WS = self.with_gaps.total()
        S = S + S_gaps
        cost = self.evidence.cost(self.source_code, S, log_det + log_det_gaps, self.Q, self.sigma2)
        return stats.with_covariance(S, cost).with_uncertain_gaps(WS, self.W, self.sigma2)


def origin_of(W: Float, dtype: np.dtype[Any]) -> Float:
    """Return the mean of the columns of W, shape (m,), rounded to the type of the samples: a point amidst them."""
    return W.mean(axis=1).astype(dtype).astype(np.float64)
