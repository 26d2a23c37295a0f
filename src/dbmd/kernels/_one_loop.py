"""A whole pass in one loop, for samples of few features and few components.

The samples that a fit starts from have a few dozen coordinates each, and there are few of them. With products of
matrices, chunk after chunk, most of the time would go into the calls around them, and threads would wait for each
other's Python. Here one call, which releases the GIL, does all that a pass does with some of the samples: memberships
(:mod:`dbmd.kernels._faces`), sums, and covariances (:mod:`dbmd.kernels._covariance`). Samples are taken in runs that
stay in the first-level cache from one step to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._covariance import add_faces, count_faces
from dbmd.kernels._faces import MAX_RANK, maps_of_faces, try_faces
from dbmd.kernels._rows import LANES, add_gram_tile, combine, jit, padded
from dbmd.kernels._tolerance import tolerances
from dbmd.model.statistics import Float

__all__ = ["OneLoop"]

RUN = 64  # samples that are worked on at a time


class OneLoop:
    """A pass at one basis, over samples of few features.

    Parameters
    ----------
    W : array of shape (m, r)
        The basis.
    offset : array of shape (r,)
        What is subtracted from W'x.
    Q : array of shape (r, r)
        W'W.
    """

    MAX_RANK = MAX_RANK  # components that there may be

    def __init__(self, W: Float, offset: Float, Q: Float) -> None:
        (m, r), (scale, _, _) = W.shape, tolerances(Q, np.zeros(len(Q)))
        self._Q, self._scaled, self._unit = Q, np.ascontiguousarray(Q / scale), 1.0 / scale
        self._m, self._first, width = m, int(padded(m)), int(padded(r))
        self._wide = self._first + width
        basis = np.zeros((m + 1, width))
        basis[:m, :r], basis[m, :r] = W, -offset
        self._basis = basis.reshape(-1)

    @property
    def size(self) -> int:
        """How many numbers the sums are."""
        return self._wide**2 + self._Q.size + 1

    def parts_of(self, sums: Float) -> tuple[Float, Float, Float, float]:
        """Return what sums, shape (size,), are.

        Returns
        -------
        XHt : array of shape (m, r)
            Sum of x h'.
        HHt : array of shape (r, r)
            Sum of h h'.
        S : array of shape (r, r)
            Sum of the covariances of the memberships.
        log_det : float
            Sum of their gains in log-determinant, see :class:`dbmd.protocols.FaceCovariance`.
        """
        r, squares = len(self._Q), sums[: self._wide**2].reshape(self._wide, self._wide)
        own = slice(self._first, self._first + r)
        return squares[: self._m, own], squares[own, own], sums[-1 - r * r : -1].reshape(r, r), float(sums[-1])

    def over(
        self, Xt: Float, roots: Float, Ht: Float, noise: float | None, out: Float, *, warm: bool
    ) -> NDArray[np.intp]:
        """Write memberships of samples to Ht, and sums over the samples to ``out``.

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            The samples.
        roots : array of shape (n,)
            Square root of how often each counts.
        Ht : array of shape (n, r), float64, contiguous, changed in place
            The memberships: for b = W'x - offset, what minimises 1/2 h'Qh - b'h on the simplex.
        noise : float, optional
            Variance of the noise in the plane of W; None: covariances are not needed.
        out : array of shape (size,), zeros, changed in place
            The sums.
        warm : bool
            Whether those in Ht are where to start.

        Returns
        -------
        array of int
            The positions of the samples whose memberships were not found, which are in none of the sums.
        """
        known, tableaux, maps = maps_of_faces.of(self._scaled, self._unit)
        counts, left = np.zeros(len(known)), np.empty(len(Xt), np.intp)
        over_noise = np.zeros((0, 0)) if noise is None else self._Q / noise
        count = _one_loop(
            Xt.reshape(-1),
            self._basis,
            self._scaled,
            self._unit,
            roots,
            warm,
            known,
            tableaux,
            maps,
            Ht,
            over_noise,
            counts,
            out,
            left,
        )
        return left[:count]


@jit
def _one_loop(
    Xt: Any,
    basis: Any,
    Q: Any,
    unit: Any,
    roots: Any,
    warm: Any,
    known: Any,
    tableaux: Any,
    maps: Any,
    Ht: Any,
    over_noise: Any,
    counts: Any,
    out: Any,
    left: Any,
) -> Any:
    """Write memberships and sums; return the number of samples whose memberships were not found.

    Parameters
    ----------
    Xt : array of shape (n * m,)
        Samples, one after the other.
    basis : array of shape ((m + 1) * padded(r),)
        Rows of W, and minus the offset.
    Q, unit, warm, known, tableaux, maps
        As in :func:`dbmd.kernels._faces.try_faces`.
    roots : array of shape (n,)
        Square root of how often each sample counts.
    Ht : array of shape (n, r), changed in place
        Memberships.
    over_noise : array of shape (r, r) or (0, 0)
        W'W / noise; empty if covariances are not needed.
    counts : array of shape (2^r,), zeros, changed in place
        How many samples are on each face.
    out : array of shape (wide^2 + r^2 + 1,), zeros, changed in place
        With z = (x, h), both padded, first the sum of z z', of which only the columns of h are there; then the sum of
        the covariances, and that of their gains in log-determinant.
    left : array of int of shape (n,), changed in place
        The first entries are the samples whose memberships were not found. They are in none of the sums.
    """
    (n, r), width = Ht.shape, maps.shape[2]
    m = len(basis) // width - 1
    first = padded(m)
    wide = first + width
    Bt = np.zeros(RUN * r + width)
    Zt = np.zeros(RUN * wide)
    numbers, missed, counted = np.arange(RUN), np.empty(RUN, np.intp), np.empty(RUN)
    count = 0
    for start in range(0, n, RUN):
        rows = min(RUN, n - start)
        for i in range(rows):
            for c in range(0, width, LANES):  # what is written beyond a row is overwritten by the next one
                combine(Bt, i * r + c, Xt, (start + i) * m, m, basis, c, width)
        own = Ht[start : start + rows]
        n_missed = try_faces(Q, Bt, own, warm, own, unit, known, tableaux, maps, missed)
        for i in range(rows):
            root = roots[start + i]
            counted[i] = root * root
            for j in range(m):
                Zt[i * wide + j] = root * Xt[(start + i) * m + j]
            for k in range(r):
                Zt[i * wide + first + k] = root * own[i, k]
        for l in range(n_missed):
            i = missed[l]
            left[count] = start + i
            count += 1
            counted[i] = 0.0
            Zt[i * wide : (i + 1) * wide] = 0.0
        for k in range(0, wide, LANES):
            for c in range(first, wide, LANES):
                add_gram_tile(out, out, 1.0, Zt, numbers, 0, rows, wide, k, c)
        count_faces(own, counted[:rows], counts)
    if len(over_noise):
        S = out[wide * wide : wide * wide + r * r].reshape(r, r)
        out[wide * wide + r * r] = add_faces(counts, over_noise, S)
    return count
