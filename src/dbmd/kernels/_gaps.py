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

from dbmd.kernels._covariance import add_face, workspace
from dbmd.kernels._faces import LEAST, POSITIVE, SLACK
from dbmd.kernels._one_row import solve_one
from dbmd.kernels._pivoting import PATIENCE, TRIES, solve_inside
from dbmd.kernels._rows import LANES, add_multiple, jit, padded
from dbmd.kernels._tolerance import AT_ZERO, PART, ROUNDING, TOL

__all__ = ["GapCovariance", "solve_h_with_gaps"]

LITTLE = 1e-3  # fraction of Q below which a difference from Q would have lost too many digits


def solve_h_with_gaps(
    Q: NDArray[Any],
    W: NDArray[np.float64],
    gaps: NDArray[np.bool_],
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
    gaps : array of bool of shape (n, m)
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
        np.require(gaps, np.bool_, ["C", "W"]),
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

    def add(self, Ht: NDArray[Any], gaps: NDArray[np.bool_], weights: NDArray[np.float64] | None = None) -> None:
        """Add samples: memberships, shape (n, r), gaps, shape (n, m), and weights, shape (n,), by default one."""
        Ht = np.require(Ht, requirements=["C", "W"])
        gaps = np.require(gaps, np.bool_, ["C", "W"])
        weights = np.ones(len(Ht)) if weights is None else np.require(weights, np.float64, ["C", "W"])
        self._log_det += _add_rows(Ht, gaps, weights, self._Q, self._W, self._noise, self._S, self._WS)

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
def _solve_rows(Q: Any, W: Any, gaps: Any, Bt: Any, a: Any, Ht0: Any, warm: Any, out: Any) -> None:
    """Write the memberships of each row to ``out``.

    Parameters
    ----------
    Q, W : array of shape (r * padded(r),) and (m * padded(r),)
        Rows one after the other.
    gaps, Bt, a
        As in :func:`solve_h_with_gaps`.
    Ht0 : array of shape (n, r)
        Where to start if ``warm``.
    warm : bool
        Whether to use Ht0.
    out : array of shape (n, r), changed in place
        The memberships; may be Ht0 itself.
    """
    n, r = Bt.shape
    m = gaps.shape[1]
    width = padded(r)
    M = np.empty(r * width)
    v = np.empty(width)
    missing = np.empty(m + 1, np.int64)
    everything = np.arange(r)
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
        observed = m - _observed_gram(Q, W, gaps, i, everything, r, missing, v, M, width)
        is_known = observed >= r - 1
        scale = 0.0
        for k in range(r):
            scale = max(scale, M[k * width + k])
        unit = 1.0 / scale if scale > 0.0 else 1.0
        some = False
        for k in range(r):
            b[k] = Bt[i, k] * unit
            is_inside[k] = warm and Ht0[i, k] > POSITIVE
            some |= is_inside[k]
            for l in range(r):
                Q_i[k, l] = M[k * width + l] * unit
                M[k * width + l] = Q_i[k, l] + 1.0
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
def _observed_gram(
    Q: Any, W: Any, gaps: Any, i: Any, members: Any, f: Any, missing: Any, v: Any, out: Any, width: Any
) -> Any:
    """Write the Gram matrix of some columns of W over the observed features of a row to ``out``.

    Parameters
    ----------
    Q, W : array of shape (r * width,) and (m * width,)
        Gram matrix over all features, and the basis, rows one after the other.
    gaps : array of bool of shape (n, m)
        Which entries are missing.
    i : int
        The row.
    members : array of int
        The first f are the columns.
    f : int
        Their number.
    missing : array of int of shape (m + 1,), changed in place
        The first entries are the missing features.
    v : array of shape (width,), changed in place
        Workspace.
    out : array of shape (r * width,), changed in place
        The first f rows of ``width`` numbers are those of the columns, with zeros after their first f numbers.
    width : int
        Length of a row.

    Returns
    -------
    int
        Number of missing features.
    """
    m = gaps.shape[1]
    count = 0
    for j in range(m):
        missing[count] = j
        count += gaps[i, j]
    for k in range(width):
        v[k] = 0.0
    for k in range(f * width):
        out[k] = 0.0
    is_lost = 2 * count > m
    if not is_lost:
        most = rest = 0.0
        for k in range(f):
            for l in range(f):
                out[k * width + l] = Q[members[k] * width + members[l]]
            most = max(most, out[k * width + k])
        for c in range(count):
            _add_feature(W, missing[c] * width, -1.0, members, f, v, out, width)
        for k in range(f):
            rest = max(rest, out[k * width + k])
        is_lost = rest < LITTLE * most
    if is_lost:
        for k in range(f * width):
            out[k] = 0.0
        for j in range(m):
            if not gaps[i, j]:
                _add_feature(W, j * width, 1.0, members, f, v, out, width)
    for k in range(f):
        for l in range(k):
            out[k * width + l] = out[l * width + k]
    return count


@jit
def _add_feature(W: Any, start: Any, sign: Any, members: Any, f: Any, v: Any, out: Any, width: Any) -> None:
    """Add sign * w w' of one feature to the upper triangle of a matrix; what is below it is not defined afterwards.

    Parameters
    ----------
    W : flat array
        The basis, rows of ``width`` numbers.
    start : int
        Where the row of the feature begins.
    sign : float
        1 or -1.
    members : array of int
        The first f are the columns that count.
    f : int
        Their number.
    v : array of shape (width,), changed in place
        Workspace, with zeros after the first f numbers.
    out : array of shape (r * width,), changed in place
        The matrix, rows of ``width`` numbers.
    width : int
        Length of a row.
    """
    for k in range(f):
        v[k] = W[start + members[k]]
    for k in range(f):
        factor = sign * v[k]
        for c in range(k // LANES * LANES, f, LANES):
            add_multiple(out, k * width + c, factor, v, c)


@jit
def _add_rows(Ht: Any, gaps: Any, weights: Any, Q: Any, W: Any, noise: Any, S: Any, WS: Any) -> Any:
    """Add the covariance of each row, and its products with the rows of W at the gaps.

    Parameters
    ----------
    Ht : array of shape (n, r)
        Memberships.
    gaps : array of bool of shape (n, m)
        Which entries are missing.
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
    members = np.empty(r + 1, np.int64)
    everything = np.arange(r)
    missing = np.empty(gaps.shape[1] + 1, np.int64)
    v = np.empty(width)
    flat = np.empty(r * width)
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
        count = _observed_gram(Q, W, gaps, i, members, f, missing, v, flat, width)
        for k in range(f):
            for l in range(f):
                own_Q[k, l] = flat[k * width + l] / noise
                own_S[k, l] = 0.0
        total += add_face(own_Q, everything, f, weights[i], room, own_S)
        for k in range(f):
            for l in range(f):
                S[members[k], members[l]] += own_S[k, l]
                flat[k * width + l] = own_S[k, l]
        for g in range(count):
            j = missing[g]
            for k in range(padded(f)):
                row[k] = 0.0
            for k in range(f):
                factor = W[j * width + members[k]]
                for c in range(0, f, LANES):
                    add_multiple(row, c, factor, flat, k * width + c)
            for k in range(f):
                WS[j, members[k]] += row[k]
    return total
