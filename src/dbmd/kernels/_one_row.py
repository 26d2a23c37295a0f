"""The interior-point method for one sample, in numba: for samples whose Gram matrix no other sample has.

The algorithm is that of :mod:`dbmd.kernels.reference`. For many samples of one Gram matrix there is
:mod:`dbmd.kernels._interior_point`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.kernels._rows import jit
from dbmd.kernels._tolerance import BALANCE, LIFT, MAX_STEPS, PATIENCE, SHORT, TO_BOUNDARY

__all__ = ["solve_one"]


@jit
def solve_one(Q: Any, b: Any, a: Any, warm: Any, tol: Any, h: Any) -> None:
    """Write the minimiser of 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex to h.

    Parameters
    ----------
    Q : array of shape (r, r)
        Positive semidefinite, entries not much larger than one.
    b, a : array of shape (r,)
        The linear term, and the weights of the logarithms, positive.
    warm : bool
        Whether h is near the solution, or the centre of the simplex.
    tol : float
        Largest error of the optimality conditions, relative to the spread of b if that is larger than one.
    h : array of shape (r,), changed in place
        Where to start, then the memberships.
    """
    r = len(h)
    z = np.empty(r)  # multipliers of h >= 0; at the solution h_k z_k = a_k
    g = np.empty(r)  # Qh - b
    dh = np.empty(r)
    dz = np.empty(r)
    target = np.empty(r)  # of the products h z
    M_ones = np.empty(r)  # M^-1 1
    L = np.empty((r, r))  # M = Q + diag(z / h) = L L'
    _start(Q, b, a, warm, h, z)
    allowed = tol * max(1.0, b.max() - b.min())
    step = 1.0
    for count in range(MAX_STEPS):
        _gradient(Q, b, h, g)
        _factor(Q, h, z, L)
        M_ones[:] = 1.0
        _solve(L, M_ones)
        # Predictor: straight to the solution; how far it gets says how much to centre.
        _direction(L, M_ones, g, a, h, z, dh, dz)
        reach = min(1.0, _to_boundary(h, dh, z, dz))
        gap = predicted = 0.0
        for k in range(r):
            gap += abs(h[k] * z[k] - a[k]) / r
            predicted += abs((h[k] + reach * dh[k]) * (z[k] + reach * dz[k]) - a[k]) / r
        is_centring = step <= SHORT or count >= PATIENCE
        left = SHORT if is_centring else min(1.0, predicted / max(gap, 1e-30)) ** 3
        for k in range(r):
            target[k] = a[k] + gap * left - (0.0 if is_centring else dh[k] * dz[k])
        # Corrector: the same matrix, a better target.
        nu = _direction(L, M_ones, g, target, h, z, dh, dz)
        step = min(1.0, TO_BOUNDARY * _to_boundary(h, dh, z, dz))
        total = error = 0.0
        for k in range(r):
            h[k] += step * dh[k]
            z[k] += step * dz[k]
            total += h[k]
            error = max(error, abs(h[k] * z[k] - a[k]))
        _gradient(Q, b, h, g)
        for k in range(r):
            error = max(error, abs(g[k] - z[k] + nu) / r)
        if max(error, abs(total - 1.0) / r) <= allowed:
            break
    total = 0.0
    for k in range(r):
        total += h[k]
    for k in range(r):
        h[k] /= total


@jit
def _start(Q: Any, b: Any, a: Any, warm: Any, h: Any, z: Any) -> None:
    """Move h away from the boundary, so that a zero can become positive again, and choose multipliers z > 0.

    Parameters
    ----------
    Q : array of shape (r, r)
        The quadratic term.
    b, a : array of shape (r,)
        The linear term, and the weights of the logarithms.
    warm : bool
        Whether h is near the solution, or the centre of the simplex.
    h, z : array of shape (r,), changed in place
        Memberships and multipliers.
    """
    r = len(h)
    total = 0.0
    for k in range(r):
        h[k] = max(h[k], LIFT / r)
        total += h[k]
    for k in range(r):
        h[k] /= total
    _gradient(Q, b, h, z)
    if not warm:
        low, mean = z.min(), z.mean()
        for k in range(r):
            z[k] += 0.3 * (mean - low) - low + a[k]
        return
    nu = gap = 0.0
    for k in range(r):
        nu += a[k] - h[k] * z[k]
    for k in range(r):
        gap += h[k] * abs(z[k] + nu) * BALANCE / r
    for k in range(r):
        z[k] = max(z[k] + nu, (a[k] + gap) / h[k])


@jit
def _gradient(Q: Any, b: Any, h: Any, g: Any) -> None:
    """Write Qh - b to g; Q is of shape (r, r), all else of shape (r,)."""
    r = len(h)
    for k in range(r):
        total = -b[k]
        for l in range(r):
            total += Q[k, l] * h[l]
        g[k] = total


@jit
def _factor(Q: Any, h: Any, z: Any, L: Any) -> None:
    """Write the Cholesky factor of Q + diag(z / h) to the lower triangle of L, shape (r, r); h, z are of shape (r,)."""
    r = len(h)
    for i in range(r):
        for c in range(i):
            total = Q[i, c]
            for k in range(c):
                total -= L[i, k] * L[c, k]
            L[i, c] = total / L[c, c]
        added = z[i] / h[i]
        total = Q[i, i] + added
        for k in range(i):
            total -= L[i, k] * L[i, k]
        # Never below what was added to the diagonal: rounding may cancel it where Q is singular.
        L[i, i] = np.sqrt(max(total, added))


@jit
def _solve(L: Any, x: Any) -> None:
    """Solve L L'y = x in place; L is of shape (r, r), x of shape (r,)."""
    r = len(x)
    for i in range(r):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    for back in range(r):
        i = r - 1 - back
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]


@jit
def _direction(L: Any, M_ones: Any, g: Any, target: Any, h: Any, z: Any, dh: Any, dz: Any) -> Any:
    """Write Newton's step towards given products h z to dh and dz; return the multiplier of sum h = 1.

    Parameters
    ----------
    L : array of shape (r, r)
        Cholesky factor of M.
    M_ones, g, target, h, z : array of shape (r,)
        M^-1 1, Qh - b, the products, memberships and multipliers.
    dh, dz : array of shape (r,), changed in place
        The step.
    """
    r = len(h)
    lacking, size = 1.0, 0.0
    for k in range(r):
        dh[k] = target[k] / h[k] - g[k]
        lacking -= h[k]  # rounding only, but it must not accumulate
        size += M_ones[k]
    _solve(L, dh)
    nu = (dh.sum() - lacking) / size
    rest = lacking
    for k in range(r):
        dh[k] -= nu * M_ones[k]
        rest -= dh[k]
    for k in range(r):
        # Where z / h is tiny, dh is a difference of large numbers: correct all entries so that sum (h + dh) = 1.
        dh[k] += h[k] * rest
        dz[k] = (target[k] - z[k] * dh[k]) / h[k] - z[k]
    return nu


@jit
def _to_boundary(h: Any, dh: Any, z: Any, dz: Any) -> Any:
    """Return the largest t with h + t dh >= 0 and z + t dz >= 0; arrays of shape (r,)."""
    largest = 0.0
    for k in range(len(h)):
        largest = max(largest, -dh[k] / h[k], -dz[k] / z[k])
    return 1.0 / largest
