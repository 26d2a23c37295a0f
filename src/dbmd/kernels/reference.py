"""The H-step in plain NumPy: the oracle for the fast kernels, and the place to read the algorithm.

For a sample x with b = W'x and Q = W'W the H-step is

    min_h  1/2 h'Qh - b'h - sum_k a_k ln h_k      on the simplex  h >= 0, sum h = 1.

Its optimality conditions, with multipliers z of h >= 0 and nu of sum h = 1, are those of a
quadratic programme whose complementarity products end at a_k instead of 0:

    Qh - b - z + nu 1 = 0,      h_k z_k = a_k,      sum h = 1,      h, z > 0.

So the Dirichlet prior is a barrier that an interior-point method stops at, and a_k = 0 (alpha0 = 1) is
where it usually ends. The method is Mehrotra's predictor-corrector [1]_. Eliminating dz leaves, for a
target t of the products, an r x r system with M = Q + diag(z / h), positive definite even if Q is not:

    M dh = t / h - (Qh - b) - nu 1,     1'dh = 0,         dz = t / h - z - (z / h) dh.

References
----------
.. [1] S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM J. Optim. 2 (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._tolerance import MAX_STEPS, tolerances

__all__ = ["solve_h", "sum_log"]

TO_BOUNDARY = 0.99  # how much of the way to the boundary a step may go
SHORT = 0.3  # after a step shorter than this, centre instead of correcting


def solve_h(
    Q: NDArray[Any],
    Bt: NDArray[Any],
    a: NDArray[Any],
    Ht0: NDArray[Any] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return for every row b of Bt the minimiser of 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, positive semidefinite.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W. Its type is the type of the computation.
    a : array of shape (r,)
        Weights >= 0 of the logarithms: sigma^2 (alpha0 - 1). Zero is taken to the limit.
    Ht0 : array of shape (n, r), optional
        Where to start, rows on the simplex. Without it every sample starts at the centre.
    out : array of shape (n, r), optional
        Where to put the result; may be Ht0 itself.

    Returns
    -------
    array of shape (n, r)
        Rows inside the simplex, of the type of Bt.
    """
    dtype = Bt.dtype
    scale, floor, tol = tolerances(Q, dtype)
    Q = (Q / scale).astype(dtype)
    Bt = Bt / dtype.type(scale)
    a = np.maximum(a / scale, floor).astype(dtype)
    H, Z = _centre(Q, Bt, a) if Ht0 is None else _near(Q, Bt, a, Ht0.astype(dtype))
    allowed = tol * np.maximum(1.0, np.ptp(Bt, axis=1))

    active = np.arange(len(Bt))  # the samples that have not converged; the others are left alone
    step = np.ones(len(Bt), dtype)
    for _ in range(MAX_STEPS):
        if not len(active):
            break
        h, z, new_step, error = _newton_step(Q, Bt[active], a, H[active], Z[active], step[active])
        H[active], Z[active], step[active] = h, z, new_step
        active = active[error > allowed[active]]

    H /= H.sum(axis=1, keepdims=True)
    if out is None:
        return H
    out[...] = H
    return out


def sum_log(Ht: NDArray[Any]) -> NDArray[np.float64]:
    """Return the column sums of ln Ht, shape (r,), in float64."""
    return np.log(Ht, dtype=np.float64).sum(axis=0)


def _centre(Q: NDArray[Any], Bt: NDArray[Any], a: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the centre of the simplex and multipliers that are dual feasible: z = Qh - b + nu > 0."""
    r = len(Q)
    H = np.full_like(Bt, 1.0 / r)
    G = Q.mean(axis=1) - Bt
    G -= G.min(axis=1, keepdims=True)
    return H, G + np.asarray(0.3, Bt.dtype) * G.mean(axis=1, keepdims=True) + a


def _near(Q: NDArray[Any], Bt: NDArray[Any], a: NDArray[Any], Ht0: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a point near Ht0, off the boundary so that a zero can become positive again."""
    H = np.maximum(Ht0, np.asarray(1e-2 / len(Q), Bt.dtype))
    H /= H.sum(axis=1, keepdims=True)
    G = H @ Q - Bt
    nu = a.sum() - (H * G).sum(axis=1, keepdims=True)
    return H, np.maximum(G + nu, np.maximum(a / H, np.asarray(1e-3, Bt.dtype)))


def _newton_step(
    Q: NDArray[Any],
    b: NDArray[Any],
    a: NDArray[Any],
    h: NDArray[Any],
    z: NDArray[Any],
    last_step: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the next (h, z), the step length and the error of the optimality conditions, row by row."""
    r = len(Q)
    M = Q + (z / h)[:, :, None] * np.eye(r, dtype=Q.dtype)
    M_one = np.linalg.solve(M, np.ones((len(h), r, 1), Q.dtype))[:, :, 0]

    def direction(target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        free = np.linalg.solve(M, (target / h - (h @ Q - b))[:, :, None])[:, :, 0]
        nu = free.sum(axis=1, keepdims=True) / M_one.sum(axis=1, keepdims=True)
        dh = free - nu * M_one
        return dh, target / h - z - z / h * dh, nu

    # Predictor: straight to the solution; how far it gets says how much to centre.
    dh, dz, _ = direction(np.broadcast_to(a, h.shape))
    reach = np.minimum(1.0, _to_boundary(h, dh, z, dz))[:, None]
    mu = (h * z).mean(axis=1, keepdims=True)
    mu_predicted = ((h + reach * dh) * (z + reach * dz)).mean(axis=1, keepdims=True)
    stalled = (last_step <= SHORT)[:, None]
    aim = np.where(stalled, SHORT * mu, (mu_predicted / mu) ** 3 * mu)
    target = np.maximum(aim, a) - np.where(stalled, 0.0, dh * dz)

    # Corrector: the same matrix, a better target.
    dh, dz, nu = direction(target.astype(Q.dtype))
    step = np.minimum(1.0, TO_BOUNDARY * _to_boundary(h, dh, z, dz)).astype(Q.dtype)
    h = h + step[:, None] * dh
    z = z + step[:, None] * dz
    products = np.abs(h * z - a).max(axis=1)
    gradient = np.abs(h @ Q - b - z + nu).max(axis=1) / r
    return h, z, step, np.maximum(products, gradient)


def _to_boundary(h: NDArray[Any], dh: NDArray[Any], z: NDArray[Any], dz: NDArray[Any]) -> NDArray[Any]:
    """Return for each row the largest t with h + t dh >= 0 and z + t dz >= 0."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.maximum((-dh / h).max(axis=1), (-dz / z).max(axis=1)).clip(min=0.0)
