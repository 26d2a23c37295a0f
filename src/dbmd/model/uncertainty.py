"""How uncertain W is, from the statistics of the last pass.

The error of W has two parts. Out of the plane of W, noise averages out as in a regression on known memberships: with
h h' summed over the peaks of each source, and tau^2 the mean square of the residuals of a feature there,

    A = sum_c H_c H_c' / sigma_c^2
    variance of w_jk = sum_c tau_jc^2 / sigma_c^4 (A^-1 H_c H_c' A^-1)_kk

That memberships are not known costs nothing here: what their covariance adds to H H' it takes off again, because the
peaks follow the errors of W. Offsets of sources are columns of A as they are in (P). Within the plane it is otherwise
(:mod:`dbmd.model.w_error`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbmd.model.parts import Parts
from dbmd.model.statistics import Float, PerSource, SampleSums, Statistics, gram

FEW = 20  # samples: in a source with fewer, a feature's noise is taken to be nearer to that of all features


@dataclass(frozen=True)
class Squares:
    """Sums over samples that only the uncertainty of W needs. They add.

    Attributes
    ----------
    scatter : array of shape (r, r)
        Sum of h h' at the peaks.
    squares : array of shape (m,)
        Sum of the squares of the entries, less an origin, with gaps filled.
    gaps : array of shape (m,)
        Number of gaps.
    """

    scatter: Float
    squares: Float
    gaps: Float

    def __add__(self, other: Squares) -> Squares:
        return Squares(self.scatter + other.scatter, self.squares + other.squares, self.gaps + other.gaps)

    @classmethod
    def of(cls, sums: SampleSums, rest: Float, gaps: Float) -> Squares:
        """Return them about an origin from sums over samples less a shift, with gaps filled.

        Parameters
        ----------
        sums : SampleSums
            With norms.
        rest : array of shape (m,)
            The origin less the shift.
        gaps : array of shape (m,)
            Number of gaps.
        """
        return cls(sums.HHt, sums.squares - rest * (2.0 * sums.totals - sums.n * rest), gaps)


@dataclass(frozen=True)
class Uncertainty:
    """What is kept of a fit to say how uncertain its components are, and with them the memberships.

    Attributes
    ----------
    apart : array of shape (r, m)
        Variance of the components out of their plane, in squared units of the scaled data; zero for known ones.
    moments : array of shape (n_patterns, n_patterns)
        Mean of h h' over all samples, expected given their uncertainty, with the dark component.
    n : array of shape (n_sources,)
        Number of samples of each source, or sum of their weights.
    """

    apart: Float
    moments: Float
    n: Float

    def reordered(self, order: NDArray[np.intp]) -> Uncertainty:
        """Return the same with components in another order; the dark one stays the last."""
        all_of_them = np.concatenate([order, np.arange(len(order), len(self.moments))])
        return Uncertainty(self.apart[order], self.moments[np.ix_(all_of_them, all_of_them)], self.n)


def uncertainty(
    stats: PerSource[Statistics],
    sums: PerSource[Squares],
    V: Float,
    *,
    parts: Parts,
    sigma2: Float,
    origin: Float,
    ridge: Float | None = None,
) -> Uncertainty | None:
    """Return how uncertain components are; None if numbers are so extreme that it cannot be computed.

    Parameters
    ----------
    stats : PerSource[Statistics]
        Of the last pass, with the covariances of the memberships.
    sums : PerSource[Squares]
        Of the same pass.
    V : array of shape (m, n_columns)
        The components, and the offsets of sources if they have any.
    parts : Parts
        What the columns of V are.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    origin : array of shape (m,)
        The point that both are taken about.
    ridge : array of shape (n_sources,), optional
        With offsets, see :meth:`dbmd.model.statistics.Quadratic.of`.
    """
    W, m = parts.W(V), len(V)
    r, k = parts.n_patterns, parts.n_columns
    n = np.zeros(len(sigma2))
    n[[*stats]] = [s.n for s in stats.values()]
    moments = np.asarray(sum(s.HHt for _, s in sorted(stats.items()))) / n.sum()
    at_peaks = PerSource({c: Statistics(s.XHt, sums[c].scatter, 0.0, s.n, 0.0) for c, s in stats.items()})
    # In units of the largest noise level: squares of levels may leave the range of floats.
    unit = float(sigma2.max())
    relative = sigma2 / unit
    A, free = gram(at_peaks, relative, None if ridge is None else ridge * unit), parts.is_free
    inverse = np.zeros((k, k))
    inverse[np.ix_(free, free)] = np.linalg.pinv(A[np.ix_(free, free)], rcond=1e-12, hermitian=True)
    variance = np.zeros((parts.n_components, m))
    for c, s in sorted(stats.items()):
        own = np.zeros((k, r + 1))  # columns of V in which samples of the source have memberships
        own[:r, :r] = np.eye(r)
        scatter = np.zeros((r + 1, r + 1))
        scatter[:r, :r] = sums[c].scatter
        if parts.n_offsets:
            own[r + c, r] = 1.0
            scatter[:r, r] = scatter[r, :r] = scatter[:r, :r].sum(axis=1)
            scatter[r, r] = s.n
        to_W = inverse[: parts.n_components] @ own
        factor = np.einsum("ki,ij,kj->k", to_W, scatter, to_W) / relative[c] ** 2
        noise = _residuals(s, sums[c], W, parts.offset(V, c), origin, sigma2[c])
        variance += np.outer(np.maximum(factor, 0.0), noise)
    apart = variance * (1.0 - _leverage(W))
    return Uncertainty(apart, moments, n) if np.isfinite(apart).all() else None


def _residuals(s: Statistics, sums: Squares, W: Float, offset: Float | None, origin: Float, sigma2: float) -> Float:
    """Return the mean square of the residuals of each feature in a source, shape (m,), as noise of a whole sample.

    Where entries are missing, those that are there tell less of W: their noise is counted that much larger.
    """
    about, XHt, squares = W - origin[:, None], s.XHt, sums.squares
    if offset is not None:
        squares = squares - 2.0 * offset * s.total + s.n * offset**2
        XHt = XHt - np.outer(offset, s.sizes)
    expected = squares - 2.0 * (about * XHt).sum(axis=1) + ((about @ s.HHt) * about).sum(axis=1)
    there = np.maximum(s.n - sums.gaps, 1e-3 * s.n)
    tau2 = (np.maximum(expected, 0.0) + FEW * sigma2) / (there + FEW)
    return np.asarray(tau2 * (s.n / there))


def _leverage(W: Float) -> Float:
    """Return which part of the noise of each feature lies in the plane of W, shape (m,)."""
    U, sizes, _ = np.linalg.svd(W - W.mean(axis=1, keepdims=True), full_matrices=False)
    return np.minimum(np.square(U[:, sizes > 1e-10 * max(float(sizes[0]), 1e-300)]).sum(axis=1), 1.0)
