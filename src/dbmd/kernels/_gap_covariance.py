"""The uncertainty of the memberships of samples with gaps: as in :mod:`dbmd.kernels._covariance`, sample by sample.

Instead of Q, each sample has the Gram matrix of W over its observed features (:mod:`dbmd.kernels._observed`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._faces import POSITIVE
from dbmd.kernels._observed import in_rows, largest, observed_gram
from dbmd.kernels._rows import LANES, SIDE, add_multiple, add_product_tile, jit, padded
from dbmd.kernels._side_by_side import add_covariances
from dbmd.model.gaps import Gaps

__all__ = ["GapCovariance"]

at = np.uint64  # an index that cannot be negative: numba need not check whether it counts from the end


class GapCovariance:
    """The sum of the covariances of memberships over samples with gaps, of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, in squared units of the data.
    W : array of shape (m, r)
        The basis, about any point.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    """

    def __init__(self, Q: NDArray[np.float64], W: NDArray[np.float64], noise: float) -> None:
        self._Q, self._W, self._noise = in_rows(Q, int(padded(len(Q)))), in_rows(W), noise
        self._S, self._WS, self._log_det = np.zeros(Q.size * SIDE), np.zeros_like(self._W), 0.0
        self._shape = W.shape

    def add(self, Ht: NDArray[Any], gaps: Gaps | NDArray[np.bool_], weights: NDArray[np.float64] | None = None) -> None:
        """Add samples: memberships, shape (n, r), gaps or a mask, shape (n, m), and weights, shape (n,) or one."""
        Ht = np.require(Ht, requirements=["C", "W"])
        weights = np.ones(len(Ht)) if weights is None else np.require(weights, np.float64, ["C", "W"])
        self._log_det += _add_rows(Ht, *Gaps.of(gaps), weights, self._Q, self._W, self._noise, self._S, self._WS)

    def total(self) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
        """Return the sums over the samples of S_i, of the gains in log-determinant, and of w_j'S_i for each gap j.

        Returns
        -------
        S : array of shape (r, r)
            Sum of the covariances.
        log_det : float
            Sum of the gains in log-determinant.
        WS : array of shape (m, r)
            Row j: sum of w_j'S_i over the samples i whose feature j is missing.
        """
        m, r = self._shape
        S = np.tril(self._S.reshape(r, r, SIDE).sum(axis=2))
        return S + np.tril(S, -1).T, self._log_det, self._WS.reshape(m, -1)[:, :r]


@jit
def _add_rows(Ht: Any, starts: Any, columns: Any, weights: Any, Q: Any, W: Any, noise: Any, S: Any, WS: Any) -> Any:
    """Add the covariance of each row, and its products with the rows of W at the gaps.

    Parameters
    ----------
    Ht : array of shape (n, r)
        Memberships.
    starts, columns
        As in :class:`dbmd.model.gaps.Gaps`.
    weights : array of shape (n,)
        Weight of each sample.
    Q, W : array of shape (padded(r) * padded(r),) and (m * padded(r),)
        Rows one after the other.
    noise : float
        Variance of the noise in the plane of W.
    S, WS : array of shape (r * r * SIDE,) and (m * padded(r),), changed in place
        The sums; that of the covariances in lanes, the lower triangle.

    Returns
    -------
    float
        Sum of the gains in log-determinant.
    """
    n, r = Ht.shape
    width = padded(r)
    others = np.empty(len(W) // width, np.int64)
    most = largest(Q, width)
    M = np.empty(width * width)
    lanes = np.zeros(r * r * SIDE)
    inside = np.ones(r * SIDE)
    own_weights = np.zeros(SIDE)
    own = np.zeros(r * r * SIDE)
    L, X = np.zeros((r + 1) * r * SIDE), np.zeros((r + 1) * r * SIDE)
    u, d, w, scaled = np.zeros(r * SIDE), np.zeros(r * SIDE), np.zeros(r * SIDE), np.zeros(r * SIDE)
    S_i = np.zeros(r * width)
    least = np.zeros(SIDE)
    precision = 1.0 / noise
    total = 0.0
    for first_row in range(0, n, SIDE):
        some = False
        for t in range(SIDE):
            i = min(first_row + t, n - 1)
            own_weights[t] = weights[i] if first_row + t < n else 0.0
            if own_weights[t] == 0.0:  # the lane keeps the sample before, which does no harm
                continue
            some = True
            observed_gram(Q, W, columns, starts[i], starts[i + 1], most, others, M)
            for k in range(r):
                inside[at(k * SIDE + t)] = Ht[i, k] > POSITIVE
                for l in range(k, r):
                    lanes[at((l * r + k) * SIDE + t)] = M[at(k * width + l)] * precision
        if not some:
            continue
        total += add_covariances(lanes, inside, own_weights, r, L, X, u, d, w, scaled, least, own)
        for p in range(r * r * SIDE):
            S[p] -= own[p]
        for t in range(SIDE):
            i = first_row + t
            if own_weights[t] == 0.0 or starts[i] == starts[i + 1]:
                continue
            for k in range(r):
                for l in range(k + 1):
                    S_i[at(k * width + l)] = S_i[at(l * width + k)] = -own[at((k * r + l) * SIDE + t)]
            whole = starts[i + 1] - (starts[i + 1] - starts[i]) % LANES
            for g in range(starts[i], whole, LANES):
                for c in range(0, width, LANES):
                    add_product_tile(WS, W, columns, g, width, S_i, r, c)
            for g in range(whole, starts[i + 1]):
                row = columns[at(g)] * width
                for k in range(r):
                    for c in range(0, width, LANES):
                        add_multiple(WS, row + c, W[at(row + k)], S_i, k * width + c)
    return total
