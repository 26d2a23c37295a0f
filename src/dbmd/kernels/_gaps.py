"""The H-step of samples with gaps: each has a Gram matrix of its own.

Of a sample with gaps only the observed features O count, so that W_O'W_O takes the place of Q
(:mod:`dbmd.kernels._observed`). Hardly two samples share it: there is nothing to keep. Without a prior, some samples at
a time are solved on faces of the simplex (:mod:`dbmd.kernels._side_by_side`), each in a lane of its own, which takes
the next sample when the minimum is found. Samples for which this fails are solved alone, on faces
(:mod:`dbmd.kernels._pivoting`), or by the interior-point method, as all are with a prior.

The memberships of a sample with fewer observed features than it takes to tell the components apart are not unique. The
interior-point method finds some in the middle of those that fit, and it starts from the centre of the simplex, so that
they do not depend on the last memberships.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._faces import LEAST, POSITIVE, REGULAR, SLACK
from dbmd.kernels._observed import in_rows, largest, observed_gram
from dbmd.kernels._one_row import solve_one
from dbmd.kernels._pivoting import PATIENCE, TRIES, solve_inside
from dbmd.kernels._rows import SIDE, inlined, jit, padded
from dbmd.kernels._side_by_side import solve_faces
from dbmd.kernels._tolerance import AT_ZERO, PART, ROUNDING, TOL
from dbmd.model.gaps import Gaps

__all__ = ["solve_h_with_gaps"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end
TRIES_AT_ONCE = 6  # faces for some samples at a time, before each of those that are left is solved alone


def solve_h_with_gaps(
    Q: NDArray[Any],
    W: NDArray[np.float64],
    gaps: Gaps | NDArray[np.bool_],
    Bt: NDArray[Any],
    a: NDArray[Any],
    Ht0: NDArray[Any] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return for every row b of Bt the minimiser of 1/2 h'Q_i h - b'h - sum_k a_k ln h_k on the simplex.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, in squared units of the data.
    W : array of shape (m, r)
        The basis, about the point that Bt is taken about.
    gaps : Gaps, or array of bool of shape (n, m)
        Which entries are missing. Q_i is Q less w_j w_j' for each missing feature j of sample i.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W over the observed features, in squared units of the data.
    a : array of shape (r,)
        Weights >= 0 of the logarithms, sigma^2 (alpha0 - 1), in squared units of the data. Zero is the limit of small
        weights.
    Ht0 : array of shape (n, r), optional
        Where to start, rows on the simplex. By default the centre of the simplex.
    out : array of shape (n, r), optional
        Where to write the result; may be Ht0 itself.

    Returns
    -------
    array of shape (n, r)
        Memberships, of the type of Bt: all positive, rows sum to one.
    """
    if out is None:
        out = np.empty(Bt.shape, Bt.dtype)
    Bt = np.require(Bt, Bt.dtype, ["C", "W"])
    Ht0 = None if Ht0 is None else np.require(Ht0, Bt.dtype, ["C", "W"])
    _solve_rows(
        in_rows(Q, int(padded(len(Q)))),
        in_rows(W),
        *Gaps.of(gaps),
        Bt,
        np.require(a, np.float64, ["C", "W"]),
        out if Ht0 is None else Ht0,
        Ht0 is not None,
        out,
    )
    return out


