"""The H-step without a prior for many components: as in :mod:`dbmd.kernels._faces`, but no map of a face is kept.

With many components there are too many faces to keep, and hardly two samples have the same. A face is solved by
elimination on the components inside of it, or on those outside, whichever are fewer. With M = Q + 1 1' (which changes
nothing where sum h = 1, and is regular more often than Q), N = M^-1, S inside and Z outside,

    h_S = x - nu w,    x = M_SS^-1 b_S,     w = M_SS^-1 1,        nu such that sum h = 1,    z = M_:S h_S - b + nu
    z_Z = nu w - x,    x = N_ZZ^-1 (Nb)_Z,  w = N_ZZ^-1 (N1)_Z,   nu such that sum h = 1,    h = N (b - nu 1 + z).

Components with a negative number change sides all at once. If that does not make them fewer for some tries, they change
sides one at a time, which always ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._faces import LEAST, POSITIVE, REGULAR, SLACK
from dbmd.kernels._rows import LANES, add_multiple, add_two_multiples, below, jit, padded

__all__ = ["PATIENCE", "TRIES", "solve_by_pivoting", "solve_inside"]

TRIES = 50  # faces for one sample; one to five are usual
PATIENCE = 3  # tries without progress before components change sides one at a time

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end


def solve_by_pivoting(
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
    r = len(Q)
    M = Q + 1.0
    try:
        N = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        N = np.full_like(M, np.inf)
    has_inverse = bool(np.abs(N).max() <= REGULAR)
    if not has_inverse and Ht0 is None:  # the first face would be all components
        return np.arange(len(Bt))
    edge = ((0, 1), (0, int(padded(r)) - r))
    padded_M, padded_N = np.pad(M, edge).ravel(), np.pad(N, edge).ravel()
    left = np.empty(len(Bt), np.intp)
    start = out if Ht0 is None else Ht0
    count = _pivot(padded_M, padded_N, has_inverse, Bt, start, Ht0 is not None, out, unit, left)
    return left[:count]


@jit
def _pivot(M: Any, N: Any, has_inverse: Any, Bt: Any, Ht0: Any, warm: Any, out: Any, unit: Any, left: Any) -> Any:
    """Try faces for each row; return the number of rows that are left.

    Parameters
    ----------
    M, N : array of shape (r * padded(r),)
        M and its inverse, rows of ``padded(r)`` numbers one after the other.
    has_inverse : bool
        Whether N can be used.
    Bt, out, unit
        As in :func:`solve_by_pivoting`.
    Ht0 : array of shape (n, r)
        Where to start if ``warm``; otherwise each row starts with all components.
    warm : bool
        Whether to use Ht0.
    left : array of int of shape (n,), changed in place
        The first entries are the rows that are left.
    """
    n, r = Bt.shape
    width = padded(r)
    ones = np.ones(r)
    N_ones = np.zeros(width)
    for k in range(r):
        _add_row(N_ones, 1.0, N, k, width)
    N_sum = N_ones[:r].sum()

    b = np.zeros(r + 1)
    Nb = np.zeros(width)
    y = np.zeros(width)
    is_inside = np.zeros(r, np.bool_)
    inside = np.zeros(r + 1, np.int64)
    outside = np.zeros(r + 1, np.int64)
    wrong = np.zeros(width + 1, np.int64)
    room = np.zeros((2, r * padded(r + 2)))
    x = np.zeros(padded(r + 2))
    w = np.zeros(padded(r + 2))

    n_left = 0
    for i in range(n):
        for k in range(r):
            b[k] = Bt[i, k] * unit
        has_Nb = some = False
        for k in range(r):
            is_inside[k] = warm and Ht0[i, k] > POSITIVE
            some |= is_inside[k]
        if not some:
            is_inside[:] = True
        found = False
        fewest, patience = r + 1, PATIENCE
        for _ in range(TRIES):
            s = e = 0
            for k in range(r):  # no branches: they would be mispredicted
                inside[at(s)] = outside[at(e)] = k
                s += is_inside[k]
                e += not is_inside[k]
            if has_inverse and e < s:
                if not has_Nb:
                    Nb[:] = 0.0
                    for k in range(0, r, 2):
                        for c in range(0, width, LANES):
                            add_two_multiples(Nb, c, b[k], N, k * width + c, b[k + 1], (k + 1) * width + c)
                    has_Nb = True
                solved = _solve_outside(N, N_ones, N_sum, Nb, outside, e, y, x, w, room)
            else:
                solved = s > 0 and solve_inside(M, ones, b, inside, s, y, x, w, room)
            if not solved:
                break
            count = 0
            for c in range(0, width, LANES):
                negative = below(y, c, -SLACK)
                if negative:
                    for k in range(LANES):
                        wrong[at(count)] = c + k
                        count += negative >> k & 1
            if count == 0:
                found = True
                break
            patience = PATIENCE if count < fewest else patience - 1
            fewest = min(fewest, count)
            for j in range(0 if patience > 0 else count - 1, count):
                is_inside[at(wrong[j])] ^= True

        total = 0.0
        for k in range(r):
            y[k] = max(y[k], LEAST) if is_inside[k] else LEAST
            total += y[k]
        # NaN, or numbers so large that their rounding shows, do not sum to one.
        if found and abs(total - 1.0) <= 1e-10:
            inverse = 1.0 / total
            for k in range(r):
                out[i, k] = y[k] * inverse
        else:
            left[n_left] = i
            n_left += 1
    return n_left


@jit
def solve_inside(M: Any, ones: Any, b: Any, inside: Any, s: Any, y: Any, x: Any, w: Any, room: Any) -> Any:
    """Write memberships inside and multipliers outside of a face to y, using M_SS; return False if near singular.

    Parameters
    ----------
    M : array of shape (r * width,)
        Rows of ``width`` numbers.
    ones, b : array of shape (r,) and (r + 1,)
        Ones, and the linear term.
    inside : array of int of shape (r + 1,)
        The first s are the components of the face.
    s : int
        Their number.
    y : array of shape (width,), changed in place
        The result.
    x, w, room
        Workspace of :func:`_eliminate`.
    """
    if not _eliminate(M, len(y), inside, s, b, ones, room, x, w):
        return False
    total, size = -1.0, 0.0
    for j in range(s):
        total += x[j]
        size += w[j]
    nu = total / size
    for k in range(len(ones)):
        y[k] = nu - b[k]
    for j in range(s):
        x[j] -= nu * w[j]
        _add_row(y, x[j], M, inside[j], len(y))
    for j in range(s):
        y[at(inside[j])] = x[j]
    return True


@jit
def _solve_outside(
    N: Any, N_ones: Any, N_sum: Any, Nb: Any, outside: Any, e: Any, y: Any, x: Any, w: Any, room: Any
) -> Any:
    """Write memberships inside and multipliers outside of a face to y, using N_ZZ; return False if near singular.

    Parameters
    ----------
    N : array of shape (r * width,)
        Rows of ``width`` numbers.
    N_ones, Nb : array of shape (width,)
        N 1 and N b.
    N_sum : float
        1'N 1.
    outside : array of int of shape (r + 1,)
        The first e are the components outside of the face.
    e : int
        Their number.
    y : array of shape (width,), changed in place
        The result.
    x, w, room
        Workspace of :func:`_eliminate`.
    """
    if not _eliminate(N, len(y), outside, e, Nb, N_ones, room, x, w):
        return False
    total, size = Nb.sum() - 1.0, N_sum
    for j in range(e):
        total -= N_ones[at(outside[j])] * x[j]
        size -= N_ones[at(outside[j])] * w[j]
    nu = total / size
    for k in range(len(y)):
        y[k] = Nb[k] - nu * N_ones[k]
    for j in range(e):
        x[j] = nu * w[j] - x[j]
        _add_row(y, x[j], N, outside[j], len(y))
    for j in range(e):
        y[at(outside[j])] = x[j]
    return True


@jit
def _add_row(y: Any, factor: Any, K: Any, k: Any, width: Any) -> None:
    """Add factor times row k of K, shape (rows * width,), to y, shape (width,), in place."""
    for c in range(0, width, LANES):
        add_multiple(y, c, factor, K, k * width + c)


@jit
def _eliminate(K: Any, width: Any, chosen: Any, s: Any, p: Any, q: Any, room: Any, x: Any, w: Any) -> Any:
    """Solve K_SS x = p_S and K_SS w = q_S; return False if K_SS is near singular.

    Parameters
    ----------
    K : array of shape (r * width,)
        A symmetric matrix, rows of ``width`` numbers.
    width : int
        Length of a row.
    chosen : array of int
        The first s are the components S.
    s : int
        Their number.
    p, q : array of shape (r,) or longer
        Right-hand sides.
    room : array of shape (2, r * padded(r + 2)), changed in place
        Workspace.
    x, w : array of shape (padded(r + 2),), changed in place
        The first s entries are the solutions.
    """
    wide = padded(s + 2)
    # A: K_SS with p_S and q_S as two more columns, of which the upper triangle is used. L: its unit lower factor.
    A, L = room[0], room[1]
    for i in range(s):
        k = chosen[at(i)]
        for j in range(i, s):
            A[at(i * wide + j)] = K[at(k * width + chosen[at(j)])]
        A[at(i * wide + s)] = p[at(k)]
        A[at(i * wide + s + 1)] = q[at(k)]
        for j in range(i, i // LANES * LANES + LANES):
            L[at(i * wide + j)] = 0.0
    for k in range(0, s, 2):  # two at a time: the rows below are loaded and stored once for both
        row, next_row = k * wide, (k + 1) * wide
        pivot = A[at(row + k)]
        if not pivot * REGULAR >= 1.0:
            return False
        inverse = 1.0 / pivot
        x[at(k)] = A[at(row + s)] * inverse
        w[at(k)] = A[at(row + s + 1)] * inverse
        if k + 1 == s:
            break
        factor = A[at(row + k + 1)] * inverse
        L[at(next_row + k)] = factor
        for c in range((k + 1) // LANES * LANES, wide, LANES):
            add_multiple(A, next_row + c, -factor, A, row + c)
        pivot = A[at(next_row + k + 1)]
        if not pivot * REGULAR >= 1.0:
            return False
        next_inverse = 1.0 / pivot
        x[at(k + 1)] = A[at(next_row + s)] * next_inverse
        w[at(k + 1)] = A[at(next_row + s + 1)] * next_inverse
        for i in range(k + 2, s):
            factor = A[at(row + i)] * inverse
            second = A[at(next_row + i)] * next_inverse
            L[at(i * wide + k)] = factor
            L[at(i * wide + k + 1)] = second
            for c in range(i // LANES * LANES, wide, LANES):
                add_two_multiples(A, i * wide + c, -factor, A, row + c, -second, next_row + c)
    for back in range(s):
        i = s - 1 - back
        x_i, w_i = x[at(i)], w[at(i)]
        for c in range(0, i, LANES):
            add_multiple(x, c, -x_i, L, i * wide + c)
            add_multiple(w, c, -w_i, L, i * wide + c)
    return True
