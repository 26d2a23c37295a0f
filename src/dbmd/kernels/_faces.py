"""The H-step without a prior, face by face of the simplex: exact, and for few components much the fastest.

Without logarithms the H-step is a quadratic programme. On a face of the simplex, that is for a given set S of
components that may be positive, its solution is an affine function of b: with M = Q + 1 1' (which changes nothing
where sum h = 1, and is regular more often than Q), N = M_SS^-1, m = N 1 and c = 1'm

    h_S = (N - m m' / c) b_S + m / c,      nu = (m'b_S - 1) / c,      z_k = M_kS h_S - b_k + nu   for k outside of S.

So one r x r matrix and a vector for each face give the memberships of a sample on it and the multipliers off it. Where
none of these r numbers is negative, the optimality conditions hold; else the components with a negative number change
sides, and the next face is tried (block principal pivoting [1]_). The maps of the faces depend on Q alone: they are
computed when they are first met, in float64 for either type of data, and kept for the rest of the pass.

Few samples do not end in a handful of tries; these, and all samples on faces where M_SS is near to singular, are left
to the interior-point method.

References
----------
.. [1] J. J. Judice, F. M. Pires, A block principal pivoting algorithm for large-scale strictly monotone linear
   complementarity problems, Comput. Oper. Res. 21 (1994).
"""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_RANK", "solve_on_faces"]

MAX_RANK = 12  # 4,095 faces: their maps are small enough to keep, and soon found again
TRIES = 10  # faces for one sample; one to three are usual
LEAST = 1e-12  # what a membership of zero is written as: memberships stay inside the simplex
POSITIVE = 1e-6  # a start this small counts as zero
SLACK = 1e-12  # how negative a number may be that is zero but for rounding
REGULAR = 1e5  # largest entry of a map: beyond, rounding would show in the memberships

_jit = numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")


class _Maps(threading.local):
    """The maps of the faces for the Q that this thread met last: chunk after chunk, it is the same."""

    Q: NDArray[np.float64] | None = None
    known: NDArray[np.bool_]
    maps: NDArray[np.float64]

    def of(self, Q: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        if self.Q is None or not np.array_equal(self.Q, Q):
            r = len(Q)
            self.Q = Q
            self.known = np.zeros(1 << r, np.bool_)
            self.maps = np.empty((1 << r, r + 1, (r + 3) // 4 * 4))  # memory that is not touched costs nothing
        return self.known, self.maps


_maps = _Maps()


def solve_on_faces(
    Q: NDArray[np.float64], Bt: NDArray[Any], Ht0: NDArray[Any] | None, out: NDArray[Any], unit: float
) -> NDArray[np.intp]:
    """Write the minimisers of 1/2 h'Qh - unit b'h on the simplex to ``out``, where they are found, row by row.

    Parameters
    ----------
    Q : array of shape (r, r)
        Of entries not much larger than one.
    Bt : array of shape (n, r), float32 or float64
        Rows b.
    Ht0 : array of shape (n, r), optional
        Where to start: only the sign of the entries counts.
    out : array of shape (n, r)
        For the result; may be Ht0 itself.
    unit : float
        Factor of b.

    Returns
    -------
    array of int
        The rows that are left over; they are as they were in ``out``.
    """
    known, maps = _maps.of(Q)
    left = np.empty(len(Bt), np.intp)
    count = _try_faces(Q, Bt, out if Ht0 is None else Ht0, Ht0 is not None, out, unit, known, maps, left)
    return left[:count]


@_jit
def _try_faces(Q: Any, Bt: Any, Ht0: Any, warm: Any, out: Any, unit: Any, known: Any, maps: Any, left: Any) -> Any:
    n, r = Bt.shape
    width = maps.shape[2]
    b = np.empty(r)
    y = np.zeros(width)
    every = np.int64((1 << r) - 1)
    count = 0
    for i in range(n):
        for k in range(r):
            b[k] = Bt[i, k] * unit
        face = every
        if warm:
            face = np.int64(0)
            for k in range(r):
                face |= np.int64(Ht0[i, k] > POSITIVE) << k
            if face == 0:
                face = every
        found = False
        for _ in range(TRIES):
            if not known[face]:
                _map_of_face(Q, face, maps[face])
                known[face] = True
            for k in range(width):
                y[k] = maps[face, r, k]
            l = 0
            while l + 3 < r:  # four at a time: the sums are loaded and stored once for all
                b0, b1, b2, b3 = b[l], b[l + 1], b[l + 2], b[l + 3]
                for k in range(width):
                    y[k] += (
                        b0 * maps[face, l, k]
                        + b1 * maps[face, l + 1, k]
                        + b2 * maps[face, l + 2, k]
                        + b3 * maps[face, l + 3, k]
                    )
                l += 4
            while l < r:
                b0 = b[l]
                for k in range(width):
                    y[k] += b0 * maps[face, l, k]
                l += 1
            wrong = np.int64(0)
            for k in range(r):
                wrong |= np.int64(y[k] < -SLACK) << k
            if wrong == 0:
                found = True
                break
            face ^= wrong  # never empty: of memberships that sum to one, one is positive
        total = 0.0
        for k in range(r):
            y[k] = max(y[k], LEAST) if face >> k & 1 else LEAST
            total += y[k]
        # What is not a number, or so large that rounding shows, sums to something else.
        if found and abs(total - 1.0) <= 1e-10:
            share = 1.0 / total
            for k in range(r):
                out[i, k] = y[k] * share
        else:
            left[count] = i
            count += 1
    return count


@_jit
def _map_of_face(Q: Any, face: Any, T: Any) -> None:
    """Write the map of a face to T, shape (r + 1, width): rows for b, then the constants; NaN if near singular."""
    r = Q.shape[0]
    inside = np.empty(r, np.int64)
    s = 0
    for k in range(r):
        if face >> k & 1:
            inside[s] = k
            s += 1
    # N = M_SS^-1 by Gauss-Jordan, in place; M_SS is positive semidefinite, so no pivoting is needed.
    N = np.empty((s, s))
    for i in range(s):
        for j in range(s):
            N[i, j] = Q[inside[i], inside[j]] + 1.0
    for k in range(s):
        pivot = N[k, k]
        if not pivot > 0.0:
            T[:] = np.nan
            return
        N[k, k] = 1.0
        for j in range(s):
            N[k, j] /= pivot
        for i in range(s):
            if i != k:
                x = N[i, k]
                N[i, k] = 0.0
                for j in range(s):
                    N[i, j] -= x * N[k, j]
    m = np.empty(s)
    c = 0.0
    for i in range(s):
        m[i] = 0.0
        for j in range(s):
            m[i] += N[i, j]
        c += m[i]
    T[:] = 0.0
    for i in range(s):
        T[r, inside[i]] = m[i] / c
        for j in range(s):
            T[inside[j], inside[i]] = N[i, j] - m[i] * m[j] / c
    for k in range(r):
        if face >> k & 1:
            continue
        T[r, k] = -1.0 / c
        for i in range(s):
            M_ki = Q[k, inside[i]] + 1.0
            T[r, k] += M_ki * m[i] / c
            T[inside[i], k] += m[i] / c
            for j in range(s):
                T[inside[j], k] += M_ki * (N[i, j] - m[i] * m[j] / c)
        T[k, k] = -1.0
    if not np.abs(T).max() <= REGULAR:
        T[:] = np.nan
