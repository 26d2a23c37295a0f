"""The W-step at one place: m lassos that share a Gram matrix."""

from __future__ import annotations

import numpy as np

from dbmd.model.problem import metric
from dbmd.model.statistics import Float, Quadratic

KKT = 1e-12  # largest violation of the optimality conditions, relative to the data of the row
BATCH = 4_000_000  # entries of the stacked r x r systems solved at once


def soft(W: Float, threshold: Float | float) -> Float:
    """Return sign(W) max(|W| - threshold, 0): soft thresholding."""
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0.0)


def minimise(f: Quadratic, lam: float, W0: Float) -> Float:
    """Return argmin_W 1/2 <W A, W> - <B, W> + lam ||W||_1, to KKT precision.

    Where A is singular and lam = 0 the minimiser is not unique: it is the one nearest to W0 in the metric of
    the cluster sizes, which is the one that the iterative solvers reach from W0. A component that no sample
    belongs to keeps its column of W0 (lam = 0) or becomes zero (lam > 0).

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
    open_rows = np.arange(len(W))
    sweeps = 1
    while len(open_rows) and sweeps <= 4096:
        part = Quadratic(f.A, f.B[open_rows])
        V = _newton(part, lam, W[open_rows])
        done = _violation(part, lam, V) <= KKT
        # Where Newton's guess of the signs was right, the row is solved. Elsewhere descend, and guess again.
        W[open_rows[done]] = V[done]
        open_rows, part = open_rows[~done], Quadratic(f.A, part.B[~done])
        W[open_rows] = _coordinate_descent(part, lam, W[open_rows], sweeps)
        open_rows = open_rows[_violation(part, lam, W[open_rows]) > KKT]
        sweeps *= 2
    return W


def _least_squares(f: Quadratic, W0: Float) -> Float:
    """Return W0 + (B - W0 A) A^+, the pseudo-inverse taken in the metric of the cluster sizes."""
    unit = 1.0 / np.sqrt(metric(f.A.sum(axis=1)))
    values, vectors = np.linalg.eigh(unit[:, None] * f.A * unit)
    kept = values > 1e-12 * values[-1]
    vectors = unit[:, None] * vectors[:, kept]
    W = W0 - (f.gradient(W0) @ vectors / values[kept]) @ vectors.T
    return W - (f.gradient(W) @ vectors / values[kept]) @ vectors.T  # once more: iterative refinement


def _violation(f: Quadratic, lam: float, W: Float) -> Float:
    """Return for each row the largest violation of 0 in gradient + lam sign(W), relative to the row's data."""
    G = f.gradient(W)
    wrong = np.where(W != 0.0, np.abs(G + lam * np.sign(W)), np.maximum(np.abs(G) - lam, 0.0))
    scale = np.abs(f.B).max(axis=1, initial=0.0) + np.abs(W) @ np.abs(f.A).max(axis=0) + lam
    return wrong.max(axis=1, initial=0.0) / scale


def _coordinate_descent(f: Quadratic, lam: float, W: Float, sweeps: int) -> Float:
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


def _newton(f: Quadratic, lam: float, W: Float) -> Float:
    """Return the minimisers if the signs of W were those of the solution: A_ss w_s = b_s - lam sign_s."""
    r = len(f.A)
    V = np.empty_like(W)
    rows = max(1, BATCH // (r * r))
    for start in range(0, len(W), rows):
        sign = np.sign(W[start : start + rows])
        used = sign != 0.0
        both = used[:, :, None] & used[:, None, :]
        M = np.where(both, f.A, np.eye(r))
        right = np.where(used, f.B[start : start + rows] - lam * sign, 0.0)
        try:
            V[start : start + rows] = np.linalg.solve(M, right[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:  # duplicate components: coordinate descent alone must do
            V[start : start + rows] = W[start : start + rows]
    return V
