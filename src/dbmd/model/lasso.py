"""Problem (P) on the driver: m lassos with the same Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dbmd.model.problem import metric
from dbmd.model.statistics import Float, Quadratic

KKT = 1e-11  # largest violation of the optimality conditions, relative to the data of the row
Method = Callable[[Quadratic, float, Float], Float]
BATCH = 4_000_000  # entries of the stacked r x r systems solved at once


def soft(W: Float, threshold: Float | float) -> Float:
    """Return sign(W) max(|W| - threshold, 0): soft thresholding."""
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0.0)


def minimise(f: Quadratic, lam: float, W0: Float) -> Float:
    """Return argmin_W 1/2 <W A, W> - <B, W> + lam ||W||_1, to KKT precision.

    If A is singular and lam = 0, there are several minimisers. The one nearest to W0 in the metric of the cluster sizes
    is returned, which is also where the iterative solvers end from W0. The column of a component without samples stays
    as in W0 (lam = 0) or becomes zero (lam > 0).

    Parameters
    ----------
    f : Quadratic
        A of shape (r, r), B of shape (m, r).
    lam : float
        Weight of the L1 norm, >= 0.
    W0 : array of shape (m, r)
        Where to start.

    Returns
    -------
    array of shape (m, r)
    """
    if lam == 0.0:
        return _least_squares(f, W0)
    W = W0.copy()
    rows = np.arange(len(W))  # rows that are not solved yet
    descents: list[Method] = [partial(_coordinate_descent, sweeps=sweeps) for sweeps in (2, 8, 32)]
    for method in (_same_signs, *descents, _interior_point):
        if not len(rows):
            break
        part = Quadratic(f.A, f.B[rows])
        W[rows] = _better(part, lam, W[rows], method(part, lam, W[rows]))
        # Once the signs are right, the rest is linear.
        W[rows] = _better(part, lam, W[rows], _same_signs(part, lam, W[rows]))
        rows = rows[_violation(part, lam, W[rows]) > KKT]
    return W


def _better(f: Quadratic, lam: float, W: Float, V: Float) -> Float:
    """Return for each row that of W or V which violates the optimality conditions less, shape (m, r)."""
    return np.where((_violation(f, lam, V) < _violation(f, lam, W))[:, None], V, W)


def _least_squares(f: Quadratic, W0: Float) -> Float:
    """Return W0 + (B - W0 A) A^+, the pseudo-inverse taken in the metric of the cluster sizes."""
    unit = 1.0 / np.sqrt(metric(f.A))
    values, vectors = np.linalg.eigh(unit[:, None] * f.A * unit)
    kept = values > 1e-12 * values[-1]
    vectors = unit[:, None] * vectors[:, kept]
    W = W0 - (f.gradient(W0) @ vectors / values[kept]) @ vectors.T
    return W - (f.gradient(W) @ vectors / values[kept]) @ vectors.T  # once more: iterative refinement


def _violation(f: Quadratic, lam: float, W: Float) -> Float:
    """Return the largest violation of 0 in gradient + lam sign(W) in each row, relative to its data, shape (m,)."""
    G = f.gradient(W)
    wrong = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), np.maximum(np.abs(G) - lam, 0.0))
    return wrong.max(axis=1, initial=0.0) / (np.abs(f.B).max(axis=1, initial=0.0) + lam)


def _in_batches(method: Method) -> Method:
    """Return a method that works on some rows at a time, so that their r x r matrices fit into memory."""

    def batched(f: Quadratic, lam: float, W: Float) -> Float:
        rows = max(1, BATCH // len(f.A) ** 2)
        parts = [method(Quadratic(f.A, f.B[i : i + rows]), lam, W[i : i + rows]) for i in range(0, len(W), rows)]
        return np.concatenate(parts)

    return batched


def _coordinate_descent(f: Quadratic, lam: float, W: Float, *, sweeps: int) -> Float:
    """Return W after some rounds of exact minimisation over one component at a time, all rows at once."""
    W = W.copy()
    diagonal = np.diagonal(f.A)
    for _ in range(sweeps):
        for k in range(len(f.A)):
            if diagonal[k] > 0.0:
                pull = f.B[:, k] - W @ f.A[:, k] + W[:, k] * diagonal[k]
                W[:, k] = soft(pull, lam) / diagonal[k]
            else:
                W[:, k] = 0.0
    return W


@_in_batches
def _same_signs(f: Quadratic, lam: float, W: Float) -> Float:
    """Return the minimisers if the signs of W are those of the solution: A_ss w_s = b_s - lam sign_s."""
    sign = np.sign(W)
    used = sign != 0.0
    M = np.where(used[:, :, None] & used[:, None, :], f.A, np.eye(len(f.A)))
    right = np.where(used, f.B - lam * sign, 0.0)[:, :, None]
    try:
        V = np.linalg.solve(M, right)[:, :, 0]
    except np.linalg.LinAlgError:  # dependent components: any solution will do
        V = (np.linalg.pinv(M, hermitian=True) @ right)[:, :, 0]
    return np.where(V * W > 0.0, V, 0.0)


@_in_batches
def _interior_point(f: Quadratic, lam: float, W: Float) -> Float:
    """Return the minimisers by an interior-point method, whose speed does not depend on the condition of A.

    With w = p - q, p, q > 0 and their multipliers x = lam + grad, y = lam - grad, the products p x and q y are driven
    to zero. Eliminating p and q leaves (A + diag(c)) dw = ... with c the harmonic sum of x / p and y / q.
    """
    scale = np.abs(f.B).max(axis=1, keepdims=True, initial=0.0) + lam
    size = np.broadcast_to(scale * len(f.A) / np.trace(f.A), W.shape)
    p, q = size, size
    x = y = np.broadcast_to(scale, W.shape)
    for _ in range(60):
        G = f.gradient(p - q)
        mu = 0.1 * ((p * x + q * y).mean(axis=1, keepdims=True) / 2.0)
        left, right = mu / p - lam - G, mu / q - lam + G
        over_p, over_q = x / p, y / q
        c = over_p * over_q / (over_p + over_q) + 1e-14 * np.trace(f.A)  # positive definite after rounding, too
        M = f.A + c[:, :, None] * np.eye(len(f.A))
        towards = left - over_p * (left + right) / (over_p + over_q)
        dw = np.linalg.solve(M, towards[:, :, None])[:, :, 0]
        dp = (over_q * dw + left + right) / (over_p + over_q)
        dq = dp - dw
        dx, dy = mu / p - x - over_p * dp, mu / q - y - over_q * dq
        shrink = np.maximum.reduce([-dp / p, -dq / q, -dx / x, -dy / y]).max(axis=1, keepdims=True)
        step = np.minimum(1.0, 0.99 / np.maximum(shrink, 1e-300))
        p, q, x, y = p + step * dp, q + step * dq, x + step * dx, y + step * dy
        if (mu <= 1e-16 * size.max() * scale).all():
            break
    # Strict complementarity: entries with a multiplier of zero are in the support, all others are zero.
    return np.where((p * lam > x * size) | (q * lam > y * size), p - q, 0.0)
