"""The H-step and the covariance of samples with gaps: each has a Gram matrix of its own.

Of a sample with gaps only the observed features O count, so that W_O'W_O = Q - W_G'W_G takes the place of Q, where G
are the gaps. It is computed for each sample, from whichever of O and G has fewer features. Hardly two samples share it:
there is nothing to keep, and each is solved by itself, without a prior on faces of the simplex
(:mod:`dbmd.kernels._pivoting`), and by the interior-point method where that fails, or with a prior.

The memberships of a sample with fewer observed features than it takes to tell the components apart are not unique. The
interior-point method finds some in the middle of those that fit, and it starts from the centre of the simplex, so that
they do not depend on the last memberships.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.gaps import Gaps
from dbmd.kernels._covariance import add_face, workspace
from dbmd.kernels._faces import LEAST, POSITIVE, SLACK
from dbmd.kernels._one_row import solve_one
from dbmd.kernels._pivoting import PATIENCE, TRIES, solve_inside
from dbmd.kernels._rows import LANES, add_multiple, add_two_multiples, combine, jit, padded
from dbmd.kernels._tolerance import AT_ZERO, PART, ROUNDING, TOL

__all__ = ["GapCovariance", "solve_h_with_gaps"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end
LITTLE = 1e-3  # fraction of Q below which a difference from Q would have lost too many digits


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
        _in_rows(Q),
        _in_rows(W),
        *Gaps.of(gaps),
        Bt,
        np.require(a, np.float64, ["C", "W"]),
        out if Ht0 is None else Ht0,
        Ht0 is not None,
        out,
    )
    return out


class GapCovariance:
    """The sum of the covariances of memberships over samples with gaps, of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, in squared units of the data.
    W : array of shape (m, r)
        The basis, about any point.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    """

    def __init__(self, Q: NDArray[np.float64], W: NDArray[np.float64], noise: float) -> None:
        self._Q, self._W, self._noise = _in_rows(Q), _in_rows(W), noise
        self._S = np.zeros(Q.shape)
        self._WS = np.zeros(W.shape)
        self._log_det = 0.0

    def add(
        self, Ht: NDArray[Any], gaps: Gaps | NDArray[np.bool_], weights: NDArray[np.float64] | None = None
    ) -> None:
        """Add samples: memberships, shape (n, r), gaps or a mask, shape (n, m), and weights, shape (n,) or one."""
        Ht = np.require(Ht, requirements=["C", "W"])
        weights = np.ones(len(Ht)) if weights is None else np.require(weights, np.float64, ["C", "W"])
        self._log_det += _add_rows(Ht, *Gaps.of(gaps), weights, self._Q, self._W, self._noise, self._S, self._WS)

    def total(self) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
        """Return the sums over the samples of S_i, of the gains in log-determinant, and of w_j'S_i for each gap j.

        Returns
        -------
        S : array of shape (r, r)
            Sum of the covariances.
        log_det : float
            Sum of the gains in log-determinant.
        WS : array of shape (m, r)
            Row j: sum of w_j'S_i over the samples i whose feature j is missing.
        """
        return self._S, self._log_det, self._WS


def _in_rows(matrix: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rows of a matrix, shape (k, r), one after the other, each padded with zeros to a multiple of LANES."""
    k, r = matrix.shape
    rows = np.zeros((k, int(padded(r))))
    rows[:, :r] = matrix
    return rows.ravel()


