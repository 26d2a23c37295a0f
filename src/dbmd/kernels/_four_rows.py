"""Small linear systems of several samples at a time, one in each lane of a vector register.

Samples with gaps have a Gram matrix each. Elimination on a matrix of four or ten rows is mostly waiting, for divisions
and for branches; with ``LANES`` samples side by side it takes as long as for one. So that all take the same steps,
matrices have all r rows: those of components that are not on the face of a sample are those of the identity.

An array "in lanes" is flat: number p of sample t is at ``p * LANES + t``, and entry (i, j) of a matrix is number
i * r + j. What happens in one lane does not depend on the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.kernels._faces import REGULAR
from dbmd.kernels._rows import LANES, jit, multiply, subtract_products

__all__ = ["add_covariances", "solve_faces"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end


@jit
def solve_faces(M: Any, b: Any, inside: Any, r: Any, L: Any, u: Any, d: Any, x: Any, w: Any, rest: Any, y: Any) -> Any:
    """Write memberships inside and multipliers outside of a face to y; return which samples have failed, as bits.

    They are found as in :mod:`dbmd.kernels._pivoting`, by elimination on the components inside.

    Parameters
    ----------
    M : array of shape (r * r * LANES,)
        Gram matrices plus one, in lanes.
    b, inside : array of shape (r * LANES,)
        The linear terms, and 1 for each component on the face, else 0.
    r : int
        Number of components.
    L : array of shape ((r + 2) * r * LANES,), changed in place
        Workspace.
    u, d, x, w, rest : array of shape (r * LANES,), changed in place
        Workspace.
    y : array of shape (r * LANES,), changed in place
        The result.
    """
    bad = 0
    for i in range(r + 2):
        _masked_row(M, b, inside, i, r, u)
        if i < r:
            for t in range(LANES):
                u[at(i * LANES + t)] += 1.0 - inside[at(i * LANES + t)]
        bad |= _eliminate_row(u, i, r, L, d)
    _substitute(L, r, r, x)
    _substitute(L, r + 1, r, w)
    for t in range(LANES):
        total, size = -1.0, 0.0
        for k in range(r):
            total += x[at(k * LANES + t)]
            size += w[at(k * LANES + t)]
        nu = total / size
        for k in range(r):
            p = at(k * LANES + t)
            rest[p] = nu * w[p] - x[p]
            y[p] = nu - b[p]
    for k in range(r):
        subtract_products(y, k * LANES, M, k * r * LANES, LANES, rest, 0, LANES, r)
        for t in range(LANES):
            p = at(k * LANES + t)
            y[p] = -rest[p] if inside[p] > 0.0 else y[p]
    return bad


@jit
def _masked_row(M: Any, b: Any, inside: Any, i: Any, r: Any, u: Any) -> None:
    """Write row i of a matrix on the face to u, up to its diagonal; row r is b, row r + 1 is ones.

    Parameters are those of :func:`solve_faces`.
    """
    for j in range(min(i + 1, r)):
        if i > r:
            for t in range(LANES):
                u[at(j * LANES + t)] = inside[at(j * LANES + t)]
        elif i == r:
            multiply(u, j * LANES, b, j * LANES, inside, j * LANES)
        else:
            multiply(u, j * LANES, M, (i * r + j) * LANES, inside, j * LANES)
            multiply(u, j * LANES, u, j * LANES, inside, i * LANES)


@jit
def _eliminate_row(u: Any, i: Any, r: Any, L: Any, inverses: Any) -> Any:
    """Write row i of the unit lower factor of A = L D L' to L; return which pivots are near zero, as bits.

    Rows from r on are right-hand sides p: for them it is D^-1 L^-1 p.

    Parameters
    ----------
    u : array of shape (r * LANES,), changed in place
        Row i of A, up to its diagonal.
    i, r : int
        The row, size of A.
    L : array of shape (rows * r * LANES,), changed in place
        With the rows before.
    inverses : array of shape (r * LANES,), changed in place
        One over each entry of D.
    """
    for j in range(min(i, r)):
        subtract_products(u, j * LANES, u, 0, LANES, L, j * r * LANES, LANES, j)
        multiply(L, (i * r + j) * LANES, u, j * LANES, inverses, j * LANES)
    bad = 0
    if i < r:
        subtract_products(u, i * LANES, u, 0, LANES, L, i * r * LANES, LANES, i)
        for t in range(LANES):
            pivot = u[at(i * LANES + t)]
            inverses[at(i * LANES + t)] = 1.0 / pivot
            bad |= np.int64(not pivot * REGULAR >= 1.0) << t
    return bad


@jit
def _substitute(L: Any, row: Any, r: Any, x: Any) -> None:
    """Write A^-1 p to x, shape (r * LANES,), where p is a right-hand side after elimination, a row of L."""
    for p in range(r * LANES):
        x[p] = L[at(row * r * LANES + p)]
    for back in range(r):
        j = r - 1 - back
        below = (j + 1) * r + j
        subtract_products(x, j * LANES, L, below * LANES, r * LANES, x, (j + 1) * LANES, LANES, back)


@jit
def add_covariances(
    G: Any, inside: Any, weights: Any, r: Any, L: Any, X: Any, u: Any, d: Any, w: Any, scaled: Any, S: Any
) -> Any:
    """Write the covariance of each sample, times its weight, to S; return the sum of the gains in log-determinant.

    With G the precision on the face (:mod:`dbmd.kernels._covariance`), S = G^-1 - G^-1 1 1' G^-1 / 1'G^-1 1 is the
    covariance of memberships that sum to one, and the gain is ln det G + ln(1'G^-1 1 / f) - (f - 1) ln(f (f + 1)).

    Parameters
    ----------
    G : array of shape (r * r * LANES,)
        Gram matrices over the noise, in lanes; the lower triangles are used.
    inside : array of shape (r * LANES,)
        1 for each component on the face, else 0; at least one is.
    weights : array of shape (LANES,)
        Weight of each sample.
    r : int
        Number of components.
    L, X : array of shape ((r + 1) * r * LANES,), changed in place
        Workspace.
    u, d, w, scaled : array of shape (r * LANES,), changed in place
        Workspace.
    S : array of shape (r * r * LANES,), changed in place
        The covariances, in lanes: the lower triangles, the rest is not defined.
    """
    for t in range(LANES):
        f = 0.0
        for k in range(r):
            f += inside[at(k * LANES + t)]
        for k in range(r):
            scaled[at(k * LANES + t)] = f * (f + 1.0)
    for i in range(r + 1):
        _masked_row(G, inside, inside, i, r, u)
        if i < r:
            for t in range(LANES):
                p = at(i * LANES + t)
                u[p] += scaled[p] if inside[p] > 0.0 else 1.0
        _eliminate_row(u, i, r, L, d)
    _substitute(L, r, r, w)
    gain = 0.0
    for t in range(LANES):
        f = size = log_det = 0.0
        product = 1.0
        for k in range(r):
            p = at(k * LANES + t)
            f += inside[p]
            size += w[p]
            product *= d[p]
            if product < 1e-200:
                log_det -= np.log(product)
                product = 1.0
        for k in range(r):
            scaled[at(k * LANES + t)] = w[at(k * LANES + t)] / size
        gain += weights[t] * (log_det + np.log(size / (f * product)) - (f - 1.0) * np.log(f * (f + 1.0)))
    _invert(L, r, X)
    for i in range(r):
        for k in range(i, r):  # column i of D^-1 L^-1
            multiply(u, k * LANES, X, (k * r + i) * LANES, d, k * LANES)
        for j in range(i + 1):
            p = (i * r + j) * LANES
            multiply(S, p, scaled, i * LANES, w, j * LANES)
            subtract_products(S, p, X, (i * r + j) * LANES, r * LANES, u, i * LANES, LANES, r - i)
        for t in range(LANES):
            S[at((i * r + i) * LANES + t)] += 1.0 - inside[at(i * LANES + t)]
        for j in range(i + 1):
            for t in range(LANES):
                S[at((i * r + j) * LANES + t)] *= -weights[t]
    return gain


@jit
def _invert(L: Any, r: Any, X: Any) -> None:
    """Write the inverse of a unit lower triangle, in lanes, to X; both have rows of r * LANES numbers."""
    for i in range(r):
        for j in range(i):
            p = (i * r + j) * LANES
            for t in range(LANES):
                X[at(p + t)] = 0.0
            subtract_products(X, p, L, p, LANES, X, (j * r + j) * LANES, r * LANES, i - j)
        for t in range(LANES):
            X[at((i * r + i) * LANES + t)] = 1.0
