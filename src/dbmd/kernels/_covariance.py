"""The uncertainty of memberships: the covariance of each sample's posterior on its face, summed over samples.

The peak h of a sample is on a face F of the simplex, of f components. On that face the posterior is close to a Gaussian
with precision G = Q_FF / noise + f (f + 1) I, where f (f + 1) is the precision of the uniform distribution on the face,
restricted to memberships that sum to one. With the first f - 1 memberships as variables, the last being one minus their
sum, this is

    P    = D_ij / noise + f (f + 1) (1 if i = j else 0) + f (f + 1),       D_ij = (w_i - w_f)'(w_j - w_f)
    S_F  = T P^-1 T',    T = (I, -1)'                                      zero outside of F
    ln det P - ln f - (f - 1) ln(f (f + 1))                                gain over the determinant of the prior

D does not depend on the origin of W, and P is positive definite for every W.

S_F depends on the face and not on the sample. Up to ``MAX_RANK`` components, samples are counted face by face and the
covariances are computed once at the end. With more components there are too many faces to count, and the covariance of
each sample is computed.

Q and noise are in squared units of the data; memberships, S and P have no unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._faces import MAX_RANK, POSITIVE
from dbmd.kernels._rows import LANES, add_multiple, jit, padded

__all__ = ["FaceCovariance", "add_face", "add_faces", "count_faces", "workspace"]


class FaceCovariance:
    """The sum of the covariances of memberships over samples of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r)
        Gram matrix of W, about any origin, in squared units of the data.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    """

    def __init__(self, Q: NDArray[np.float64], noise: float) -> None:
        self._Q = np.ascontiguousarray(Q / noise, np.float64)
        self._S = np.zeros_like(self._Q)
        self._log_det = 0.0
        self._counts = np.zeros(1 << len(Q)) if len(Q) <= MAX_RANK else None

    def add(self, Ht: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Add samples with memberships Ht, shape (n, r), which count ``weights`` times, shape (n,), by default once."""
        Ht = np.require(Ht, requirements=["C", "W"])
        weights = np.ones(1) if weights is None else np.require(weights, np.float64, ["C", "W"])
        if self._counts is not None:
            count_faces(Ht, weights, self._counts)
        else:
            self._log_det += _add_samples(Ht, weights, self._Q, self._S)

    def send(self) -> None:
        """Do nothing: the sums are here."""

    def total(self) -> tuple[NDArray[np.float64], float]:
        """Return the sum over the samples of S_F, shape (r, r), and of the gains in log-determinant."""
        if self._counts is None:
            return self._S, self._log_det
        S = np.zeros_like(self._S)
        return S, add_faces(self._counts, self._Q, S)


@jit
def count_faces(Ht: Any, weights: Any, counts: Any) -> None:
    """Add the weight of each sample to the count of its face.

    Parameters
    ----------
    Ht : array of shape (n, r)
        Memberships; those above ``POSITIVE`` are on the face.
    weights : array of shape (n,) or (1,)
        Weight of each sample, or of all.
    counts : array of shape (2^r,), changed in place
        Sum of the weights on each face; bit k of the index says whether component k is on the face.
    """
    n, r = Ht.shape
    each = len(weights) > 1
    for i in range(n):
        face = np.int64(0)
        for k in range(r):
            face |= np.int64(Ht[i, k] > POSITIVE) << k
        counts[face] += weights[i] if each else weights[0]


@jit
def add_faces(counts: Any, Q: Any, S: Any) -> Any:
    """Add the covariances of all faces that were counted to S; return the sum of the gains in log-determinant.

    Parameters
    ----------
    counts : array of shape (2^r,)
        Sum of the weights on each face.
    Q : array of shape (r, r)
        W'W / noise.
    S : array of shape (r, r), changed in place
        Sum of the covariances.
    """
    r = Q.shape[0]
    members = np.empty(r, np.int64)
    room = workspace(r)
    total = 0.0
    for face in range(1, len(counts)):
        if counts[face] > 0.0:
            f = 0
            for k in range(r):
                members[f] = k
                f += face >> k & 1
            total += add_face(Q, members, f, counts[face], room, S)
    return total


@jit
def _add_samples(Ht: Any, weights: Any, Q: Any, S: Any) -> Any:
    """Add the covariance of each sample to S; return the sum of the gains in log-determinant.

    Parameters
    ----------
    Ht : array of shape (n, r)
        Memberships.
    weights : array of shape (n,) or (1,)
        Weight of each sample, or of all.
    Q : array of shape (r, r)
        W'W / noise.
    S : array of shape (r, r), changed in place
        Sum of the covariances.
    """
    n, r = Ht.shape
    each = len(weights) > 1
    members = np.empty(r + 1, np.int64)
    room = workspace(r)
    total = 0.0
    for i in range(n):
        f = 0
        for k in range(r):
            members[f] = k
            f += Ht[i, k] > POSITIVE
        total += add_face(Q, members, f, weights[i] if each else weights[0], room, S)
    return total


@jit
def workspace(r: Any) -> Any:
    """Return the workspace of :func:`add_face`, shape (3, r * padded(r))."""
    return np.zeros((3, r * padded(r)))


@jit
def add_face(Q: Any, members: Any, f: Any, weight: Any, room: Any, S: Any) -> Any:
    """Add weight * S_F to S; return weight * the gain in log-determinant.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / noise.
    members : array of int of shape (r,)
        The first f are the components of the face.
    f : int
        Number of components of the face; with fewer than two nothing is added.
    weight : float
        How often the face counts.
    room : array of shape (3, r * padded(r))
        Workspace: matrices of f - 1 rows, which start ``padded(f - 1)`` apart.
    S : array of shape (r, r), changed in place
        Sum of the covariances.
    """
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
    # P^-1 row by row, in the place of P; the inverses of the pivots are saved before.
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
