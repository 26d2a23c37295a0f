"""The H-step in plain NumPy: the oracle for the fast kernels, and the place to read the algorithm.

For a sample x with b = W'x and Q = W'W the H-step is

    min_h  1/2 h'Qh - b'h - sum_k a_k ln h_k      on the simplex  h >= 0, sum h = 1.

Its optimality conditions, with multipliers z of h >= 0 and nu of sum h = 1, are those of a
quadratic programme whose complementarity products end at a_k instead of 0:

    Qh - b - z + nu 1 = 0,      h_k z_k = a_k,      sum h = 1,      h, z > 0.

So the Dirichlet prior is a barrier that an interior-point method stops at, and a_k = 0 (alpha0 = 1) is
where it usually ends. The method is Mehrotra's predictor-corrector [1]_. Eliminating dz leaves, for a
target t of the products, an r x r system with M = Q + diag(z / h), positive definite even if Q is not:

    M dh = t / h - (Qh - b) - nu 1,     1'(h + dh) = 1,         dz = t / h - z - (z / h) dh.

References
----------
.. [1] S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM J. Optim. 2 (1992).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._host import asarray, coming, empty
from dbmd.kernels._tolerance import BALANCE, LIFT, MAX_STEPS, PATIENCE, SHORT, TO_BOUNDARY, tolerances
from dbmd.model.gaps import Gaps
from dbmd.model.statistics import Float, SampleSums

__all__ = [
    "FaceCovariance",
    "GapCovariance",
    "Sums",
    "asarray",
    "coming",
    "empty",
    "k_means",
    "k_means_attempt",
    "k_means_plus_plus",
    "locate",
    "products",
    "put",
    "put_products",
    "solve_h",
    "solve_h_with_gaps",
    "sum_log",
    "sums_of_nearest",
]

POSITIVE = 1e-6  # a membership this small counts as zero


def products(Xt: Any, W: NDArray[Any], offset: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return Xt W - offset, shape (n, r), of the type of W; Xt is an array, CSR array or LowRank of shape (n, m)."""
    return np.asarray(Xt @ W if offset is None else Xt @ W - offset, W.dtype)


class Sums:
    """Sums over samples and their memberships.

    Parameters
    ----------
    m, r : int
        Features, memberships.
    dtype : dtype
        Of the samples.
    """

    def __init__(self, m: int, r: int, dtype: Any) -> None:
        self._total = SampleSums(np.zeros((m, r)), np.zeros((r, r)), np.zeros(r), 0.0, np.zeros(m), np.zeros(m))

    def add(
        self, Xt: Any, Ht: NDArray[Any], weights: NDArray[np.float64] | None = None, *, norms: bool = False
    ) -> None:
        """Add samples, shape (n, m), with memberships, shape (n, r), which count ``weights`` times, by default once."""
        X = (np.asarray(Xt) if isinstance(Xt, np.ndarray) else Xt.toarray()).astype(np.float64)
        H = Ht.astype(np.float64)
        weights = np.ones(len(H)) if weights is None else weights
        counted = H * weights[:, None]
        total = self._total
        self._total = SampleSums(
            total.XHt + X.T @ counted,
            total.HHt + H.T @ counted,
            total.sizes + counted.sum(axis=0),
            total.n + float(weights.sum()),
            total.totals + weights @ X if norms else total.totals,
            total.squares + weights @ np.square(X) if norms else total.squares,
        )

    def send(self) -> None:
        """Do nothing: the sums are here."""

    def total(self) -> SampleSums:
        """Return the sums over the samples so far."""
        return self._total


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
        W'W, positive semidefinite, in squared units of the data.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W, in squared units of the data. The computation is in float64 for either type.
    a : array of shape (r,)
        Weights >= 0 of the logarithms, sigma^2 (alpha0 - 1), in squared units of the data. Zero is the limit of small
        weights.
    Ht0 : array of shape (n, r), optional
        Where to start, rows on the simplex. By default the centre of the simplex.
    out : array of shape (n, r), optional
        Where to write the result; may be Ht0 itself.

    Returns
    -------
    array of shape (n, r)
        Memberships, of the type of Bt: all positive, rows sum to one.
    """
    scale, weights, tol = tolerances(Q, a)
    Q, dtype = Q / scale, Bt.dtype
    Bt = Bt.astype(np.float64) / scale
    a = weights
    H, Z = _centre(Q, Bt, a) if Ht0 is None else _near(Q, Bt, a, Ht0.astype(np.float64))
    allowed = tol * np.maximum(1.0, np.ptp(Bt, axis=1))

    active = np.arange(len(Bt))  # the samples that have not converged; the others are left alone
    step = np.ones(len(Bt))
    for count in range(MAX_STEPS):
        if not len(active):
            break
        stalled = (step[active] <= SHORT) | (count >= PATIENCE)
        h, z, new_step, error = _newton_step(Q, Bt[active], a, H[active], Z[active], stalled)
        H[active], Z[active], step[active] = h, z, new_step
        active = active[error > allowed[active]]

    H /= H.sum(axis=1, keepdims=True)
    if out is None:
        return H.astype(dtype)
    out[...] = H
    return out


def solve_h_with_gaps(
    Q: NDArray[Any],
    W: NDArray[np.float64],
    gaps: Gaps | NDArray[np.bool_],
    Bt: NDArray[Any],
    a: NDArray[Any],
    Ht0: NDArray[Any] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return for every row b of Bt the minimiser of 1/2 h'Q_i h - b'h - sum_k a_k ln h_k on the simplex.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, in squared units of the data.
    W : array of shape (m, r)
        The basis, about the point that Bt is taken about.
    gaps : Gaps, or array of bool of shape (n, m)
        Which entries are missing. Q_i is the Gram matrix of W over the features that are not, in sample i.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W over the observed features, in squared units of the data.
    a : array of shape (r,)
        Weights >= 0 of the logarithms, in squared units of the data.
    Ht0 : array of shape (n, r), optional
        Where to start, rows on the simplex. By default the centre of the simplex.
    out : array of shape (n, r), optional
        Where to write the result; may be Ht0 itself.

    Returns
    -------
    array of shape (n, r)
        Memberships, of the type of Bt: all positive, rows sum to one.
    """
    out = np.empty(Bt.shape, Bt.dtype) if out is None else out
    for i, missing in enumerate(Gaps.of(gaps).mask(len(W))):
        seen = W[~missing]
        is_known = len(seen) >= W.shape[1] - 1
        start = None if Ht0 is None or not is_known else Ht0[i : i + 1]
        solve_h(seen.T @ seen, Bt[i : i + 1], a, start, out[i : i + 1])
    return out


