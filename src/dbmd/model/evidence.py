"""Memberships integrated out instead of taken at their peak: what a pass needs for that.

If W, sigma and all memberships are maximised together, the memberships of a sample fit its noise, and nothing limits
the simplex of W once it contains the samples. The evidence, which is the likelihood of W and sigma with the memberships
integrated out, has its maximum at the truth. By Laplace's approximation the posterior of a sample's memberships is a
Gaussian on the face F of the simplex that its peak lies on, with a covariance S_F (:mod:`dbmd.kernels._covariance`). So
H H' becomes sum h h' + sum S_F, and whatever uses the statistics stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import dense_here, is_here, namespace, to_host
from dbmd.model.reduce import MORE, WIDE, ParallelMap, Piece, centred, principal_directions
from dbmd.model.statistics import Float

MANY_SAMPLES, MANY_COMPONENTS = 100_000, 12  # beyond both, covariances are computed for a part of the samples
ENOUGH_SAMPLES, MOST_FOR_ONE = 25_000, 16  # the part has so many; one stands for at most so many
FEW = 50  # samples: in a source with fewer, its own noise excess counts for less than that of all sources
ENOUGH_NUMBERS = 2_000_000  # stored entries of the samples that the noise excess is estimated from


@dataclass(frozen=True)
class Evidence:
    """How memberships are integrated out.

    Attributes
    ----------
    excess : tuple of float
        Noise excess of each source: the variance of its noise in the plane of W, relative to the mean over all
        directions. See :func:`noise_excess`.
    one_in : int
        Covariances are computed for one in so many samples, chosen by row number. More than one where there are too
        many faces to count samples face by face.
    """

    excess: tuple[float, ...]
    one_in: int = 1

    @classmethod
    def of(cls, excess: Iterable[float], n_samples: int, n_components: int) -> Evidence:
        """Return the evidence for n_samples; of very many, the covariances of 25,000 give H H' to 1e-3.

        Parameters
        ----------
        excess : iterable of float
            Noise excess of each source.
        n_samples, n_components : int
            Samples in the whole data, components.
        """
        is_much = n_samples > MANY_SAMPLES and n_components > MANY_COMPONENTS
        one_in = min(n_samples // ENOUGH_SAMPLES, MOST_FOR_ONE) if is_much else 1
        return cls(tuple(float(each) for each in excess), one_in)

    def counted(self, rows: NDArray[np.integer]) -> NDArray[np.bool_] | None:
        """Return which rows, by their numbers in the whole data, have a covariance computed, shape (n,); None: all."""
        if self.one_in == 1:
            return None
        return golden(rows) < 1.0 / self.one_in

    def counted_rows(self, rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """Return the positions of those rows, by their numbers in the whole data, that have a covariance computed."""
        return np.flatnonzero(golden(rows) < 1.0 / self.one_in)

    def noise(self, source_code: int, sigma2: Float) -> float:
        """Return the variance of the noise of a source in the plane of W, with noise levels of shape (n_sources,)."""
        return self.excess[source_code] * float(sigma2[source_code])

    def cost(self, source_code: int, S: Float, log_det: float, Q: Float, sigma2: float) -> float:
        """Return what the memberships of a source add to the objective, in addition to the expected squares.

        It is excess / 2 times the sum of the log-determinants, less tr(Q S) / (2 sigma^2): the expected squares exceed
        those of the peaks by tr(Q S).

        Parameters
        ----------
        source_code : int
            The source.
        S : array of shape (r, r)
            Sum of the covariances of its memberships.
        log_det : float
            Sum of the log-determinants, see :class:`dbmd.protocols.FaceCovariance`.
        Q : array of shape (r, r)
            Gram matrix of W.
        sigma2 : float
            Its noise level.
        """
        return 0.5 * self.excess[source_code] * log_det - 0.5 * float(np.vdot(Q, S)) / sigma2


def pooled(excess: Float, sigma2: Float) -> float:
    """Return one noise excess for all sources: the mean of theirs, shape (n_sources,), weighted by precision."""
    return float(np.average(excess, weights=1.0 / sigma2))


def noise_excess(
    Xt: Any, weights: Float, source_codes: NDArray[np.intp], n_sources: int, r: int, parallel_map: ParallelMap = map
) -> Float:
    """Return the noise excess of each source: noise in the plane of W over the mean of all directions, at least 1.

    The residuals of a model are larger along some directions than along others, and in the plane of the simplex at
    least as large as along the next principal directions. So the mean variance along the principal directions r to
    2r - 2 is compared with the mean along all directions from r on. Each source has its own excess: measurement noise
    is mostly white, and a noisy source has more of it. Directions are found from one half of the samples and variances
    from the other half. Otherwise even the leading directions of white noise would have too large a variance.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples, in any order that does not sort them. Dense ones may be of another kind than NumPy's.
    weights : array of shape (n,)
        Weight of each: the number of samples that it stands for, times its precision.
    source_codes : array of int of shape (n,)
        Their sources.
    n_sources, r : int
        Sources, components.
    parallel_map : callable
        As ``map``; it may run in threads.

    Returns
    -------
    array of shape (n_sources,)
        For a source of few samples it is near the excess of all.
    """
    n, m = Xt.shape
    # A part of the samples is enough; directions of wide samples take most of the time of a start.
    every = max(1, min((Xt.nnz if sparse.issparse(Xt) else n * m) // ENOUGH_NUMBERS, n // (100 * r)))
    position = golden(np.arange(n))
    halves = [np.flatnonzero((position >= first) & (position < first + 0.5 / every)) for first in (0.0, 0.5)]
    count = min(2 * r - 2, m, *(len(half) - 1 for half in halves))
    if count < r:  # no direction is left
        return np.ones(n_sources)
    along, rest, seen = np.zeros((3, n_sources))
    # Narrow samples may have a few features that are much larger than all others: there float32 is not enough.
    dtype = Xt.dtype if min(m, *map(len, halves)) > WIDE * (r + MORE) else np.float64
    parallel_map = parallel_map if is_here(Xt) else map  # other threads do not know where it is
    pieces = [*parallel_map(lambda half: centred(_rows(Xt, half).astype(dtype, copy=False), weights[half]), halves)]
    directions = [*parallel_map(lambda half: _leading(half, count, r), pieces)]
    for test, known, of_other in zip(halves, pieces, directions[::-1], strict=True):
        squares = np.square(np.concatenate([to_host(piece.scores(of_other)) for piece in known]), dtype=np.float64)
        norms = np.concatenate([to_host(piece.norms()) for piece in known])
        off = np.maximum(norms - squares[:, : r - 1].sum(axis=1), 0.0) / (m - r + 1)
        along += np.bincount(source_codes[test], weights[test] * squares[:, r - 1 :].mean(axis=1), n_sources)
        rest += np.bincount(source_codes[test], weights[test] * off, n_sources)
        seen += np.bincount(source_codes[test], minlength=n_sources)
    if not rest.sum() > 0.0:
        return np.ones(n_sources)
    of_all = along.sum() / rest.sum()
    own = np.divide(along, rest, out=np.full(n_sources, of_all), where=rest > 0.0)
    return np.maximum(1.0, (seen * own + FEW * of_all) / (seen + FEW))


def golden(rows: NDArray[np.integer]) -> Float:
    """Return multiples of the golden ratio modulo one, shape (n,): uniform, also where sources or classes alternate."""
    with np.errstate(over="ignore"):
        mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    found: Float = (mixed >> np.uint64(11)) * 2.0**-53  # type: ignore[assignment]
    return found


def _rows(Xt: Any, rows: NDArray[np.intp]) -> Any:
    """Return some of the samples, which may be an array of any kind."""
    return Xt[namespace(Xt).asarray(rows)]


def _leading(pieces: list[Piece], count: int, r: int) -> Any:
    """Return the leading principal directions of samples about their mean, shape (m, count), of any kind of array."""
    n, m = sum(len(piece.weights) for piece in pieces), len(pieces[0].mean)
    if min(n, m) > WIDE * (r + MORE):
        return principal_directions(pieces, count + MORE, 0)[:, :count]
    if m <= n:
        scatter = np.sum([to_host(piece.scattered(np.eye(m))) for piece in pieces], axis=0, dtype=np.float64)
        return np.asarray(np.linalg.eigh(scatter)[1][:, ::-1][:, :count])
    roots = [np.sqrt(to_host(piece.weights))[:, None] for piece in pieces]
    rests = [0.0 if piece.rest is None else piece.rest for piece in pieces]
    scaled = np.concatenate(
        [(dense_here(piece.Xt) - rest) * root for piece, rest, root in zip(pieces, rests, roots, strict=True)]
    )
    return np.asarray(np.linalg.svd(scaled, full_matrices=False)[2][:count].T)
