"""The H-step without a prior, face by face of the simplex: exact, and for few components much the fastest.

Without logarithms the H-step is a quadratic programme: h >= 0 with multipliers z >= 0 and nu of the conditions h >= 0
and sum h = 1,

    Q h - z + nu 1 = b,      sum h = 1,      h_k z_k = 0.

On a face of the simplex, that is for a given set S of components that may be positive, this is linear: the memberships
inside and the multipliers outside are r numbers y that depend on b by a map of the face,

    y = t + G_:S b_S - b outside of S.

Where none of them is negative, the optimality conditions hold; else the components with a negative number change sides,
and the next face is tried (block principal pivoting [1]_). The first is that of the last memberships or, without them,
that of the sample before: those in a row are often alike, and where the search ends does not depend on it.

The maps depend on Q alone: they are computed when they are first met, in float64 for either type of data, and kept for
the rest of the pass. Each follows from that of the face without its last component by one exchange of the simplex
method, r^2 operations; for it G has columns outside of S, too: how y changes with a membership there.

Few samples do not end in a handful of tries; these, and all samples on faces where Q is near to singular, are left
to the interior-point method.

References
----------
.. [1] J. J. Judice, F. M. Pires, A block principal pivoting algorithm for large-scale strictly monotone linear
   complementarity problems, Comput. Oper. Res. 21 (1994).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._rows import LANES, add_multiple, below, combine, jit, padded

__all__ = ["MAX_RANK", "solve_on_faces"]

MAX_RANK = 12  # 4,095 faces: their maps are small enough to keep, and soon found again
TRIES = 10  # faces for one sample, and again from the whole simplex; one to three are usual
LEAST = 1e-12  # what a membership of zero is written as: memberships stay inside the simplex
POSITIVE = 1e-6  # a start this small counts as zero
SLACK = 1e-12  # how negative a number may be that is zero but for rounding
REGULAR = 1e5  # what a pivot may be divided by at most: beyond, rounding would show in the memberships


class _Maps(threading.local):
    """The maps of the faces for the Q that this thread met last: chunk after chunk, it is the same."""

    Q: NDArray[np.float64] | None = None
    unit: float
    known: NDArray[np.bool_]
    tableaux: NDArray[np.float64]
    maps: NDArray[np.float64]

    def of(self, Q: NDArray[np.float64], unit: float) -> tuple[NDArray[np.bool_], Any, Any]:
        if self.Q is None or self.unit != unit or not np.array_equal(self.Q, Q):
            r = len(Q)
            if self.Q is None or len(self.Q) != r:  # else the same memory: new pages would cost more than the maps
                self.known = np.empty(1 << r, np.bool_)
                self.tableaux = np.empty((1 << r, r + 1, int(padded(r))))
                self.maps = np.empty_like(self.tableaux)
            self.known[:] = False
            self.Q, self.unit = Q, unit
        return self.known, self.tableaux, self.maps


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
    known, tableaux, maps = _maps.of(Q, unit)
    left = np.empty(len(Bt), np.intp)
    start = out if Ht0 is None else Ht0
    count = _try_faces(Q, Bt.reshape(-1), start, Ht0 is not None, out, unit, known, tableaux, maps, left)
    return left[:count]


@jit
def _try_faces(
    Q: Any, Bt: Any, Ht0: Any, warm: Any, out: Any, unit: Any, known: Any, tableaux: Any, maps: Any, left: Any
) -> Any:
    n, r = out.shape
    width = maps.shape[2]
    size = (r + 1) * width
    flat = maps.reshape(-1)
    y = np.zeros(width)
    every = np.int64((1 << r) - 1)
    face = every
    count = 0
    for i in range(n):
        if warm:
            face = np.int64(0)
            for k in range(r):
                face |= np.int64(Ht0[i, k] > POSITIVE) << k
            if face == 0:
                face = every
        found = False
        for number in range(2 * TRIES):
            if number == TRIES:
                face = every
            if not known[face]:
                _find_map(Q, face, unit, known, tableaux, maps)
            wrong = np.int64(0)
            for c in range(0, width, LANES):
                combine(y, c, Bt, i * r, r, flat, face * size + c, width)
                wrong |= below(y, c, -SLACK) << c
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


@jit
def _find_map(Q: Any, face: Any, unit: Any, known: Any, tableaux: Any, maps: Any) -> None:
    """Find the map of a face, by way of the face of its first component, of its first two, and so on."""
    r = Q.shape[0]
    width = maps.shape[2]
    smaller = np.int64(0)
    for last in range(r):
        if not face >> last & 1:
            continue
        larger = smaller | np.int64(1) << last
        if not known[larger]:
            if smaller == 0:
                _map_of_corner(Q, last, tableaux[larger])
            else:
                tableaux[larger] = tableaux[smaller]
                _exchange(tableaux.reshape(-1), larger * (r + 1) * width, last, r, width)
            for k in range(r):
                for j in range(width):
                    maps[larger, k, j] = tableaux[larger, k, j] * unit if larger >> k & 1 else 0.0
                if not larger >> k & 1:
                    maps[larger, k, k] = -unit
            maps[larger, r] = tableaux[larger, r]
            known[larger] = True
        smaller = larger


@jit
def _map_of_corner(Q: Any, k: Any, T: Any) -> None:
    """Write the map of the face with component k alone to T, shape (r + 1, width): T[j] is column j of G, T[r] is t."""
    r = Q.shape[0]
    T[:] = 0.0
    for j in range(r):
        for i in range(r):
            T[j, i] = Q[i, j] - Q[k, j] - Q[i, k] + Q[k, k]
        T[j, k] = -1.0
    for i in range(r):
        T[k, i] = 1.0
        T[r, i] = Q[i, k] - Q[k, k]
    T[k, k] = 0.0
    T[r, k] = 1.0


@jit
def _exchange(T: Any, start: Any, k: Any, r: Any, width: Any) -> None:
    """Let component k come inside: its multiplier leaves the map, and its membership enters; NaN if near singular."""
    row_k = start + k * width
    pivot = T[row_k + k]
    inverse = 1.0 / pivot if pivot * REGULAR >= 1.0 else np.nan
    for j in range(r + 1):
        if j == k:
            continue
        row_j = start + j * width
        factor = -T[row_j + k] * inverse
        for c in range(0, width, LANES):
            add_multiple(T, row_j + c, factor, T, row_k + c)
        T[row_j + k] = factor
    for i in range(width):
        T[row_k + i] *= inverse
    T[row_k + k] = inverse