@jit
def _solve_rows(Q: Any, W: Any, starts: Any, columns: Any, Bt: Any, a: Any, Ht0: Any, warm: Any, out: Any) -> None:
    """Write the memberships of each row to ``out``.

    Parameters
    ----------
    Q, W : array of shape (padded(r) * padded(r),) and (m * padded(r),)
        Rows one after the other.
    starts, columns
        As in :class:`dbmd.model.gaps.Gaps`.
    Bt, a
        As in :func:`solve_h_with_gaps`.
    Ht0 : array of shape (n, r)
        Where to start if ``warm``.
    warm : bool
        Whether to use Ht0.
    out : array of shape (n, r), changed in place
        The memberships; may be Ht0 itself.
    """
    n, r = Bt.shape
    width = padded(r)
    m = len(W) // width
    others = np.empty(m, np.int64)
    most = largest(Q, width)
    M = np.empty(width * width)
    lanes = np.zeros(r * r * SIDE)  # Gram matrices plus one
    b = np.zeros(r * SIDE)
    inside = np.ones(r * SIDE)
    L = np.zeros((r + 2) * r * SIDE)
    u, d, x = np.zeros(r * SIDE), np.zeros(r * SIDE), np.zeros(r * SIDE)
    w, rest, y = np.zeros(r * SIDE), np.zeros(r * SIDE), np.zeros(r * SIDE)
    least = np.zeros(SIDE)
    row = np.full(SIDE, -1)  # the sample in each lane, -1: none
    tries = np.zeros(SIDE, np.int64)
    has_prior = a.max() > 0.0
    waiting, n_busy = 0, 0  # the next sample, number of samples in lanes
    while waiting < n or n_busy:
        for t in range(SIDE):
            while row[t] < 0 and waiting < n:
                i = waiting
                waiting += 1
                first, last = starts[i], starts[i + 1]
                scale = observed_gram(Q, W, columns, first, last, most, others, M)
                unit = 1.0 / scale if scale > 0.0 else 1.0
                if has_prior or m - (last - first) < r - 1:
                    is_known = m - (last - first) >= r - 1
                    _solve_alone(M, unit, Bt[i], a, Ht0[i], warm and is_known, False, out[i])
                    continue
                row[t], tries[t] = i, 0
                n_busy += 1
                _load(M, unit, Bt, Ht0, warm, i, t, lanes, b, inside)
        if n_busy == 0:
            break
        solve_faces(lanes, b, inside, r, L, u, d, x, w, rest, least, y)
        for t in range(SIDE):
            if row[t] < 0:
                continue
            tries[t] += 1
            is_regular = least[t] * REGULAR >= 1.0
            is_found = is_regular and _is_minimum(y, inside, r, t)
            if is_found and _write(y, inside, r, t, out, row[t]):
                row[t] = -1
                n_busy -= 1
            elif is_found or not is_regular or tries[t] == TRIES_AT_ONCE:
                i = row[t]
                scale = observed_gram(Q, W, columns, starts[i], starts[i + 1], most, others, M)
                _solve_alone(M, 1.0 / scale if scale > 0.0 else 1.0, Bt[i], a, Ht0[i], warm, True, out[i])
                row[t] = -1
                n_busy -= 1


@inlined
def _load(M: Any, unit: Any, Bt: Any, Ht0: Any, warm: Any, i: Any, t: Any, lanes: Any, b: Any, inside: Any) -> None:
    """Put sample i into lane t.

    Parameters
    ----------
    M : array of shape (padded(r) * padded(r),)
        Its Gram matrix, the upper triangle.
    unit : float
        Factor of M and b.
    Bt, Ht0, warm
        As in :func:`_solve_rows`.
    i, t : int
        The sample, the lane.
    lanes, b, inside : array of shape (r * r * SIDE,), (r * SIDE,) and (r * SIDE,), changed in place
        As in :func:`dbmd.kernels._side_by_side.solve_faces`. A sample without memberships starts with all components.
    """
    r = Bt.shape[1]
    width = padded(r)
    some = False
    for k in range(r):
        b[at(k * SIDE + t)] = Bt[i, k] * unit
        is_inside = warm and Ht0[i, k] > POSITIVE
        inside[at(k * SIDE + t)] = is_inside
        some |= is_inside
        for l in range(k, r):
            entry = M[at(k * width + l)] * unit + 1.0
            lanes[at((k * r + l) * SIDE + t)] = lanes[at((l * r + k) * SIDE + t)] = entry
    if not some:
        for k in range(r):
            inside[at(k * SIDE + t)] = 1.0


@inlined
def _is_minimum(y: Any, inside: Any, r: Any, t: Any) -> Any:
    """Return whether no number of sample t in y, shape (r * SIDE,), is negative; else change sides of those."""
    found = True
    for k in range(r):
        p = at(k * SIDE + t)
        if y[p] < -SLACK:
            found = False
            inside[p] = 1.0 - inside[p]
    return found


@inlined
def _write(y: Any, inside: Any, r: Any, t: Any, out: Any, i: Any) -> Any:
    """Write the memberships of sample t, which are in y in lanes, to row i of ``out``; return False if not right."""
    total = 0.0
    for k in range(r):
        p = at(k * SIDE + t)
        y[p] = max(y[p], LEAST) if inside[p] > 0.0 else LEAST
        total += y[p]
    # NaN, or numbers so large that their rounding shows, do not sum to one.
    if not abs(total - 1.0) <= 1e-10:
        return False
    inverse = 1.0 / total
    for k in range(r):
        out[i, k] = y[at(k * SIDE + t)] * inverse
    return True


