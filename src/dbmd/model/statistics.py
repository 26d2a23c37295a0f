"""Statistics that the W-step, the noise step and the objective need of the samples. They add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, is_sparse, namespace, with_data

Float = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of samples with memberships: sums over the samples, so they add.

    They are taken about an origin, a vector amidst the samples that the driver chose for all nodes (None: zero). About
    zero, sums of samples far from it would be large, and their differences, which matter, small. Memberships sum to
    one, so that another origin only shifts W.

    Attributes
    ----------
    XHt : array of shape (m, r)
        (X - origin) H^T.
    HHt : array of shape (r, r)
        H H^T; with evidence the expected one, which includes the covariance of the memberships.
    sq_norm : float
        ||X - origin||^2.
    n : int or float
        Number of samples; where they are weighted, the sum of the weights.
    h_cost : float
        What the memberships add to the objective in addition to the misfit: the Dirichlet term
        -sum (alpha0 - 1) ln h, or, with evidence, the cost of integrating them out
        (:class:`~dbmd.model.evidence.Evidence`).
    """

    XHt: Float
    HHt: Float
    sq_norm: float
    n: float
    h_cost: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.XHt + other.XHt,
            self.HHt + other.HHt,
            self.sq_norm + other.sq_norm,
            self.n + other.n,
            self.h_cost + other.h_cost,
        )

    @classmethod
    def of(cls, sums: SampleSums, rest: Float, h_cost: float = 0.0) -> Statistics:
        """Return the statistics of samples about an origin from sums over them.

        Parameters
        ----------
        sums : SampleSums
            Of the samples, less a shift.
        rest : array of shape (m,)
            The origin less the shift: what is still to be subtracted.
        h_cost : float
            What the memberships add to the objective in addition to the misfit.
        """
        XHt, sq_norm = sums.XHt, float(sums.squares.sum())
        if rest.any():
            # By the sums of the memberships: those of a sample are one only up to the rounding of their type.
            # In the order in memory that XHt has: with another one, this takes ten times as long.
            of_rest = np.multiply(rest[:, None], sums.sizes, out=np.empty_like(XHt))
            XHt = np.subtract(XHt, of_rest, out=of_rest)
            sq_norm += float(rest @ (sums.n * rest - 2.0 * sums.totals))
        return cls(XHt, sums.HHt, sq_norm, sums.n, h_cost)

    def with_covariance(self, S: Float, h_cost: float) -> Statistics:
        """Return the statistics with the covariance of the memberships, shape (r, r), added to HHt, and its cost."""
        return replace(self, HHt=self.HHt + S, h_cost=self.h_cost + h_cost)

    def with_gaps(self, n_gaps: float, sigma2: float) -> Statistics:
        """Return the statistics where so many entries, which were filled with W h, are missing.

        A missing entry is W h plus noise of variance sigma^2, which is to be expected in its square, too. In the
        objective a squared residual sigma^2 counts 1/2 + ln sigma, and a missing entry must not count: this is taken
        off. At another W or sigma it counts more than that, so the objective is not above what these statistics give.

        Parameters
        ----------
        n_gaps : float
            Number of missing entries, counted by the weights of their samples.
        sigma2 : float
            The noise level that the memberships were found with.
        """
        cost = 0.5 * n_gaps * (1.0 + np.log(sigma2))
        return replace(self, sq_norm=self.sq_norm + n_gaps * sigma2, h_cost=self.h_cost - cost)

    def with_uncertain_gaps(self, WS: Float, W: Float, sigma2: float) -> Statistics:
        """Return the statistics with what the covariance of the memberships adds to missing entries.

        A missing entry x_j = w_j'h varies with h, which adds w_j'S to x_j h' and w_j'S w_j to x_j^2. Then its squared
        residual has no part in tr(Q S), and what was taken off the cost for it is added again.

        Parameters
        ----------
        WS : array of shape (m, r)
            Row j: sum of w_j'S over the samples whose feature j is missing.
        W : array of shape (m, r)
            The basis that the memberships were found with, about any point: rows of S sum to zero.
        sigma2 : float
            The noise level that they were found with.
        """
        added = float(np.vdot(W, WS))
        return replace(
            self,
            XHt=self.XHt + WS,
            sq_norm=self.sq_norm + added,
            h_cost=self.h_cost + 0.5 * added / sigma2,
        )

    @property
    def total(self) -> Float:
        """The sum of the samples, less the origin, shape (m,): memberships sum to one."""
        return np.asarray(self.XHt.sum(axis=1))

    @property
    def sizes(self) -> Float:
        """Soft sizes of the clusters, sum_j h_kj, shape (r,)."""
        return np.asarray(self.HHt.sum(axis=1))

    def less(self, offset: Float) -> Statistics:
        """Return the statistics of the samples minus an offset, shape (m,): exact, because memberships sum to one."""
        XHt = self.XHt - np.outer(offset, self.sizes)
        sq_norm = self.sq_norm - float(offset @ (self.XHt + XHt).sum(axis=1))
        return replace(self, XHt=XHt, sq_norm=max(0.0, sq_norm))

    def squares(self, W: Float, origin: Float | None = None) -> float:
        """Return ||X - W H||^2, at least 0; with evidence its expectation."""
        V = W if origin is None else W - origin[:, None]
        value = self.sq_norm - 2.0 * np.vdot(V, self.XHt) + np.vdot(V.T @ V, self.HHt)
        return max(0.0, float(value))

    def summary(self, W: Float, origin: Float | None = None, offset: Float | None = None) -> Summary:
        """Return the few numbers that the driver needs if the statistics stay at the nodes.

        Parameters
        ----------
        W : array of shape (m, r)
            The basis.
        origin : array of shape (m,), optional
            The point that the statistics are taken about.
        offset : array of shape (m,), optional
            The offset of the source.
        """
        own = self if offset is None else self.less(offset)
        return Summary(own.squares(W, origin), self.n, self.h_cost, self.HHt)


