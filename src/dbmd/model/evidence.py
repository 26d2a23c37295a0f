"""Memberships integrated out instead of taken at their peak: what the pass needs to know for it.

Where W, sigma and all memberships are maximised together, each sample's memberships fit its noise, and nothing holds
the simplex of W once it contains the samples. The evidence, the likelihood of W and sigma with the memberships
integrated out, has its maximum at the truth. By Laplace's approximation the posterior of a sample's memberships is a
Gaussian on the face F of the simplex that its peak lies on, with a covariance S_F (:mod:`dbmd.kernels._covariance`). So
H H' becomes sum h h' + sum S_F, and everything above the statistics stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.model.reduce import MORE, Spread, can_be_reduced, centred, principal_directions
from dbmd.model.statistics import Float

MANY_SAMPLES, MANY_COMPONENTS = 100_000, 12  # beyond both, covariances are computed for one sample in four
ONE_IN = 4
FEW = 50  # samples: of a source with fewer, its own excess counts for less than that of all
ENOUGH_NUMBERS = 2_000_000  # stored ones, in samples that the excess of noise is estimated from


@dataclass(frozen=True)
class Evidence:
    """How memberships are integrated out.

    Attributes
    ----------
    excess : tuple of float
        For each source the variance of its noise in the plane of W, relative to its mean over all directions. See
        :func:`noise_excess`.
    one_in : int
        Where faces are too many to be counted, covariances are computed for one in so many samples, by row number.
    """

    excess: tuple[float, ...]
    one_in: int = 1

    @classmethod
    def of(cls, excess: Iterable[float], n_samples: int, n_components: int) -> Evidence:
        """Choose how many covariances to compute; of one sample in four H H' is known to 1e-3 if there are so many."""
        is_much = n_samples > MANY_SAMPLES and n_components > MANY_COMPONENTS
        return cls(tuple(float(each) for each in excess), ONE_IN if is_much else 1)

    def counted(self, rows: NDArray[np.integer]) -> NDArray[np.bool_] | None:
        """Say which rows, by their numbers in the whole data, have their covariance computed; None: all."""
        if self.one_in == 1:
            return None
        return _golden(rows) < 1.0 / self.one_in

    def cost(self, source: int, S: Float, log_det: float, Q: Float, sigma2: float) -> float:
        """Return what the memberships of a source add to the objective, beside the expected squares.

        With the peak's squares it would be excess / 2 times the logarithm of the determinants; the expected squares
        have tr(Q S) more.
        """
        return 0.5 * self.excess[source] * log_det - 0.5 * float(np.vdot(Q, S)) / sigma2


def pooled(excess: Float, sigma2: Float) -> float:
    """Return the excess of noise of all sources, shape (n_sources,), as one: their mean, weighted by precision."""
    return float(np.average(excess, weights=1.0 / sigma2))


def noise_excess(
    Xt: Any, weights: Float, source: NDArray[np.intp], n_sources: int, r: int, spread: Spread = map
) -> Float:
    """Return how much larger the noise is in the plane of W than on average over all directions, at least 1.

    What a model leaves unexplained is larger along some directions, and in the plane of the simplex at least as large
    as along the next principal directions. So the mean variance along directions r to 2r - 2 is compared with that
    along all from r on, for each source: noise of measurement is mostly white, and a noisy source has more of it.
    Directions come from one half of the samples and variances from the other: within the same samples, the leading
    directions of white noise, too, would have more than their part.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples, in any order that does not sort them.
    weights : array of shape (n,)
        How much each counts: the number that it stands for, times its precision.
    source : array of int of shape (n,)
        Their sources.
    n_sources, r : int
        Sources, components.
    spread : callable
        Takes a function to the pieces of the samples.

    Returns
    -------
    array of shape (n_sources,)
        Of a source of few samples it is near to that of all.
    """
    n, m = Xt.shape
    # Every so many samples are enough to tell it, and of wide ones directions are what a start spends its time on.
    every = max(1, min((Xt.nnz if sparse.issparse(Xt) else n * m) // ENOUGH_NUMBERS, n // (100 * r)))
    place = _golden(np.arange(n))
    halves = [np.flatnonzero((place >= first) & (place < first + 0.5 / every)) for first in (0.0, 0.5)]
    count = min(2 * r - 2, m, *(len(half) - 1 for half in halves))
    if count < r:  # no direction is left over
        return np.ones(n_sources)
    along, rest, seen = np.zeros((3, n_sources))
    for train, test in (halves, halves[::-1]):
        directions = _leading(Xt[train], weights[train], count, r, spread)
        pieces = centred(Xt[test], weights[test])
        squares = np.concatenate([*spread(lambda piece: np.square(piece.scores(directions)), pieces)])  # noqa: B023
        norms = np.concatenate([*spread(lambda piece: piece.norms(), pieces)])
        off = np.maximum(norms - squares[:, : r - 1].sum(axis=1), 0.0) / (m - r + 1)
        along += np.bincount(source[test], weights[test] * squares[:, r - 1 :].mean(axis=1), n_sources)
        rest += np.bincount(source[test], weights[test] * off, n_sources)
        seen += np.bincount(source[test], minlength=n_sources)
    if not rest.sum() > 0.0:
        return np.ones(n_sources)
    of_all = along.sum() / rest.sum()
    own = np.divide(along, rest, out=np.full(n_sources, of_all), where=rest > 0.0)
    return np.maximum(1.0, (seen * own + FEW * of_all) / (seen + FEW))


def _golden(rows: NDArray[np.integer]) -> Float:
    """Return multiples of the golden ratio, modulo one: spread evenly, also where sources or classes alternate."""
    with np.errstate(over="ignore"):
        mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53, np.float64)


def _leading(Xt: Any, weights: Float, count: int, r: int, spread: Spread) -> Float:
    """Return the leading principal directions of samples, shape (m, count)."""
    n, m = Xt.shape
    pieces = centred(Xt, weights)
    if can_be_reduced(Xt, r):
        return principal_directions(pieces, count + MORE, 0, spread)[:, :count]
    if m <= n:
        scatter = np.sum([*spread(lambda piece: piece.scattered(np.eye(m)), pieces)], axis=0)
        return np.asarray(np.linalg.eigh(scatter)[1][:, ::-1][:, :count])
    dense = np.asarray(Xt.toarray() if sparse.issparse(Xt) else Xt, np.float64)
    share = weights / weights.sum()
    scaled = (dense - share @ dense) * np.sqrt(share)[:, None]
    return np.asarray(np.linalg.svd(scaled, full_matrices=False)[2][:count].T)
