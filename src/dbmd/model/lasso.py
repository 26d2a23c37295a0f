"""Problem (P) on the driver: m lassos with the same Gram matrix, some of whose entries may have to be nonnegative."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dbmd.model.penalty import Lam, Penalty
from dbmd.model.problem import metric
from dbmd.model.statistics import Float, Quadratic

KKT = 1e-11  # largest violation of the optimality conditions, relative to the data of the row
Method = Callable[[Quadratic, Penalty, Float], Float]
BATCH = 4_000_000  # entries of the stacked r x r systems solved at once


def minimise(f: Quadratic, lam: Lam, W0: Float, nonnegative: NDArray[np.bool_] | None = None) -> Float:
    """Return argmin_W 1/2 <W A, W> - <B, W> + sum_k lam_k ||w_k||_1, to KKT precision.

    If A is singular and nothing is penalised, there are several minimisers. The one nearest to W0 in the metric of the
    cluster sizes is returned, which is also where the iterative solvers end from W0. The column of a component without
    samples stays as in W0 (lam_k = 0) or becomes zero (lam_k > 0).

    Parameters
    ----------
    f : Quadratic
        A of shape (r, r), B of shape (m, r).
    lam : float or array of shape (r,)
        Weight of the L1 norm of each column, or of all, >= 0.
    W0 : array of shape (m, r)
        Where to start.
    nonnegative : array of bool of shape (r,), optional
        Columns without negative entries; by default none.

    Returns
    -------
    array of shape (m, r)
    """
    penalty = Penalty(lam, nonnegative)
    if penalty.is_nil:
        return _least_squares(f, W0)
    if nonnegative is None and np.all(lam):
        return _descend(f, penalty, W0)
    used = np.diagonal(f.A) > 0.0
    if not used.all():
        # A column without curvature is not coupled to the others, and the methods do not know where to leave it.
        W = np.where(np.asarray(lam) > 0.0, 0.0, penalty.feasible(W0))
        if used.any():
            part, own = Quadratic(f.A[np.ix_(used, used)], f.B[:, used]), penalty.of(used)
            W[:, used] = minimise(part, own.lam, W0[:, used], own.nonnegative)
        return W
    # Without a penalty, many rows of the minimiser may have the right signs.
    return _descend(f, penalty, penalty.feasible(W0 if np.any(lam) else _least_squares(f, W0)))


def _descend(f: Quadratic, penalty: Penalty, W: Float) -> Float:
    """Return the minimisers, shape (m, r), by methods that take ever longer, each for the rows not solved before."""
    W = W.copy()
    rows = np.arange(len(W)) if penalty.nonnegative is None else np.flatnonzero(_violation(f, penalty, W) > KKT)
    descents: list[Method] = [partial(_coordinate_descent, sweeps=sweeps) for sweeps in (2, 8, 32)]
    for method in (_same_signs, *descents, _interior_point):
        if not len(rows):
            break
        part = Quadratic(f.A, f.B[rows])
        W[rows] = _better(part, penalty, W[rows], method(part, penalty, W[rows]))
        # Once the signs are right, the rest is linear.
        W[rows] = _better(part, penalty, W[rows], _same_signs(part, penalty, W[rows]))
        rows = rows[_violation(part, penalty, W[rows]) > KKT]
    return W


def _better(f: Quadratic, penalty: Penalty, W: Float, V: Float) -> Float:
    """Return for each row that of W or V which violates the optimality conditions less, shape (m, r)."""
    return np.where((_violation(f, penalty, V) < _violation(f, penalty, W))[:, None], V, W)


def _least_squares(f: Quadratic, W0: Float) -> Float:
    """Return W0 + (B - W0 A) A^+, the pseudo-inverse taken in the metric of the cluster sizes."""
    unit = 1.0 / np.sqrt(metric(f.A))
    values, vectors = np.linalg.eigh(unit[:, None] * f.A * unit)
    kept = values > 1e-12 * values[-1]
    vectors = unit[:, None] * vectors[:, kept]
    W = W0 - (f.gradient(W0) @ vectors / values[kept]) @ vectors.T
    return W - (f.gradient(W) @ vectors / values[kept]) @ vectors.T  # once more: iterative refinement


def _violation(f: Quadratic, penalty: Penalty, W: Float) -> Float:
    """Return the largest violation of the optimality conditions in each row, relative to its data, shape (m,)."""
    wrong = penalty.violation(f.gradient(W), W).max(axis=1, initial=0.0)
    return wrong / np.maximum(_scale(f, penalty), np.finfo(float).tiny)


def _scale(f: Quadratic, penalty: Penalty) -> Float:
    """Return the size of the linear terms of each row, shape (m,)."""
    return np.abs(f.B).max(axis=1, initial=0.0) + np.max(penalty.lam)


def _in_batches(method: Method) -> Method:
    """Return a method that works on some rows at a time, so that their r x r matrices fit into memory."""

    def batched(f: Quadratic, penalty: Penalty, W: Float) -> Float:
        rows = max(1, BATCH // len(f.A) ** 2)
        parts = [method(Quadratic(f.A, f.B[i : i + rows]), penalty, W[i : i + rows]) for i in range(0, len(W), rows)]
        return np.concatenate(parts)

    return batched


def _coordinate_descent(f: Quadratic, penalty: Penalty, W: Float, *, sweeps: int) -> Float:
    """Return W after some rounds of exact minimisation over one component at a time, all rows at once."""
    W = W.copy()
    diagonal = np.diagonal(f.A)
    one = np.eye(len(f.A), dtype=bool)
    for _ in range(sweeps):
        for k in range(len(f.A)):
            if diagonal[k] > 0.0:
                pull = f.B[:, k] - W @ f.A[:, k] + W[:, k] * diagonal[k]
                W[:, k] = penalty.of(one[k]).proximal(pull[:, None], 1.0)[:, 0] / diagonal[k]
            else:
                W[:, k] = 0.0
    return W


@_in_batches
def _same_signs(f: Quadratic, penalty: Penalty, W: Float) -> Float:
    """Return the minimisers if the signs of W are those of the solution: A_ss w_s = b_s - lam_s sign_s."""
    sign, free = np.sign(W), penalty.is_free(len(f.A))
    used = (sign != 0.0) | free
    M = np.where(used[:, :, None] & used[:, None, :], f.A, np.eye(len(f.A)))
    right = np.where(used, f.B - penalty.lam * sign, 0.0)[:, :, None]
    try:
        V = np.linalg.solve(M, right)[:, :, 0]
    except np.linalg.LinAlgError:  # dependent components: any solution will do
        V = (np.linalg.pinv(M, hermitian=True) @ right)[:, :, 0]
    return np.where(free | (V * W > 0.0), V, 0.0)


@_in_batches
def _interior_point(f: Quadratic, penalty: Penalty, W: Float) -> Float:
    """Return the minimisers by an interior-point method, whose speed does not depend on the condition of A.

    With w = p - q, p, q > 0 and their multipliers x = lam + grad, y = lam - grad, the products p x and q y are driven
    to zero. Eliminating p and q leaves (A + diag(c)) dw = ... with c the harmonic sum of x / p and y / q. A nonnegative
    entry has no q, a free one neither p nor q: there x / p, and 0, take the place of the harmonic sum.
    """
    lam, free = penalty.lam, penalty.is_free(len(f.A))
    signed = ~free if penalty.nonnegative is None else ~free & ~penalty.nonnegative  # entries with p and q
    n_products = np.count_nonzero(~free) + np.count_nonzero(signed)
    scale = _scale(f, penalty)[:, None]
    size = np.broadcast_to(scale * len(f.A) / np.trace(f.A), W.shape)
    p, q, v = size, size, np.zeros_like(W)  # v: the free entries
    x = y = np.broadcast_to(scale, W.shape)
    for _ in range(60):
        w = np.where(free, v, p - np.where(signed, q, 0.0))
        G = f.gradient(w)
        products = np.where(free, 0.0, p * x + np.where(signed, q * y, 0.0))
        mu = 0.1 * (products.sum(axis=1, keepdims=True) / n_products)
        left, right = mu / p - lam - G, mu / q - lam + G
        over_p, over_q = x / p, y / q
        c = np.where(signed, over_p * over_q / (over_p + over_q), np.where(free, 0.0, over_p))
        c = c + 1e-14 * np.trace(f.A)  # positive definite after rounding, too
        M = f.A + c[:, :, None] * np.eye(len(f.A))
        towards = np.where(free, -G, left)
        towards = np.where(signed, left - over_p * (left + right) / (over_p + over_q), towards)
        dw = np.linalg.solve(M, towards[:, :, None])[:, :, 0]
        dp = np.where(signed, (over_q * dw + left + right) / (over_p + over_q), np.where(free, 0.0, dw))
        dq = np.where(signed, dp - dw, 0.0)
        dx = np.where(free, 0.0, mu / p - x - over_p * dp)
        dy = np.where(signed, mu / q - y - over_q * dq, 0.0)
        shrink = np.maximum.reduce([-dp / p, -dq / q, -dx / x, -dy / y]).max(axis=1, keepdims=True)
        step = np.minimum(1.0, 0.99 / np.maximum(shrink, 1e-300))
        p, q, x, y, v = p + step * dp, q + step * dq, x + step * dx, y + step * dy, v + step * dw
        if (mu <= 1e-16 * size.max() * scale).all():
            break
    # Strict complementarity: entries with a multiplier of zero are in the support, all others are zero.
    limit = np.where(signed, lam, scale)
    w = np.where(free, v, p - np.where(signed, q, 0.0))
    return np.where(free | (p * limit > x * size) | (signed & (q * lam > y * size)), w, 0.0)
