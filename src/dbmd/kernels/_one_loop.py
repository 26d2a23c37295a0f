"""A whole pass in one loop, for samples of few features and few components.

The samples that a fit starts from have a few dozen coordinates each, and there are few of them. With products of
matrices, chunk after chunk, most of the time would go into the calls around them, and threads would wait for each
other's Python. Here one call, which releases the GIL, does all that a pass does with a piece of the samples:
memberships, sums, and covariances (:mod:`dbmd.kernels._covariance`). All that the calls need is laid out before.

Memberships are searched face by face, as in :mod:`dbmd.kernels._faces`. But there are hardly more samples than faces,
and a thousand maps would not stay in the cache. So samples are sorted by the faces that they are to try, the map of a
face is found and used for all of its samples, and those for which it was the wrong one are sorted again. Faces next to
each other have their last components in common, and with them most of what leads to their maps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dbmd.kernels._covariance import add_faces
from dbmd.kernels._faces import LEAST, MAX_RANK, POSITIVE, SLACK, TRIES, exchange, map_of_corner
from dbmd.kernels._rows import LANES, add_gram_tile, below, combine, jit, padded
from dbmd.kernels._tolerance import tolerances
from dbmd.model.statistics import Float
from dbmd.protocols import LoopSums

__all__ = ["OneLoop"]

RUN = 64  # samples that are worked on at a time
SORTED_BEFORE = (1, 2, 3, 5)  # passes before which samples are sorted by their faces, so that pieces have few in common
FEW = 8  # samples of a piece for each face that there may be: with more of them, their faces cost little anyway


class OneLoop:
    """Passes over samples of one source: see :class:`dbmd.protocols.OneLoop`."""

    MAX_RANK = MAX_RANK  # components that there may be

    def __init__(self, Xt: Float, weights: Float, r: int, n_pieces: int) -> None:
        n, m = Xt.shape
        self.Xt, self.weights, self.Ht = Xt, weights, np.empty((n, r))
        self._first, self._wide = int(padded(m)), int(padded(m) + padded(r))
        self.order, self._faces, self._n_passes = np.arange(n), np.full(n, (1 << r) - 1), 0
        edges = np.linspace(0, n, n_pieces + 1).astype(int)
        self._counts, self._sums = np.empty((n_pieces, 1 << r)), np.empty((n_pieces, self._wide**2 + r * r + 1))
        # Once, as for the sums: new memory for each call would take longer than the products that it is for.
        Bt = np.empty((n, int(padded(r))))
        roots, in_order = np.sqrt(weights), (self.order, Bt, self.Ht, self._faces)
        self._pieces = [
            (Xt, roots, *(array[i:j] for array in in_order), counts, sums)
            for (i, j), counts, sums in zip(pairwise(edges.tolist()), self._counts, self._sums, strict=True)
        ]

    def prepare(self, W: Float, offset: Float, Q: Float, noise: float | None) -> list[Callable[[], None]]:
        """Return what to call, each once, in any order or side by side, for a pass at W."""
        if self._n_passes in SORTED_BEFORE and len(self.Xt) < FEW * self._counts.size:
            # By radix: there are at most 12 bits. Samples stay where they are: to copy them would take much longer.
            by_face = np.argsort(self._faces.astype(np.uint16), kind="stable")
            self.order[:], self._faces[:] = self.order[by_face], self._faces[by_face]
        (m, r), (scale, _, _) = W.shape, tolerances(Q, np.zeros(len(Q)))
        basis = np.zeros((m + 1, self._wide - self._first))
        basis[:m, :r], basis[m, :r] = W / scale, -offset / scale
        over_noise = np.zeros((0, 0)) if noise is None else Q / noise
        at_W = basis.reshape(-1), np.ascontiguousarray(Q / scale), over_noise
        self._counts[:], self._sums[:] = 0.0, 0.0
        self._n_passes += 1
        return [partial(_one_loop, *at_W, *piece) for piece in self._pieces]

    def total(self) -> LoopSums:
        """Return what the last pass has found."""
        sums, r = self._sums.sum(axis=0), self.Ht.shape[1]
        squares = sums[: self._wide**2].reshape(self._wide, self._wide)
        m, own = self.Xt.shape[1], slice(self._first, self._first + r)
        S, log_det = sums[self._wide**2 : -1].reshape(r, r), float(sums[-1])
        left = np.flatnonzero(np.isnan(self.Ht[:, 0]))
        return LoopSums(squares[:m, own], squares[own, own], S, log_det, left)


@jit
def _one_loop(
    basis: Any,
    Q: Any,
    over_noise: Any,
    Xt: Any,
    roots: Any,
    rows: Any,
    Bt: Any,
    Ht: Any,
    faces: Any,
    counts: Any,
    out: Any,
) -> None:
    """Write memberships of some of the samples, and sums over them.

    Parameters
    ----------
    basis : array of shape ((m + 1) * padded(r),)
        Rows of W, and minus the offset, over the scale of Q.
    Q : array of shape (r, r)
        As in :func:`dbmd.kernels._faces.try_faces`.
    over_noise : array of shape (r, r) or (0, 0)
        W'W / noise; empty if covariances are not needed.
    Xt : array of shape (n_samples, m)
        All samples.
    roots : array of shape (n_samples,)
        Square root of how often each counts.
    rows : array of int of shape (n,)
        Which of the samples.
    Bt : array of shape (n, padded(r)), changed in place
        Workspace.
    Ht : array of shape (n, r), changed in place
        Memberships; NaN where they are not found. Then the sample is in none of the sums.
    faces : array of int of shape (n,), changed in place
        Where to start, and the faces of the memberships: bit k says whether component k is on the face.
    counts : array of shape (2^r,), zeros, changed in place
        How many samples are on each face.
    out : array of shape (wide^2 + r^2 + 1,), zeros, changed in place
        With z = (x, h), both padded, first the sum of z z', of which only the columns of h are there; then the sum of
        the covariances, and that of their gains in log-determinant.
    """
    m, (n, r) = Xt.shape[1], Ht.shape
    width, first = padded(r), padded(m)
    wide = first + width
    samples, products = Xt.reshape(-1), Bt.reshape(-1)
    for i in range(n):
        for c in range(0, width, LANES):
            combine(products, i * width + c, samples, rows[i] * m, m, basis, c, width)
    _search(Q, products, Ht, faces)
    Zt, numbers = np.zeros(RUN * wide), np.arange(RUN)
    for start in range(0, n, RUN):
        count = min(RUN, n - start)
        for i in range(count):
            row = rows[start + i]
            root = roots[row]
            if np.isnan(Ht[start + i, 0]):
                Zt[i * wide : (i + 1) * wide] = 0.0
                continue
            face = np.int64(0)
            for j in range(m):
                Zt[i * wide + j] = root * Xt[row, j]
            for k in range(r):
                Zt[i * wide + first + k] = root * Ht[start + i, k]
                face |= np.int64(Ht[start + i, k] > POSITIVE) << k
            faces[start + i] = face
            counts[face] += root * root
        for k in range(0, wide, LANES):
            for c in range(first, wide, LANES):
                add_gram_tile(out, out, 1.0, Zt, numbers, 0, count, wide, k, c)
    if len(over_noise):
        S = out[wide * wide : wide * wide + r * r].reshape(r, r)
        out[wide * wide + r * r] = add_faces(counts, over_noise, S)


@jit
def _search(Q: Any, Bt: Any, Ht: Any, faces: Any) -> None:
    """Write memberships and their faces; memberships are NaN where none are found.

    Parameters
    ----------
    Q : array of shape (r, r)
        As in :func:`dbmd.kernels._faces.try_faces`.
    Bt : array of shape (n * padded(r),)
        The rows b over the scale of Q, one after the other.
    Ht : array of shape (n, r), changed in place
        Memberships.
    faces : array of int of shape (n,), changed in place
        Where to start. No face is empty.
    """
    n, r = Ht.shape
    width, every = padded(r), (1 << r) - 1
    path, flat = np.empty(r * (r + 1) * width), np.empty((r + 1) * width)
    members, y = np.empty(r, np.int64), np.empty(width)
    begins = np.empty(every + 2, np.int64)
    waiting, order, n_waiting = np.arange(n), np.empty(n, np.int64), n
    for number in range(2 * TRIES):
        if n_waiting == 0:
            break
        if number == TRIES:
            for l in range(n_waiting):
                faces[waiting[l]] = every
        _sort(waiting, n_waiting, faces, begins, order)
        again, face, f = 0, 0, 0
        for l in range(n_waiting):
            i = order[l]
            if l == 0 or faces[i] != face:
                f = _find_map(Q, face, faces[i], members, path, flat, width)
                face = faces[i]
            wrong = np.int64(0)
            for c in range(0, width, LANES):
                combine(y, c, Bt, i * width, r, flat, c, width)
                wrong |= below(y, c, -SLACK) << c
            if wrong and wrong != face:
                faces[i] = face ^ wrong
                waiting[again] = i
                again += 1
                continue
            total = (r - f) * LEAST
            for d in range(f):
                total += max(y[members[d]], LEAST)
            # NaN, and numbers so large that their rounding shows, do not sum to one; or all of them are negative, which
            # numbers that sum to one cannot be.
            if wrong == 0 and abs(total - 1.0) <= 1e-10:
                for k in range(r):
                    Ht[i, k] = LEAST / total
                for d in range(f):
                    Ht[i, members[d]] = max(y[members[d]], LEAST) / total
            else:
                Ht[i] = np.nan
        n_waiting = again
    for l in range(n_waiting):
        Ht[waiting[l]] = np.nan


@jit
def _sort(waiting: Any, n_waiting: Any, faces: Any, begins: Any, order: Any) -> None:
    """Write the first samples of ``waiting`` to ``order``, sorted by face.

    Parameters
    ----------
    waiting, order : arrays of int of shape (n,)
        Samples; of both, the first ``n_waiting`` count.
    n_waiting : int
        How many.
    faces : array of int of shape (n,)
        The face of each sample.
    begins : array of int of shape (2^r + 1,)
        Workspace.
    """
    begins[:] = 0
    for l in range(n_waiting):
        begins[faces[waiting[l]] + 1] += 1
    for face in range(1, len(begins)):
        begins[face] += begins[face - 1]
    for l in range(n_waiting):
        i = waiting[l]
        order[begins[faces[i]]] = i
        begins[faces[i]] += 1


@jit
def _find_map(Q: Any, before: Any, face: Any, members: Any, path: Any, flat: Any, width: Any) -> Any:
    """Write the map of a face to ``flat``; return the number of its components.

    Parameters
    ----------
    Q : array of shape (r, r)
        As in :func:`dbmd.kernels._faces.try_faces`.
    before : int
        The face of the last call, zero at first.
    face : int
        Bit k says whether component k is on the face.
    members : array of int of shape (r,), changed in place
        The components of the face, the last one first.
    path : array of shape (r * (r + 1) * width,), changed in place
        One after the other, the tableaux of the faces of the first member, of the first two, and so on.
    flat : array of shape ((r + 1) * width,), changed in place
        The map: y is the sum of b_j times row j, plus row r.
    width : int
        Length of a row.
    """
    size = len(flat)
    r = size // width - 1
    f, is_known = 0, True
    for k in range(r - 1, -1, -1):
        is_known &= before >> k == face >> k
        if not face >> k & 1:
            continue
        members[f] = k
        if not is_known:
            begin = f * size
            if f == 0:
                map_of_corner(Q, k, path[:size].reshape(r + 1, width))
            else:
                for l in range(size):
                    path[begin + l] = path[begin - size + l]
                exchange(path, begin, k, r, width)
        f += 1
    begin = (f - 1) * size
    for l in range(size):
        flat[l] = path[begin + l]
    for k in range(r):
        if not face >> k & 1:
            for j in range(k * width, (k + 1) * width):
                flat[j] = 0.0
            flat[k * width + k] = -1.0
    return f