class SampleSums(NamedTuple):
    """Sums over samples and their memberships, each sample counted by its weight, about zero.

    Attributes
    ----------
    XHt : array of shape (m, r), float64
        X H^T.
    HHt : array of shape (r, r), float64
        H H^T.
    sizes : array of shape (r,), float64
        Sum of the memberships.
    n : float
        Number of samples, or the sum of their weights.
    totals : array of shape (m,), float64
        Sum of the samples; zeros if norms were not asked for.
    squares : array of shape (m,), float64
        Sum of their squares, feature by feature; zeros if norms were not asked for.
    """

    XHt: Float
    HHt: Float
    sizes: Float
    n: float
    totals: Float
    squares: Float


@dataclass(frozen=True)
class Summary:
    """What the noise step and the objective need to know of a source. It adds.

    Attributes
    ----------
    squares : float
        ||X - W H||^2 at a given W; with evidence its expectation.
    n : int or float
        Number of samples, or sum of their weights.
    h_cost : float
        What the memberships add to the objective in addition to the misfit.
    HHt : array of shape (r, r)
        H H^T; with evidence its expectation.
    """

    squares: float
    n: float
    h_cost: float
    HHt: Float

    @property
    def sizes(self) -> Float:
        """Soft sizes of the clusters, sum_j h_kj, shape (r,): the columns of H sum to one."""
        return self.HHt.sum(axis=1)

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.squares + other.squares,
            self.n + other.n,
            self.h_cost + other.h_cost,
            self.HHt + other.HHt,
        )


class PerSource(dict[int, T], Generic[T]):
    """Something that adds, for each source that occurs; keys are source codes."""

    def __add__(self, other: PerSource[T]) -> PerSource[T]:
        total = PerSource(self)
        for source, value in other.items():
            total[source] = total[source] + value if source in total else value  # type: ignore[operator]
        return total

    def map(self, function: Callable[[T], Any]) -> PerSource[Any]:
        """Return ``function(value)`` for each source."""
        return PerSource({source: function(value) for source, value in self.items()})


