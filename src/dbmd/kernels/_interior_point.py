"""Interior-point solver of the H-step in numba: many samples at a time, one per lane of the vector unit.

The algorithm is that of :mod:`dbmd.kernels.reference`, arranged for the machine. Every quantity of the solver is an
array whose last axis runs over ``LANES`` samples, so that each line of the algorithm is one vectorised loop, whatever
the number of components. When the sample of a lane has converged, the next sample takes the lane. So no sample waits
for a slower one, and the result of a sample does not depend on the others: the arithmetic of a lane reads that lane
only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.kernels._rows import jit
from dbmd.kernels._tolerance import BALANCE, LIFT, MAX_STEPS, PATIENCE, SHORT, TO_BOUNDARY

LANES = 128  # 8 to 16 vector registers a loop: enough to hide latency, small enough for the cache


@jit
def solve_interior(Q: Any, Bt: Any, a: Any, Ht0: Any, warm: Any, out: Any, unit: Any, tol: Any) -> None:
    """Write the minimisers of 1/2 h'Qh - unit b'h - sum_k a_k ln h_k on the simplex to the rows of ``out``.

    Parameters
    ----------
    Q : array of shape (r, r), float64
        W'W / scale, without a unit.
    Bt : array of shape (n, r)
        Rows b = x'W, in squared units of the data.
    a : array of shape (r,)
        Weights of the logarithms / scale, positive.
    Ht0 : array of shape (n, r)
        Where to start if ``warm``.
    warm : bool
        Whether to use Ht0, or to start at the centre of the simplex.
    out : array of shape (n, r)
        For the memberships; may be Ht0 itself.
    unit : float
        1 / scale.
    tol : float
        Largest error of the optimality conditions, relative to the scale of the sample.
    """
    n, r = Bt.shape
    inv_r = 1.0 / r

    h = np.empty((r, LANES))  # the sample's point on the simplex
    z = np.empty((r, LANES))  # multipliers of h >= 0; at the solution h_k z_k = a_k
    b = np.empty((r, LANES))
    g = np.empty((r, LANES))  # Qh - b
    inv_h = np.empty((r, LANES))
    dh = np.empty((r, LANES))
    dz = np.empty((r, LANES))
    L = np.empty((r * (r + 1) // 2, LANES))  # Cholesky factor of Q + diag(z / h), by rows
    inv_diag = np.empty((r, LANES))
    u = np.empty((r, LANES))  # L^-1 (a / h - g)
    v = np.empty((r, LANES))  # L^-1 (correction of the right-hand side)
    w = np.empty((r, LANES))  # L^-1 1
    ww = np.empty(LANES)
    nu = np.empty(LANES)  # multiplier of sum h = 1
    gap = np.empty(LANES)  # mean of |h z - a|, then the target for the next step
    acc = np.empty(LANES)
    step = np.empty(LANES)
    correct = np.empty(LANES)  # 1: predictor-corrector step, 0: plain centring step
    scale = np.ones(LANES)
    error = np.full(LANES, -1.0)  # of the optimality conditions; negative: the lane is free
    steps = np.zeros(LANES, np.int64)
    row = np.full(LANES, -1, np.int64)

    Q_mean = np.empty(r)  # Q times the centre of the simplex
    for k in range(r):
        total = 0.0
        for l in range(r):
            total += Q[k, l]
        Q_mean[k] = total * inv_r

    next_row = 0
    busy = 0
    while True:
        # A sample that has converged leaves its lane, and the next one takes it.
        for j in range(LANES):
            if not (error[j] <= tol * scale[j] or steps[j] >= MAX_STEPS):
                continue
            if row[j] >= 0:
                total = 0.0
                for k in range(r):
                    total += h[k, j]
                for k in range(r):
                    out[row[j], k] = h[k, j] / total
                row[j] = -1
                busy -= 1
            steps[j] = 0
            step[j] = 1.0
            if next_row < n:
                i = next_row
                next_row += 1
                busy += 1
                row[j] = i
                low = high = Bt[i, 0] * unit
                for k in range(r):
                    b[k, j] = Bt[i, k] * unit
                    low = min(low, b[k, j])
                    high = max(high, b[k, j])
                scale[j] = max(1.0, high - low)
                if warm:
                    _start_warm(Q, a, Ht0, i, j, b, h, z, g)
                else:
                    _start_cold(Q_mean, a, inv_r, j, b, h, z, g)
            else:
                # An empty lane computes with harmless numbers: the vector loops run over all lanes.
                scale[j] = 0.0
                for k in range(r):
                    b[k, j] = 0.0
                    h[k, j] = inv_r
                    z[k, j] = 1.0
                    g[k, j] = Q_mean[k]
        if busy == 0:
            return

        # Factor M = Q + diag(z / h) = LL', and solve L u = a / h - g and L w = 1 on the way.
        for j in range(LANES):
            gap[j] = 0.0
            ww[j] = 0.0
            nu[j] = -1.0  # sum h - 1 enters nu: rounding must not accumulate
        for i in range(r):
            row_i = i * (i + 1) // 2
            for c in range(i):
                row_c = c * (c + 1) // 2
                Q_ic = Q[i, c]
                for j in range(LANES):
                    L[row_i + c, j] = Q_ic
                k = 0
                while k + 3 < c:  # four at a time: the accumulator is loaded and stored once for all
                    for j in range(LANES):
                        L[row_i + c, j] -= (
                            L[row_i + k, j] * L[row_c + k, j]
                            + L[row_i + k + 1, j] * L[row_c + k + 1, j]
                            + L[row_i + k + 2, j] * L[row_c + k + 2, j]
                            + L[row_i + k + 3, j] * L[row_c + k + 3, j]
                        )
                    k += 4
                while k < c:
                    for j in range(LANES):
                        L[row_i + c, j] -= L[row_i + k, j] * L[row_c + k, j]
                    k += 1
                for j in range(LANES):
                    L[row_i + c, j] *= inv_diag[c, j]
            a_i = a[i]
            Q_ii = Q[i, i]
            for j in range(LANES):
                x = 1.0 / h[i, j]
                inv_h[i, j] = x
                gap[j] += abs(h[i, j] * z[i, j] - a_i)
                nu[j] += h[i, j]
                L[row_i + i, j] = Q_ii + z[i, j] * x
                u[i, j] = a_i * x - g[i, j]
                w[i, j] = 1.0
            for k in range(i):
                for j in range(LANES):
                    x = L[row_i + k, j]
                    L[row_i + i, j] -= x * x
                    u[i, j] -= x * u[k, j]
                    w[i, j] -= x * w[k, j]
            for j in range(LANES):
                # Never below what was added to the diagonal: rounding may cancel it where Q is singular.
                x = 1.0 / np.sqrt(max(L[row_i + i, j], z[i, j] * inv_h[i, j]))
                inv_diag[i, j] = x
                u[i, j] *= x
                w[i, j] *= x
                ww[j] += w[i, j] * w[i, j]
                nu[j] += w[i, j] * u[i, j]

        # Predictor: dh = M^-1 (a / h - g - nu 1), nu such that sum (h + dh) = 1.
        for j in range(LANES):
            gap[j] = max(gap[j] * inv_r, 1e-30)  # keeps 0 / 0 out
            ww[j] = 1.0 / ww[j]
            nu[j] *= ww[j]
        for k in range(r):
            for j in range(LANES):
                dh[k, j] = u[k, j] - nu[j] * w[k, j]
        _back_substitute(L, inv_diag, dh)
        for j in range(LANES):
            acc[j] = 1.0
        for k in range(r):
            a_k = a[k]
            for j in range(LANES):
                e = dh[k, j] * inv_h[k, j]
                dz[k, j] = a_k * inv_h[k, j] - z[k, j] - z[k, j] * e
                acc[j] = max(acc[j], max(-e, -dz[k, j] / z[k, j]))
        for j in range(LANES):
            acc[j] = 1.0 / acc[j]
            correct[j] = 0.0
        for k in range(r):
            a_k = a[k]
            for j in range(LANES):
                correct[j] += abs((h[k, j] + acc[j] * dh[k, j]) * (z[k, j] + acc[j] * dz[k, j]) - a_k)
        # Mehrotra: leave gap (gap_predicted / gap)^3, and correct for the product dh dz.
        for j in range(LANES):
            x = min(1.0, correct[j] * inv_r / gap[j])
            ahead = step[j] > SHORT and steps[j] < PATIENCE
            correct[j] = 1.0 if ahead else 0.0
            gap[j] *= x * x * x if ahead else SHORT
            acc[j] = 0.0

        # Corrector: the same matrix, right-hand side changed by (target - a - dh dz) / h.
        for i in range(r):
            row_i = i * (i + 1) // 2
            a_i = a[i]
            for j in range(LANES):
                extra = gap[j] - correct[j] * dh[i, j] * dz[i, j]
                dz[i, j] = a_i + extra
                v[i, j] = extra * inv_h[i, j]
            for k in range(i):
                for j in range(LANES):
                    v[i, j] -= L[row_i + k, j] * v[k, j]
            for j in range(LANES):
                v[i, j] *= inv_diag[i, j]
                acc[j] += w[i, j] * v[i, j]
        for j in range(LANES):
            nu[j] += acc[j] * ww[j]
        for k in range(r):
            for j in range(LANES):
                dh[k, j] = u[k, j] + v[k, j] - nu[j] * w[k, j]
        _back_substitute(L, inv_diag, dh)
        # Where z / h is tiny, dh is a difference of large numbers: correct all entries so that sum (h + dh) = 1.
        for j in range(LANES):
            acc[j] = 1.0
        for k in range(r):
            for j in range(LANES):
                acc[j] -= h[k, j] + dh[k, j]
        for k in range(r):
            for j in range(LANES):
                dh[k, j] += acc[j] * h[k, j]

        # The longest step that stays inside, the same for h and z so that Qh - b - z + nu 1 = 0 stays true.
        for j in range(LANES):
            step[j] = TO_BOUNDARY
        for k in range(r):
            for j in range(LANES):
                e = dh[k, j] * inv_h[k, j]
                dz[k, j] = dz[k, j] * inv_h[k, j] - z[k, j] - z[k, j] * e
                step[j] = max(step[j], max(-e, -dz[k, j] / z[k, j]))
        for j in range(LANES):
            step[j] = TO_BOUNDARY / step[j]
            error[j] = 0.0
            acc[j] = -1.0
            steps[j] += 1
        for k in range(r):
            a_k = a[k]
            for j in range(LANES):
                h[k, j] += step[j] * dh[k, j]
                z[k, j] += step[j] * dz[k, j]
                error[j] = max(error[j], abs(h[k, j] * z[k, j] - a_k))
                acc[j] += h[k, j]
        for k in range(r):
            for j in range(LANES):
                g[k, j] = -b[k, j]
            l = 0
            while l + 1 < r:
                c0 = Q[k, l]
                c1 = Q[k, l + 1]
                for j in range(LANES):
                    g[k, j] += c0 * h[l, j] + c1 * h[l + 1, j]
                l += 2
            if l < r:
                c0 = Q[k, l]
                for j in range(LANES):
                    g[k, j] += c0 * h[l, j]
            for j in range(LANES):
                error[j] = max(error[j], abs(g[k, j] - z[k, j] + nu[j]) * inv_r)
        for j in range(LANES):
            error[j] = max(error[j], abs(acc[j]) * inv_r)


@jit
def _start_cold(Q_mean: Any, a: Any, inv_r: Any, j: Any, b: Any, h: Any, z: Any, g: Any) -> None:
    """Start lane j at the centre of the simplex, with dual feasible multipliers z = g + nu > 0.

    Parameters
    ----------
    Q_mean, a : array of shape (r,)
        Q times the centre, and the weights of the logarithms.
    inv_r : float
        1 / r.
    j : int
        The lane.
    b : array of shape (r, LANES)
        The linear term.
    h, z, g : array of shape (r, LANES), changed in place
        Memberships, multipliers and Qh - b of the lane.
    """
    r = h.shape[0]
    low = Q_mean[0] - b[0, j]
    mean = 0.0
    for k in range(r):
        h[k, j] = inv_r
        g[k, j] = Q_mean[k] - b[k, j]
        low = min(low, g[k, j])
        mean += g[k, j]
    lift = 0.3 * (mean * inv_r - low)
    for k in range(r):
        z[k, j] = g[k, j] - low + lift + a[k]


@jit
def _start_warm(Q: Any, a: Any, Ht0: Any, i: Any, j: Any, b: Any, h: Any, z: Any, g: Any) -> None:
    """Start lane j near row i of Ht0, away from the boundary so that a zero can become positive again.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / scale.
    a : array of shape (r,)
        Weights of the logarithms.
    Ht0 : array of shape (n, r)
        Memberships.
    i, j : int
        Row and lane.
    b : array of shape (r, LANES)
        The linear term.
    h, z, g : array of shape (r, LANES), changed in place
        Memberships, multipliers and Qh - b of the lane.
    """
    r = h.shape[0]
    total = 0.0
    for k in range(r):
        h[k, j] = max(Ht0[i, k], LIFT / r)
        total += h[k, j]
    nu = 0.0
    for k in range(r):
        h[k, j] /= total
    for k in range(r):
        x = -b[k, j]
        for l in range(r):
            x += Q[k, l] * h[l, j]
        g[k, j] = x
        nu += a[k] - h[k, j] * x
    # z = g + nu where that is positive, and products h z of similar size: far from the central path the method makes no
    # progress.
    gap = 0.0
    for k in range(r):
        gap += h[k, j] * abs(g[k, j] + nu)
    gap *= BALANCE / r
    for k in range(r):
        z[k, j] = max(g[k, j] + nu, (a[k] + gap) / h[k, j])


@jit
def _back_substitute(L: Any, inv_diag: Any, x: Any) -> None:
    """Solve L' y = x for every lane, in place.

    Parameters
    ----------
    L : array of shape (r (r + 1) / 2, LANES)
        Lower triangles, by rows.
    inv_diag : array of shape (r, LANES)
        Inverses of their diagonals.
    x : array of shape (r, LANES), changed in place
        Right-hand sides, then the solutions.
    """
    r = x.shape[0]
    for back in range(r):
        i = r - 1 - back
        row_i = i * (i + 1) // 2
        for j in range(LANES):
            x[i, j] *= inv_diag[i, j]
        for k in range(i):
            for j in range(LANES):
                x[k, j] -= L[row_i + k, j] * x[i, j]
