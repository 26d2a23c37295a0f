"""Small linear systems of several samples at a time, one in each lane of vector registers.

Samples with gaps have a Gram matrix each. Elimination on a matrix of four or ten rows is mostly waiting, for divisions
and for branches; with ``SIDE`` samples side by side it takes as long as for one. So that all take the same steps,
matrices have all r rows: those of components that are not on the face of a sample are those of the identity.

An array "in lanes" is flat: number p of sample t is at ``p * SIDE + t``, and entry (i, j) of a matrix is number
i * r + j. What happens in one lane does not depend on the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.kernels._rows import SIDE, inlined, invert, multiply, scale, subtract_products

__all__ = ["add_covariances", "solve_faces"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end


@inlined
def solve_faces(
    M: Any, b: Any, inside: Any, r: Any, L: Any, u: Any, d: Any, x: Any, w: Any, rest: Any, least: Any, y: Any
) -> None:
    """Write memberships inside and multipliers outside of a face to y.

    They are found as in :mod:`dbmd.kernels._pivoting`, by elimination on the components inside.

    Parameters
    ----------
    M : array of shape (r * r * SIDE,)
        Gram matrices plus one, in lanes.
    b, inside : array of shape (r * SIDE,)
        The linear terms, and 1 for each component on the face, else 0.
    r : int
        Number of components.
    L : array of shape ((r + 2) * r * SIDE,), changed in place
        Workspace.
    u, d, x, w, rest : array of shape (r * SIDE,), changed in place
        Workspace.
    least : array of shape (SIDE,), changed in place
        The least pivot of each sample.
    y : array of shape (r * SIDE,), changed in place
        The result.
    """
    for j in range(r * SIDE):
        rest[j] = 1.0 - inside[j]
    _factor(M, b, inside, rest, r, 2, L, u, d, least)
    _substitute(L, r, r, w)
    _substitute(L, r + 1, r, x)
    for t in range(SIDE):
        total, size = -1.0, 0.0
        for k in range(r):
            total += x[at(k * SIDE + t)]
            size += w[at(k * SIDE + t)]
        nu = total / size
        for k in range(r):
            p = at(k * SIDE + t)
            rest[p] = nu * w[p] - x[p]
            y[p] = nu - b[p]
    for k in range(r):
        subtract_products(y, k * SIDE, M, k * r * SIDE, SIDE, rest, 0, SIDE, r)
    for j in range(r * SIDE):
        y[j] = -rest[j] if inside[j] > 0.0 else y[j]


@inlined
def _factor(M: Any, b: Any, inside: Any, added: Any, r: Any, n_sides: Any, L: Any, u: Any, d: Any, least: Any) -> None:
    """Write the unit lower factor of A = L D L' to L, where A is M on the face, and zero elsewhere, plus a diagonal.

    Two more rows are right-hand sides p, ones and b on the face: for them it is D^-1 L^-1 p.

    Parameters
    ----------
    M, b, inside, r
        As in :func:`solve_faces`.
    added : array of shape (r * SIDE,)
        The diagonal.
    n_sides : int
        Number of right-hand sides: 1 for ones, 2 for b, too.
    L : array of shape ((r + n_sides) * r * SIDE,), changed in place
        The result.
    u, d : array of shape (r * SIDE,), changed in place
        Workspace, and one over each entry of D.
    least : array of shape (SIDE,), changed in place
        The least entry of D.
    """
    for t in range(SIDE):
        least[t] = np.inf
    for i in range(r + n_sides):
        for j in range(min(i + 1, r)):
            if i < r:
                multiply(u, j * SIDE, M, (i * r + j) * SIDE, inside, j * SIDE, inside, i * SIDE)
            elif i == r:
                scale(u, j * SIDE, inside, j * SIDE, inside, j * SIDE)
            else:
                scale(u, j * SIDE, b, j * SIDE, inside, j * SIDE)
        for j in range(min(i, r)):
            subtract_products(u, j * SIDE, u, 0, SIDE, L, j * r * SIDE, SIDE, j)
            scale(L, (i * r + j) * SIDE, u, j * SIDE, d, j * SIDE)
        if i < r:
            subtract_products(u, i * SIDE, u, 0, SIDE, L, i * r * SIDE, SIDE, i)
            invert(d, i * SIDE, u, i * SIDE, added, i * SIDE, least)


@inlined
def _substitute(L: Any, row: Any, r: Any, x: Any) -> None:
    """Write A^-1 p to x, shape (r * SIDE,), where p is a right-hand side after elimination, a row of L."""
    for p in range(r * SIDE):
        x[p] = L[at(row * r * SIDE + p)]
    for back in range(r):
        j = r - 1 - back
        below = (j + 1) * r + j
        subtract_products(x, j * SIDE, L, below * SIDE, r * SIDE, x, (j + 1) * SIDE, SIDE, back)


@inlined
def add_covariances(
    G: Any,
    inside: Any,
    weights: Any,
    r: Any,
    L: Any,
    X: Any,
    u: Any,
    d: Any,
    w: Any,
    scaled: Any,
    least: Any,
    S: Any,
) -> Any:
    """Write minus the covariance of each sample, times its weight, to S; return the sum of the log-determinants.

    With G the precision on the face (:mod:`dbmd.kernels._covariance`), S = G^-1 - G^-1 1 1' G^-1 / 1'G^-1 1 is the
    covariance of memberships that sum to one, and the gain is ln det G + ln(1'G^-1 1 / f) - (f - 1) ln(f (f + 1)).

    Parameters
    ----------
    G : array of shape (r * r * SIDE,)
        Gram matrices over the noise, in lanes; the lower triangles are used.
    inside : array of shape (r * SIDE,)
        1 for each component on the face, else 0; at least one is.
    weights : array of shape (SIDE,)
        Weight of each sample.
    r : int
        Number of components.
    L, X : array of shape ((r + 1) * r * SIDE,), changed in place
        Workspace.
    u, d, w, scaled, least : array of shape (r * SIDE,), changed in place
        Workspace.
    S : array of shape (r * r * SIDE,), changed in place
        The covariances times minus the weights, in lanes: the lower triangles, the rest is not defined.
    """
    for t in range(SIDE):
        f = 0.0
        for k in range(r):
            f += inside[at(k * SIDE + t)]
        for k in range(r):
            p = at(k * SIDE + t)
            scaled[p] = f * (f + 1.0) * inside[p] + 1.0 - inside[p]
    _factor(G, inside, inside, scaled, r, 1, L, u, d, least)
    _substitute(L, r, r, w)
    gain = 0.0
    for t in range(SIDE):
        f = size = log_det = 0.0
        product = 1.0
        for k in range(r):
            p = at(k * SIDE + t)
            f += inside[p]
            size += w[p]
            product *= d[p]
            if product < 1e-200:
                log_det -= np.log(product)
                product = 1.0
        for k in range(r):
            scaled[at(k * SIDE + t)] = w[at(k * SIDE + t)] / size
        gain += weights[t] * (log_det + np.log(size / (f * product)) - (f - 1.0) * np.log(f * (f + 1.0)))
    _invert(L, r, X)
    for i in range(r):
        for k in range(i, r):  # column i of D^-1 L^-1
            scale(u, k * SIDE, X, (k * r + i) * SIDE, d, k * SIDE)
        for j in range(i + 1):
            p = (i * r + j) * SIDE
            scale(S, p, scaled, i * SIDE, w, j * SIDE)
            subtract_products(S, p, X, (i * r + j) * SIDE, r * SIDE, u, i * SIDE, SIDE, r - i)
        for t in range(SIDE):
            S[at((i * r + i) * SIDE + t)] += 1.0 - inside[at(i * SIDE + t)]
        for j in range(i + 1):
            scale(S, (i * r + j) * SIDE, S, (i * r + j) * SIDE, weights, 0)
    return gain


@inlined
def _invert(L: Any, r: Any, X: Any) -> None:
    """Write the inverse of a unit lower triangle, in lanes, to X; both have rows of r * SIDE numbers."""
    for i in range(r):
        for j in range(i):
            p = (i * r + j) * SIDE
            for t in range(SIDE):
                X[at(p + t)] = 0.0
            subtract_products(X, p, L, p, SIDE, X, (j * r + j) * SIDE, r * SIDE, i - j)
        for t in range(SIDE):
            X[at((i * r + i) * SIDE + t)] = 1.0
