"""The H-step: the memberships of samples at a given W, prepared once and applied chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, to_host
from dbmd.data.block import Chunk, Samples
from dbmd.errors import DataError
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.model.posterior import Posterior, PosteriorModel, blocks, grams
from dbmd.model.statistics import Float
from dbmd.protocols import Kernel, Pass
from dbmd.registry import load_kernel, load_pass


@dataclass
class Unseen:
    """Products elsewhere, of which the sum is not here yet.

    Attributes
    ----------
    last : array of the kernel's kind, shape (n, r), optional
        Those that are not in the sum yet: what comes next is more urgent than to add them up.
    sum : array of the kernel's kind, shape (), optional
        The sum of all before them.
    coming : callable, optional
        Returns the sum when it is here.
    """

    last: Any = None
    sum: Any = None
    coming: Callable[[], NDArray[Any]] | None = None

    def add(self, Bt: Any) -> None:
        """Add products, shape (n, r)."""
        self.add_up()
        self.last = Bt

    def add_up(self) -> None:
        """Start to add up all so far; their memory is free afterwards."""
        if self.last is not None:
            last, self.last = self.last.sum(), None
            self.sum = last if self.sum is None else self.sum + last

    def send(self, kernel: Kernel) -> None:
        """Start to bring the sum here."""
        self.add_up()
        if self.sum is not None:
            self.coming, self.sum = kernel.coming(self.sum), None

    def total(self) -> float:
        """Return the sum that was sent, and forget it; zero if there is none."""
        coming, self.coming = self.coming, None
        return 0.0 if coming is None else float(coming())


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
    unseen : Unseen
        Products elsewhere that were not looked at yet, see :meth:`check`.
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
    unseen: Unseen = field(default_factory=Unseen)

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
            Only their type and kernel matter, and whether they are sparse, may have gaps or have to be gathered.
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
        W_kept, centre = (W - shift[:, None], c - shift) if shift.any() else (W, c)
        # With a prior, where the H-step stops depends on Q: then it must be the same for dense and sparse samples.
        may_keep = not prior.any()
        # W - c 1' is not found before it is known to be needed: the first kernel of a GPU waits for all this.
        if may_keep and 2.0 * (centre @ centre) <= np.vdot(W_kept, W_kept) / W.shape[1]:
            W_centred, centre = W_kept, np.zeros_like(c)
        else:
            W_centred = W - c[:, None]
        offset = centre @ W_centred if centre.any() else None
        if offsets is not None:
            offset = (centre[:, None] + offsets).T @ W_centred
        is_plain = may_keep and not samples.is_sparse and not samples.allows_gaps
        is_plain = is_plain and (evidence is None or evidence.one_in == 1)
        at_once = load_pass(samples.kernel) if is_plain else None
        if at_once is not None and W.shape[1] > at_once.MAX_RANK:
            at_once = None
        return cls(shift, samples.dtype, offset, prior, sigma2, kernel, at_once, evidence, centre, W_centred, offsets)

    @cached_property
    def _in_type(self) -> tuple[Any, Any]:
        """W - c 1', shape (m, r), and the offset, if any: arrays of the kernel's kind, of the type of the data."""
        if self.at_once is not None:
            return self.at_once.load(self.W, self.offset, self.dtype)
        asarray, offset = self.kernel.asarray, self.offset
        W = asarray(np.ascontiguousarray(self.W, self.dtype))
        return W, None if offset is None else asarray(offset, self.dtype)

    def _factors(self, source_code: int) -> tuple[Any, Any]:
        """Return what products with the samples of a source are made of: W - c 1', and their offset, shape (r,)."""
        W, offset = self._in_type
        return W, offset if offset is None or self.offsets is None else offset[source_code]

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
        self._check(self.unseen.total())

    def send_products(self) -> None:
        """Start to bring the sum of products elsewhere here."""
        self.unseen.send(self.kernel)

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
        self.unseen.add_up()  # before there are others
        with np.errstate(over="ignore", invalid="ignore"):
            Bt: NDArray[Any] = self.kernel.products(Xt, *self._factors(source_code))
            if is_here(Bt):
                self._check(Bt.sum())
            else:  # to look at them would be to wait for them, and the next step is more urgent
                self.unseen.add(Bt)
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
        c = chunk.source_code
        noise = float(self.sigma2[c]) if self.evidence is None else self.evidence.noise(c, self.sigma2)
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

    def begin(self, source_code: int, *, norms: bool) -> Pass:
        """Return a pass at once over samples of a source."""
        assert self.at_once is not None
        noise = None if self.evidence is None else self.evidence.noise(source_code, self.sigma2)
        return self.at_once(*self._factors(source_code), lambda: self.Q, noise, norms=norms)

    def centre_of(self, source_code: int) -> Float:
        """Return the entries of samples of a source that add nothing to b, less the shift, shape (m,)."""
        return self.centre if self.offsets is None else self.centre + self.offsets[:, source_code]


def origin_of(W: Float, dtype: np.dtype[Any]) -> Float:
    """Return the mean of the columns of W, shape (m,), rounded to the type of the samples: a point amidst them."""
    return W.mean(axis=1).astype(dtype).astype(np.float64)
