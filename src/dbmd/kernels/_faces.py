"""The H-step without a prior by searching the face of each minimum: exact, and the fastest way with few components.

Without logarithms the H-step is a quadratic programme. With multipliers z >= 0 of h >= 0 and nu of sum h = 1 its
optimality conditions are

    Q h - z + nu 1 = b,      sum h = 1,      h_k z_k = 0.

On a face of the simplex, that is for a given set S of components that may be positive, they are linear: the memberships
in S and the multipliers outside of S are r numbers y, which an affine map of the face gives from b,

    y = t + G_:S b_S - b outside of S.

If none of them is negative, the optimality conditions hold. Otherwise the components with a negative number change
sides, and the next face is tried (block principal pivoting [1]_). The first face is that of the last memberships or,
without them, that of the sample before: consecutive samples are often similar, and the result does not depend on it.

The maps depend on Q only. They are computed when they are first needed, in float64 for either type of data, and kept
for the rest of the pass. The map of a face follows from that of the face without its last component by one exchange
step of the simplex method, r^2 operations. For this step G has columns outside of S, too: the change of y with a
membership there.

A few samples need more than a handful of tries. They, and all samples on faces where Q is near singular, are left to
the interior-point method.

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

__all__ = [
    "LEAST",
    "MAX_RANK",
    "POSITIVE",
    "SLACK",
    "TRIES",
    "exchange",
    "map_of_corner",
    "maps_of_faces",
    "solve_on_faces",
    "try_faces",
]

MAX_RANK = 12  # components, that is 4,095 faces: their maps are small enough to keep
TRIES = 10  # faces for one sample, and as many again from the whole simplex; one to three are usual
LEAST = 1e-12  # written instead of a membership of zero: memberships are positive
POSITIVE = 1e-6  # a membership up to this counts as zero
SLACK = 1e-12  # a number above minus this counts as not negative (rounding)
REGULAR = 1e5  # largest inverse of a pivot: beyond it rounding would show in the memberships


class _Maps(threading.local):
    """The maps of the faces for the last Q of this thread, which is the same chunk after chunk.

    Attributes
    ----------
    Q : array of shape (r, r), optional
        As in :func:`solve_on_faces`.
    unit : float
        Factor of b.
    known : array of bool of shape (2^r,)
        Which maps have been computed; bit k of the index says whether component k is on the face.
    tableaux : array of shape (2^r, r + 1, padded(r))
        G and t of each face: row j is column j of G, row r is t.
    maps : array of shape (2^r, r + 1, padded(r))
        The same as a map from b: y is the sum of b_j times row j, plus row r.
    """

    Q: NDArray[np.float64] | None = None
    unit: float
    known: NDArray[np.bool_]
    tableaux: NDArray[np.float64]
    maps: NDArray[np.float64]

    def of(self, Q: NDArray[np.float64], unit: float) -> tuple[NDArray[np.bool_], Any, Any]:
        """Return ``known``, ``tableaux`` and ``maps`` for a Q, shape (r, r), and a unit."""
        if self.Q is None or self.unit != unit or not np.array_equal(self.Q, Q):
            r = len(Q)
            if self.Q is None or len(self.Q) != r:  # else use the same memory: new pages cost more than the maps
                self.known = np.empty(1 << r, np.bool_)
                self.tableaux = np.empty((1 << r, r + 1, int(padded(r))))
                self.maps = np.empty_like(self.tableaux)
            self.known[:] = False
            self.Q, self.unit = Q, unit
        return self.known, self.tableaux, self.maps


maps_of_faces = _Maps()


def solve_on_faces(
    Q: NDArray[np.float64], Bt: NDArray[Any], Ht0: NDArray[Any] | None, out: NDArray[Any], unit: float
) -> NDArray[np.intp]:
    """Write the minimisers of 1/2 h'Qh - unit b'h on the simplex to the rows of ``out``, as far as they are found.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / scale, without a unit: its entries are not much larger than one.
    Bt : array of shape (n, r), float32 or float64
        Rows b = x'W, in squared units of the data.
    Ht0 : array of shape (n, r), optional
        Where to start: only which entries are above ``POSITIVE`` matters.
    out : array of shape (n, r), of the type of Bt
        For the memberships; may be Ht0 itself.
    unit : float
        Factor of b, 1 / scale.

    Returns
    -------
    array of int of shape (number of rows that are left,)
        The rows for which no minimum was found. They are not changed in ``out``.
    """
    known, tableaux, maps = maps_of_faces.of(Q, unit)
    left = np.empty(len(Bt), np.intp)
    start = out if Ht0 is None else Ht0
    count = try_faces(Q, Bt.reshape(-1), start, Ht0 is not None, out, unit, known, tableaux, maps, left)
    return left[:count]


@jit
def try_faces(
    Q: Any, Bt: Any, Ht0: Any, warm: Any, out: Any, unit: Any, known: Any, tableaux: Any, maps: Any, left: Any
) -> Any:
    """Try faces for each row; return the number of rows that are left.

    Parameters
    ----------
    Q, out, unit
        As in :func:`solve_on_faces`.
    Bt : array of shape (n * r,)
        The rows b, one after the other.
    Ht0 : array of shape (n, r)
        Where to start if ``warm``; otherwise each row starts on the face of the row before.
    warm : bool
        Whether to use Ht0.
    known, tableaux, maps
        As in :class:`_Maps`, changed in place.
    left : array of int of shape (n,), changed in place
        The first entries are the rows that are left.
    """
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
            if wrong == face:  # rounding: memberships sum to one, so one of them is positive
                break
            face ^= wrong
        total = 0.0
        for k in range(r):
            y[k] = max(y[k], LEAST) if face >> k & 1 else LEAST
            total += y[k]
        # NaN, or numbers so large that their rounding shows, do not sum to one.
        if found and abs(total - 1.0) <= 1e-10:
            inverse = 1.0 / total
            for k in range(r):
                out[i, k] = y[k] * inverse
        else:
            left[count] = i
            count += 1
    return count


@jit
def _find_map(Q: Any, face: Any, unit: Any, known: Any, tableaux: Any, maps: Any) -> None:
    """Compute the map of a face, from those of its first component, of its first two, and so on.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / scale.
    face : int
        Bit k says whether component k is on the face.
    unit : float
        Factor of b.
    known, tableaux, maps
        As in :class:`_Maps`, changed in place.
    """
    r = Q.shape[0]
    width = maps.shape[2]
    smaller = np.int64(0)
    for last in range(r):
        if not face >> last & 1:
            continue
        larger = smaller | np.int64(1) << last
        if not known[larger]:
            if smaller == 0:
                map_of_corner(Q, last, tableaux[larger])
            else:
                tableaux[larger] = tableaux[smaller]
                exchange(tableaux.reshape(-1), larger * (r + 1) * width, last, r, width)
            for k in range(r):
                for j in range(width):
                    maps[larger, k, j] = tableaux[larger, k, j] * unit if larger >> k & 1 else 0.0
                if not larger >> k & 1:
                    maps[larger, k, k] = -unit
            maps[larger, r] = tableaux[larger, r]
            known[larger] = True
        smaller = larger


@jit
def map_of_corner(Q: Any, k: Any, T: Any) -> None:
    """Write the map of the face with component k alone to T.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / scale.
    k : int
        The component.
    T : array of shape (r + 1, width), changed in place
        T[j] is column j of G, T[r] is t.
    """
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
def exchange(T: Any, start: Any, k: Any, r: Any, width: Any) -> None:
    """Add component k to a face: its multiplier leaves the map and its membership enters; NaN if near singular.

    Parameters
    ----------
    T : flat array, changed in place
        Tableaux of all faces.
    start : int
        Where that of this face begins: r + 1 rows of ``width`` numbers.
    k, r, width : int
        The component, number of components, length of a row.
    """
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