@jit
def _solve_alone(M: Any, unit: Any, b_row: Any, a: Any, h0: Any, warm: Any, try_faces: Any, out: Any) -> None:
    """Write the memberships of one sample to ``out``, by pivoting if ``try_faces``, else by the interior-point method.

    Parameters
    ----------
    M : array of shape (padded(r) * padded(r),), changed in place
        Its Gram matrix, the upper triangle.
    unit : float
        Factor of M, b and a.
    b_row, a, h0, out : array of shape (r,)
        The linear term, weights of the logarithms, where to start if ``warm``, and the memberships.
    warm, try_faces : bool
        Whether to use h0; whether there is no prior and the memberships are unique.
    """
    r = len(out)
    width = padded(r)
    b = np.zeros(r + 1)
    is_inside = np.ones(r, np.bool_)
    for k in range(r):
        b[k] = b_row[k] * unit
        for l in range(k, r):
            M[k * width + l] = M[l * width + k] = M[k * width + l] * unit + 1.0
    if try_faces:
        y, x = np.zeros(width), np.zeros((2, padded(r + 2)))
        chosen, room = np.zeros((2, r + 1), np.int64), np.zeros((2, r * padded(r + 2)))
        if _find_face(M, np.ones(r), b, is_inside, chosen[0], chosen[1], y, x[0], x[1], room):
            for k in range(r):
                out[k] = y[k]
            return
    # The weights and the tolerance of kernels/_tolerance.py, with the scale of this row.
    shrink = min(1.0, 10.0 / r)
    tol = TOL * shrink
    Q_i, a_i, h = np.empty((r, r)), np.empty(r), np.empty(r)
    for k in range(r):
        h[k] = h0[k] if warm else 1.0 / r
        a_i[k] = max(a[k] * unit, ROUNDING) if a[k] > 0.0 else AT_ZERO * shrink
        if a[k] > 0.0:
            tol = min(tol, max(PART * a_i[k], ROUNDING))
        for l in range(r):
            Q_i[k, l] = M[k * width + l] - 1.0
    solve_one(Q_i, b[:r], a_i, warm, tol, h)
    for k in range(r):
        out[k] = h[k]


@jit
def _find_face(
    M: Any, ones: Any, b: Any, is_inside: Any, inside: Any, wrong: Any, y: Any, x: Any, w: Any, room: Any
) -> Any:
    """Write the memberships of one sample to y, by block principal pivoting; return False if they are not found.

    Parameters
    ----------
    M : array of shape (r * padded(r),)
        Its Gram matrix plus one, rows one after the other.
    ones, b : array of shape (r,) and (r + 1,)
        Ones, and the linear term.
    is_inside : array of bool of shape (r,), changed in place
        The first face to try.
    inside, wrong : array of int of shape (r + 1,), changed in place
        Workspace.
    y : array of shape (padded(r),), changed in place
        The memberships.
    x, w, room
        Workspace of :func:`dbmd.kernels._pivoting.solve_inside`.
    """
    r = len(ones)
    fewest, patience = r + 1, PATIENCE
    for _ in range(TRIES):
        s = 0
        for k in range(r):
            inside[s] = k
            s += is_inside[k]
        if s == 0 or not solve_inside(M, ones, b, inside, s, y, x, w, room):
            return False
        count = 0
        for k in range(r):
            wrong[count] = k
            count += y[k] < -SLACK
        if count == 0:
            break
        patience = PATIENCE if count < fewest else patience - 1
        fewest = min(fewest, count)
        for j in range(0 if patience > 0 else count - 1, count):
            is_inside[wrong[j]] ^= True
    total = 0.0
    for k in range(r):
        y[k] = max(y[k], LEAST) if is_inside[k] else LEAST
        total += y[k]
    inverse = 1.0 / total
    for k in range(r):
        y[k] *= inverse
    # NaN, or numbers so large that their rounding shows, do not sum to one.
    return count == 0 and abs(total - 1.0) <= 1e-10