def locate(mask: NDArray[np.bool_]) -> Gaps:
    """Return the gaps of samples from a mask, shape (n, m), True where an entry is missing."""
    return Gaps.of(mask)


def put(Xt: NDArray[Any], gaps: Gaps, values: NDArray[Any]) -> None:
    """Write a number for each feature, shape (m,), into the gaps of samples, shape (n, m)."""
    np.copyto(Xt, values.astype(Xt.dtype), where=gaps.mask(len(values)))


def put_products(Xt: NDArray[Any], gaps: Gaps, Ht: NDArray[Any], W: NDArray[Any], centre: NDArray[Any]) -> None:
    """Write w_j'h + centre_j into each gap of samples, shape (n, m); Ht is of shape (n, r), W of shape (m, r)."""
    np.copyto(Xt, (Ht @ W.T + centre).astype(Xt.dtype), where=gaps.mask(len(W)))


def sum_log(Ht: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums over the samples of ln Ht, shape (r,), float64; Ht is of shape (n, r) and positive."""
    return np.log(Ht, dtype=np.float64).sum(axis=0)


def _centre(Q: NDArray[Any], Bt: NDArray[Any], a: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the centre of the simplex and dual feasible multipliers z = Qh - b + nu > 0, both of shape (n, r)."""
    r = len(Q)
    H = np.full_like(Bt, 1.0 / r)
    G = Q.mean(axis=1) - Bt
    G -= G.min(axis=1, keepdims=True)
    return H, G + 0.3 * G.mean(axis=1, keepdims=True) + a


def _near(Q: NDArray[Any], Bt: NDArray[Any], a: NDArray[Any], Ht0: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return points near Ht0, away from the boundary so that a zero can become positive again, and multipliers.

    Both are of shape (n, r).
    """
    H = np.maximum(Ht0, LIFT / len(Q))
    H /= H.sum(axis=1, keepdims=True)
    G = H @ Q - Bt
    G += a.sum() - (H * G).sum(axis=1, keepdims=True)
    # z = Qh - b + nu where that is positive, and products h z of similar size: far from the central path the method
    # makes no progress.
    gap = BALANCE * (H * np.abs(G)).mean(axis=1, keepdims=True)
    return H, np.maximum(G, (a + gap) / H)


def _newton_step(
    Q: NDArray[Any],
    b: NDArray[Any],
    a: NDArray[Any],
    h: NDArray[Any],
    z: NDArray[Any],
    stalled: NDArray[np.bool_],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return h and z after a step, shape (n, r), and its length and the error of the optimality conditions, shape (n,).

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W / scale, without a unit.
    b, h, z : array of shape (n, r)
        Linear term, memberships and multipliers.
    a : array of shape (r,)
        Weights of the logarithms / scale.
    stalled : array of bool of shape (n,)
        Which samples take a plain centring step.
    """
    r, tiny = len(Q), np.finfo(np.float64).tiny
    M = Q + (z / h)[:, :, None] * np.eye(r)
    M_one = np.linalg.solve(M, np.ones((len(h), r, 1)))[:, :, 0]

    def direction(target: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        free = np.linalg.solve(M, (target / h - (h @ Q - b))[:, :, None])[:, :, 0]
        lacking = 1.0 - h.sum(axis=1, keepdims=True)  # rounding only, but it must not accumulate
        nu = (free.sum(axis=1, keepdims=True) - lacking) / M_one.sum(axis=1, keepdims=True)
        dh = free - nu * M_one
        # Where z / h is tiny, dh is a difference of large numbers: correct all entries so that sum (h + dh) = 1.
        dh += h * (lacking - dh.sum(axis=1, keepdims=True))
        return dh, target / h - z - z / h * dh, nu

    # Predictor: straight to the solution; how far it gets says how much to centre.
    dh, dz, _ = direction(np.broadcast_to(a, h.shape))
    reach = np.minimum(1.0, _to_boundary(h, dh, z, dz))[:, None]
    gap = np.abs(h * z - a).mean(axis=1, keepdims=True)
    gap_predicted = np.abs((h + reach * dh) * (z + reach * dz) - a).mean(axis=1, keepdims=True)
    left = np.minimum(1.0, gap_predicted / np.maximum(gap, tiny)) ** 3
    centring = stalled[:, None]
    target = a + gap * np.where(centring, SHORT, left) - np.where(centring, 0.0, dh * dz)

    # Corrector: the same matrix, a better target.
    dh, dz, nu = direction(target)
    step = np.minimum(1.0, TO_BOUNDARY * _to_boundary(h, dh, z, dz))
    h = h + step[:, None] * dh
    z = z + step[:, None] * dz
    products = np.abs(h * z - a).max(axis=1)
    gradient = np.abs(h @ Q - b - z + nu).max(axis=1) / r
    sums = np.abs(h.sum(axis=1) - 1.0) / r
    return h, z, step, np.maximum.reduce([products, gradient, sums])


def _to_boundary(h: NDArray[Any], dh: NDArray[Any], z: NDArray[Any], dz: NDArray[Any]) -> NDArray[Any]:
    """Return for each row the largest t with h + t dh >= 0 and z + t dz >= 0, shape (n,); arrays of shape (n, r)."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.maximum((-dh / h).max(axis=1), (-dz / z).max(axis=1)).clip(min=0.0)


class FaceCovariance:
    """The sum of the covariances of memberships over samples of one noise level.

    On the face F of a sample's peak, of f components, the posterior is close to a Gaussian with precision
    G = Q_FF / noise + f (f + 1) I, where f (f + 1) is that of the uniform distribution on the face. Memberships sum to
    one:

        S_F = G^-1 - G^-1 1 1' G^-1 / (1'G^-1 1)        on F, zero elsewhere

    and what the data add to the determinant of the prior is ln det G + ln(1'G^-1 1 / f) - (f - 1) ln(f (f + 1)).

    Parameters
    ----------
    Q : array of shape (r, r)
        Gram matrix of W, about any origin, in squared units of the data.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    """

    def __init__(self, Q: NDArray[np.float64], noise: float) -> None:
        # About the mean of the columns of W: the result is the same, and Q is as small as possible.
        centring = np.eye(len(Q)) - 1.0 / len(Q)
        self._Q = centring @ Q @ centring / noise
        self._S = np.zeros_like(self._Q)
        self._log_det = 0.0

    def add(self, Ht: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Add samples with memberships Ht, shape (n, r), which count ``weights`` times, shape (n,), by default once."""
        weights = np.ones(len(Ht)) if weights is None else weights
        for h, weight in zip(Ht, weights, strict=True):
            face = np.flatnonzero(h > POSITIVE)
            f = len(face)
            G = self._Q[np.ix_(face, face)] + f * (f + 1) * np.eye(f)
            inverse = np.linalg.inv(G)
            ones = inverse.sum(axis=1)
            self._S[np.ix_(face, face)] += weight * (inverse - np.outer(ones, ones) / ones.sum())
            log_det = np.linalg.slogdet(G)[1] + np.log(ones.sum() / f) - (f - 1) * np.log(f * (f + 1))
            self._log_det += float(weight * log_det)

    def send(self) -> None:
        """Do nothing: the sums are here."""

    def total(self) -> tuple[NDArray[np.float64], float]:
        """Return the sum over the samples of S_F, shape (r, r), and of the gains in log-determinant."""
        return self._S, self._log_det


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
        self._W, self._noise = W, noise
        self._S, self._WS, self._log_det = np.zeros_like(Q), np.zeros_like(W), 0.0

    def add(self, Ht: NDArray[Any], gaps: Gaps | NDArray[np.bool_], weights: NDArray[np.float64] | None = None) -> None:
        """Add samples: memberships, shape (n, r), gaps or a mask, shape (n, m), and weights, shape (n,) or one."""
        weights = np.ones(len(Ht)) if weights is None else weights
        for h, missing, weight in zip(Ht, Gaps.of(gaps).mask(len(self._W)), weights, strict=True):
            seen = self._W[~missing]
            own = FaceCovariance(seen.T @ seen, self._noise)
            own.add(h[None], np.array([weight]))
            S, log_det = own.total()
            self._S += S
            self._log_det += log_det
            self._WS[missing] += self._W[missing] @ S

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
        return self._S, self._log_det, self._WS


def k_means_plus_plus(Xt: Float, weights: Float, draws: Float) -> Float:
    """Return centres by k-means++, shape (r, m); see :class:`dbmd.protocols.Clustering`."""
    nearest, centres = np.ones(len(Xt)), list[Float]()
    for k, row in enumerate(draws):
        up_to = np.cumsum(weights * nearest)
        tried = Xt[np.minimum(np.searchsorted(up_to, up_to[-1] * (row if k else row[:1])), len(Xt) - 1)]
        d2 = np.square(Xt - tried[:, None]).sum(axis=2)
        d2 = d2 if k == 0 else np.minimum(d2, nearest)
        best = int(np.argmin(d2 @ weights))
        nearest = d2[best]
        centres.append(tried[best])
    return np.array(centres)


def k_means(Xt: Float, weights: Float, centres: Float, tol: float, max_iter: int) -> tuple[Float, float]:
    """Return centres after Lloyd's iterations, and their cost; see :class:`dbmd.protocols.Clustering`."""
    labels = np.full(len(Xt), -1)
    for _ in range(max_iter):
        before, (labels, d2) = labels, _nearest(Xt, centres)
        counted = weights[:, None] * (labels[:, None] == np.arange(len(centres)))
        for k in np.flatnonzero(counted.sum(axis=0) <= 0.0):
            far = int(np.argmax(d2))
            if d2[far] > 0.0:
                counted[far] = weights[far] * (np.arange(len(centres)) == k)
                d2[far] = 0.0
        sizes = counted.sum(axis=0)
        own = np.where(sizes > 0.0, np.arange(len(sizes)), np.argmax(sizes))
        new = ((counted.T @ Xt)[own].T / sizes[own]).T
        moved, centres = float(np.square(new - centres).sum()), new
        if np.array_equal(labels, before) or moved <= tol:
            break
    return centres, float(weights @ _nearest(Xt, centres)[1])


def k_means_attempt(
    Xt: Float, weights: Float, draw_by: Float, draws: Float, tol: float, max_iter: int
) -> tuple[Float, float]:
    """Return centres by k-means from k-means++, and their cost; see :class:`dbmd.protocols.Clustering`."""
    return k_means(Xt, weights, k_means_plus_plus(Xt, draw_by, draws), tol, max_iter)


def sums_of_nearest(Xt: Float, weights: Float, centres: Float) -> tuple[Float, Float]:
    """Return sums over the samples nearest to each centre; see :class:`dbmd.protocols.Clustering`."""
    counted = weights[:, None] * (_nearest(Xt, centres)[0][:, None] == np.arange(len(centres)))
    return counted.T @ Xt, counted.sum(axis=0)


def _nearest(Xt: Float, centres: Float) -> tuple[NDArray[np.intp], Float]:
    """Return the nearest centre of each sample, and the squared distances to them, shapes (n,)."""
    d2 = np.square(Xt[:, None] - centres).sum(axis=2)
    return d2.argmin(axis=1), d2.min(axis=1)
