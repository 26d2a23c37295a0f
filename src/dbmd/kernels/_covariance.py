"""How uncertain memberships are: the covariance of each sample's posterior on its face, added up over samples.

The peak h of a sample lies on a face F of the simplex, of f components. On that face the posterior is close to a
Gaussian with precision G = Q_FF / noise + f (f + 1) I, where f (f + 1) is the precision of the uniform distribution on
the face, and memberships sum to one. Written in the f - 1 memberships that are free, the last one being what the
others leave, the precision and what follows from it are

    P    = D_ij / noise + f (f + 1) (1 if i = j else 0) + f (f + 1),       D_ij = (w_i - w_f)'(w_j - w_f)
    S_F  = T P^-1 T',    T = (I, -1)'                                      zero outside of F
    ln det P - ln f - (f - 1) ln(f (f + 1))                                what the data add to the prior's precision

D does not depend on the origin of W, and P is positive definite whatever W is.

S_F depends on the face and not on the sample. Up to ``MAX_RANK`` components samples are counted face by face and the
covariances are found once, at the end. Of more components there are too many faces to count, and each sample has its
own computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._faces import MAX_RANK, POSITIVE
from dbmd.kernels._rows import LANES, add_multiple, jit, padded

__all__ = ["FaceCovariance"]


class FaceCovariance:
    """The sum of the covariances of memberships over samples of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r)
        Gram matrix of W, about any origin.
    noise : float
        Variance of the noise in the plane of W.
    """

    def __init__(self, Q: NDArray[np.float64], noise: float) -> None:
        self._Q = np.ascontiguousarray(Q / noise, np.float64)
        self._S = np.zeros_like(self._Q)
        self._log_det = 0.0
        self._counts = np.zeros(1 << len(Q)) if len(Q) <= MAX_RANK else None

    def add(self, Ht: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Take in samples by their memberships, shape (n, r), each as often as its weight says, shape (n,)."""
        Ht = np.require(Ht, requirements=["C", "W"])
        weights = np.ones(1) if weights is None else np.require(weights, np.float64, ["C", "W"])
        if self._counts is not None:
            _count_faces(Ht, weights, self._counts)
        else:
            self._log_det += _add_samples(Ht, weights, self._Q, self._S)

    def total(self) -> tuple[NDArray[np.float64], float]:
        """Return the sum of the S_F, shape (r, r), and of the logarithms of the determinants."""
        if self._counts is None:
            return self._S, self._log_det
        S = np.zeros_like(self._S)
        return S, _add_faces(self._counts, self._Q, S)


@jit
def _count_faces(Ht: Any, weights: Any, counts: Any) -> None:
    n, r = Ht.shape
    each = len(weights) > 1
    for i in range(n):
        face = np.int64(0)
        for k in range(r):
            face |= np.int64(Ht[i, k] > POSITIVE) << k
        counts[face] += weights[i] if each else weights[0]


@jit
def _add_faces(counts: Any, Q: Any, S: Any) -> Any:
    r = Q.shape[0]
    members = np.empty(r, np.int64)
    room = _room(r)
    total = 0.0
    for face in range(1, len(counts)):
        if counts[face] > 0.0:
            f = 0
            for k in range(r):
                members[f] = k
                f += face >> k & 1
            total += _add_face(Q, members, f, counts[face], room, S)
    return total


@jit
def _add_samples(Ht: Any, weights: Any, Q: Any, S: Any) -> Any:
    n, r = Ht.shape
    each = len(weights) > 1
    members = np.empty(r + 1, np.int64)
    room = _room(r)
    total = 0.0
    for i in range(n):
        f = 0
        for k in range(r):
            members[f] = k
            f += Ht[i, k] > POSITIVE
        total += _add_face(Q, members, f, weights[i] if each else weights[0], room, S)
    return total


@jit
def _room(r: Any) -> Any:
    return np.zeros((3, r * padded(r)))


@jit
def _add_face(Q: Any, members: Any, f: Any, weight: Any, room: Any, S: Any) -> Any:
    """Add weight * S_F to S for the face of the first f members; return weight * its determinant's logarithm."""
    if f < 2:
        return 0.0
    s = f - 1
    wide = padded(s)
    last = members[s]
    prior = float(f * (f + 1))
    P, X = room[0], room[1]
    for i in range(s):
        k = members[i]
        for j in range(wide):
            P[i * wide + j] = X[i * wide + j] = 0.0
        for j in range(i, s):
            l = members[j]
            P[i * wide + j] = Q[k, l] - Q[k, last] - Q[last, l] + Q[last, last] + prior
        P[i * wide + i] += prior
        X[i * wide + i] = 1.0
    # P = U'EU by rows, the upper triangle in place, and X becomes U^-T, a unit lower triangle: P^-1 = X'E^-1 X.
    log_det = -np.log(float(f)) - s * np.log(prior)
    product = 1.0
    for k in range(s):
        pivot = P[k * wide + k]
        product *= pivot
        if product > 1e200:
            log_det += np.log(product)
            product = 1.0
        inverse = 1.0 / pivot
        for i in range(k + 1, s):
            factor = -P[k * wide + i] * inverse
            for c in range(i // LANES * LANES, wide, LANES):
                add_multiple(P, i * wide + c, factor, P, k * wide + c)
            for c in range(0, k + 1, LANES):
                add_multiple(X, i * wide + c, factor, X, k * wide + c)
        P[k * wide + k] = inverse
    log_det += np.log(product)
    # The inverse, row by row, where P was; the pivots' inverses go first.
    inverses = room[2]
    for k in range(s):
        inverses[k] = P[k * wide + k]
    for i in range(s * wide):
        P[i] = 0.0
    for l in range(s):
        for i in range(l + 1):
            factor = X[l * wide + i] * inverses[l]
            for c in range(0, l + 1, LANES):
                add_multiple(P, i * wide + c, factor, X, l * wide + c)
    for i in range(s):
        k = members[i]
        to_last = 0.0
        for j in range(s):
            entry = weight * P[i * wide + j]
            S[k, members[j]] += entry
            to_last += entry
        S[k, last] -= to_last
        S[last, k] -= to_last
        S[last, last] += to_last
    return weight * log_det