@jit
def _solve_rows(
    Q: Any, W: Any, starts: Any, columns: Any, Bt: Any, a: Any, Ht0: Any, warm: Any, out: Any
) -> None:
    """Write the memberships of each row to ``out``.

    Parameters
    ----------
    Q, W : array of shape (r * padded(r),) and (m * padded(r),)
        Rows one after the other.
    starts, columns
        As in :class:`dbmd.data.gaps.Gaps`.
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
    M = np.empty(r * width)
    others = np.empty(m, np.int64)
    Q_i = np.empty((r, r))
    a_i = np.empty(r)
    b = np.zeros(r + 1)
    h = np.empty(r)
    y = np.zeros(width)
    is_inside = np.zeros(r, np.bool_)
    ones, chosen = np.ones(r), np.zeros((2, r + 1), np.int64)
    room, x = np.zeros((2, r * padded(r + 2))), np.zeros((2, padded(r + 2)))
    inside, wrong, x_1, x_2 = chosen[0], chosen[1], x[0], x[1]
    has_prior = False
    for k in range(r):
        has_prior |= a[k] > 0.0
    shrink = min(1.0, 10.0 / r)
    for i in range(n):
        first, last = starts[i], starts[i + 1]
        if 2 * (last - first) > m or not _without_gaps(Q, W, columns, first, last, r, width, M):
            _of_features(W, others, _complement(columns, first, last, others), r, width, M)
        scale = _largest(M, r, width)
        unit = 1.0 / scale if scale > 0.0 else 1.0
        is_known = m - (last - first) >= r - 1
        some = False
        for k in range(r):
            b[k] = Bt[i, k] * unit
            is_inside[k] = warm and Ht0[i, k] > POSITIVE
            some |= is_inside[k]
            for l in range(k, r):
                M[k * width + l] = M[l * width + k] = M[k * width + l] * unit + 1.0
        if is_known and not has_prior:
            if not some:
                for k in range(r):
                    is_inside[k] = True
            if _find_face(M, ones, b, is_inside, inside, wrong, y, x_1, x_2, room):
                for k in range(r):
                    out[i, k] = y[k]
                continue
        # The weights and the tolerance of kernels/_tolerance.py, with the scale of this row.
        tol = TOL * shrink
        for k in range(r):
            h[k] = Ht0[i, k] if warm and is_known else 1.0 / r
            a_i[k] = max(a[k] * unit, ROUNDING) if a[k] > 0.0 else AT_ZERO * shrink
            if a[k] > 0.0:
                tol = min(tol, max(PART * a_i[k], ROUNDING))
            for l in range(r):
                Q_i[k, l] = M[k * width + l] - 1.0
        solve_one(Q_i, b[:r], a_i, warm and is_known, tol, h)
        for k in range(r):
            out[i, k] = h[k]


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


@jit
def _without_gaps(Q: Any, W: Any, gaps: Any, first: Any, last: Any, r: Any, width: Any, out: Any) -> Any:
    """Write Q less w w' of each gap to the upper triangle of ``out``.

    Parameters
    ----------
    Q, W : array of shape (r * width,) and (m * width,)
        Gram matrix over all features, and the basis, rows one after the other.
    gaps : array of int
        Those from ``first`` to ``last`` are the missing features.
    first, last, r, width : int
        Where the gaps of the sample begin and end, number of columns of W, length of a row.
    out : array of shape (r * width,), changed in place
        The result.

    Returns
    -------
    bool
        Whether enough digits are left.
    """
    for k in range(r * width):
        out[k] = Q[k]
    _add_features(W, gaps, first, last, -1.0, r, width, out)
    return _largest(out, r, width) >= LITTLE * _largest(Q, r, width)


@jit
def _of_features(W: Any, features: Any, count: Any, r: Any, width: Any, out: Any) -> None:
    """Write the sum of w w' over the first features of a list to ``out``; parameters as in :func:`_without_gaps`."""
    for k in range(r * width):
        out[k] = 0.0
    _add_features(W, features, 0, count, 1.0, r, width, out)


@jit
def _largest(matrix: Any, r: Any, width: Any) -> Any:
    """Return the largest entry of the diagonal of a matrix of shape (r * width,)."""
    largest = 0.0
    for k in range(r):
        largest = max(largest, matrix[k * width + k])
    return largest


@jit
def _complement(columns: Any, first: Any, last: Any, others: Any) -> Any:
    """Write the features that are not among the missing ones to ``others``, shape (m,); return their number."""
    count = 0
    for j in range(len(others)):
        if first < last and columns[first] == j:
            first += 1
        else:
            others[count] = j
            count += 1
    return count