@dataclass(frozen=True)
class Quadratic:
    """The smooth part of problem (P), or the term of a node in it: 1/2 <W A, W> - <B, W>. It adds.

    With offsets, W stands for the components and the offsets side by side (:mod:`dbmd.model.parts`), and k columns for
    r components and n_sources offsets: an offset is a component in which each sample of its source has membership one.

    Attributes
    ----------
    A : array of shape (k, k)
        sum_c HHt_c / sigma_c^2.
    B : array of shape (m, k)
        sum_c X_c H_c^T / sigma_c^2.
    """

    A: Float
    B: Float

    @classmethod
    def of(
        cls,
        stats: PerSource[Statistics],
        sigma2: Float | Mapping[int, float],
        origin: Float | None = None,
        ridge: Float | None = None,
    ) -> Quadratic:
        """Return the sum over the sources, each weighted by its precision 1 / sigma_c^2, with statistics about zero.

        Parameters
        ----------
        stats : PerSource[Statistics]
            Of each source.
        sigma2 : array of shape (n_sources,), or mapping
            The noise levels.
        origin : array of shape (m,), optional
            The point that the statistics are taken about.
        ridge : array of shape (n_sources,), optional
            With offsets: for each source the precision of the prior of its offset, divided by the number of its
            samples in the whole data, so that the terms of the nodes add.
        """
        weighted = [(source, 1.0 / sigma2[source], s) for source, s in sorted(stats.items())]
        m, r = weighted[0][2].XHt.shape
        k = r if ridge is None else r + len(ridge)
        A, B = np.zeros((k, k)), np.zeros((m, k))
        for source, weight, s in weighted:
            A[:r, :r] += weight * s.HHt
            B[:, :r] += weight * s.XHt
            if origin is not None:
                B[:, :r] += weight * np.outer(origin, s.HHt.sum(axis=1))
            if ridge is not None:
                A[:r, r + source] = A[r + source, :r] = weight * s.sizes
                A[r + source, r + source] = (weight + ridge[source]) * s.n
                B[:, r + source] = weight * (s.total if origin is None else s.total + s.n * origin)
        return cls(A, B)

    @classmethod
    def zero(cls, m: int, r: int) -> Quadratic:
        """Return the term of a node without samples."""
        return cls(np.zeros((r, r)), np.zeros((m, r)))

    def __add__(self, other: Quadratic) -> Quadratic:
        return Quadratic(self.A + other.A, self.B + other.B)

    def gradient(self, W: Float) -> Float:
        """Return W A - B, shape (m, r)."""
        return W @ self.A - self.B

    def value(self, W: Float) -> float:
        """Return 1/2 <W A, W> - <B, W>."""
        return float(0.5 * np.vdot(W @ self.A, W) - np.vdot(self.B, W))

    @property
    def precision(self) -> float:
        """sum_c n_c / sigma_c^2: the sum over A, for the columns of H sum to one."""
        return float(self.A.sum())


def middle(stats: PerSource[Statistics]) -> Float:
    """Return the mean of all samples, less the origin, shape (m,): the columns of H sum to one."""
    return np.sum([s.XHt.sum(axis=1) for s in stats.values()], axis=0) / sum(s.n for s in stats.values())


def gram(per_source: Mapping[int, Summary | Statistics], sigma2: Float, ridge: Float | None = None) -> Float:
    """Return A = sum_c HHt_c / sigma_c^2, shape (k, k): the curvature of (P), as in :meth:`Quadratic.of`."""
    components = np.asarray(sum(s.HHt / sigma2[c] for c, s in sorted(per_source.items())))
    if ridge is None:
        return components
    r = len(components)
    A = np.zeros((r + len(ridge), r + len(ridge)))
    A[:r, :r] = components
    for c, s in per_source.items():
        A[:r, r + c] = A[r + c, :r] = s.sizes / sigma2[c]
        A[r + c, r + c] = (1.0 / sigma2[c] + ridge[c]) * s.n
    return A


def squared_norms(Xt: Any) -> NDArray[Any]:
    """Return ||x||^2 for every row of a dense, sparse or low-rank array, shape (rows,)."""
    if isinstance(Xt, np.ndarray):
        return np.einsum("ij,ij->i", Xt, Xt)
    if hasattr(Xt, "squared_norms"):
        return np.asarray(Xt.squared_norms())
    if not is_here(Xt):  # where a product with ones is much faster than sums over rows
        if is_sparse(Xt):
            return with_data(Xt, np.square(Xt.data)).sum(axis=1).ravel()
        return np.square(Xt) @ namespace(Xt).ones(Xt.shape[1], Xt.dtype)
    if Xt.format != "csr" or not Xt.has_canonical_format:  # duplicate entries must be added first
        return np.asarray(Xt.multiply(Xt).sum(axis=1)).ravel()
    # Ten times as fast: sums of consecutive numbers, for each row that has any.
    found, filled = np.zeros(Xt.shape[0], Xt.dtype), np.flatnonzero(np.diff(Xt.indptr))
    if len(filled):
        found[filled] = np.add.reduceat(np.square(Xt.data[: Xt.indptr[-1]]), Xt.indptr[filled])
    return found