@jit
def _add_features(
    W: Any, features: Any, first: Any, last: Any, sign: Any, r: Any, width: Any, out: Any
) -> None:
    """Add sign * w w' of some features to the upper triangle of a matrix; what is below it is not defined afterwards.

    Parameters
    ----------
    W : flat array
        Rows of ``width`` numbers, of which the first r count.
    features : array of int
        Those from ``first`` to ``last`` are the rows of W to add.
    first, last, r, width : int
        As above.
    sign : float
        1 or -1.
    out : array of shape (r * width,), changed in place
        The matrix, rows of ``width`` numbers.
    """
    for g in range(first, last - 1, 2):  # two at a time: the matrix is loaded and stored once for both
        row, next_row = features[at(g)] * width, features[at(g + 1)] * width
        for k in range(r):
            factor, second = sign * W[at(row + k)], sign * W[at(next_row + k)]
            for c in range(k // LANES * LANES, width, LANES):
                add_two_multiples(out, k * width + c, factor, W, row + c, second, next_row + c)
    if (last - first) % 2:
        row = features[at(last - 1)] * width
        for k in range(r):
            for c in range(k // LANES * LANES, width, LANES):
                add_multiple(out, k * width + c, sign * W[at(row + k)], W, row + c)


@jit
def _gather(W: Any, width: Any, features: Any, first: Any, last: Any, members: Any, f: Any, out: Any) -> None:
    """Write f columns of some rows of W, whose length is ``width``, to the rows of ``out``, of length padded(f)."""
    wide = padded(f)
    for g in range(first, last):
        row, start = features[at(g)] * width, (g - first) * wide
        for k in range(f):
            out[at(start + k)] = W[at(row + members[at(k)])]
        for k in range(f, wide):
            out[at(start + k)] = 0.0


@jit
def _add_rows(
    Ht: Any, starts: Any, columns: Any, weights: Any, Q: Any, W: Any, noise: Any, S: Any, WS: Any
) -> Any:
    """Add the covariance of each row, and its products with the rows of W at the gaps.

    Parameters
    ----------
    Ht : array of shape (n, r)
        Memberships.
    starts, columns
        As in :class:`dbmd.data.gaps.Gaps`.
    weights : array of shape (n,)
        Weight of each sample.
    Q, W : array of shape (r * padded(r),) and (m * padded(r),)
        Rows one after the other.
    noise : float
        Variance of the noise in the plane of W.
    S, WS : array of shape (r, r) and (m, r), changed in place
        The sums.

    Returns
    -------
    float
        Sum of the gains in log-determinant.
    """
    n, r = Ht.shape
    width = padded(r)
    m = len(W) // width
    members = np.empty(r + 1, np.int64)
    everything = np.arange(max(m, r))
    others = np.empty(m, np.int64)
    V = np.empty(m * width)
    Q_face = np.empty(r * width)
    flat = np.empty((r + 1) * width)
    own_Q = np.empty((r, r))
    own_S = np.empty((r, r))
    row = np.empty(width)
    room = workspace(r)
    total = 0.0
    for i in range(n):
        f = 0
        for k in range(r):
            members[f] = k
            f += Ht[i, k] > POSITIVE
        if f < 2 or weights[i] == 0.0:
            continue
        first, last = starts[i], starts[i + 1]
        wide = padded(f)
        _gather(Q, width, members, 0, f, members, f, Q_face)
        count = last - first
        _gather(W, width, columns, first, last, members, f, V)
        if 2 * count > m or not _without_gaps(Q_face, V, everything, 0, count, f, wide, flat):
            observed = _complement(columns, first, last, others)
            _gather(W, width, others, 0, observed, members, f, V)
            _of_features(V, everything, observed, f, wide, flat)
            _gather(W, width, columns, first, last, members, f, V)
        for k in range(f):
            for l in range(k, f):
                own_Q[k, l] = own_Q[l, k] = flat[k * wide + l] / noise
                own_S[k, l] = own_S[l, k] = 0.0
        total += add_face(own_Q, everything, f, weights[i], room, own_S)
        for k in range(f):
            for l in range(f):
                S[members[k], members[l]] += own_S[k, l]
                flat[k * wide + l] = own_S[k, l]
            for l in range(f, wide):
                flat[k * wide + l] = 0.0
        for l in range(wide):
            flat[f * wide + l] = 0.0  # combine adds one row more
        for g in range(count):
            j = columns[at(first + g)]
            for c in range(0, wide, LANES):
                combine(row, c, V, g * wide, f, flat, c, wide)
            for k in range(f):
                WS[at(j), at(members[at(k)])] += row[at(k)]
    return total
