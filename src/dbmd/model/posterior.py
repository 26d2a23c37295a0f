"""The posterior of memberships: its mean and covariance about the peak, on the face of the peak and off it.

The peak h of a sample lies on a face F of the simplex, of f components. On the face the posterior is close to a
Gaussian with the covariance S_F (:mod:`dbmd.kernels._covariance`). A membership off the face is zero at the peak, but
not certain: along the direction in which it grows, the rest adapting, the posterior is the tail of a normal
distribution. With Q = W'W, the noise in the plane of W, and g = (Q h - b) / noise,

    G       = Q_FF / noise + f (f + 1) I                  precision on the face, that of the uniform prior included
    u_k     = unit_k + D_k                                D_k on F sums to -1: how the face answers
    kappa_k = u_k'(Q / noise + f (f + 1) I) u_k           precision along u_k
    t_k     = (g_k - mean of g over F) / sqrt(kappa_k)    how far outside the maximum along u_k is
    l_k     = sqrt(2 / pi) / erfcx(t_k / sqrt 2)          hazard of the normal distribution at t_k
    mean_k  = (l_k - t_k) / sqrt(kappa_k)                 of membership k
    v_k     = (1 + t_k l_k - l_k^2) / kappa_k             its variance

The mean of the posterior is h + sum_k mean_k u_k, and its covariance S_F + sum_k v_k u_k u_k'. S_F, u_k and kappa_k
depend on the face and the noise only. With a Dirichlet prior, alpha0 > 1, its precision (alpha0 - 1) / h^2 takes the
place of f (f + 1).

W is not known exactly, either. If it is off by W E, a peak moves by S_F (-Q E h - E'g) / noise on its face; the mean
square of that over likely errors E is added to the variance (:mod:`dbmd.model.w_error`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from dbmd.model.parts import Parts
from dbmd.model.reduce import ParallelMap
from dbmd.model.statistics import Float

POSITIVE = 1e-6  # a membership up to this counts as zero
NUMBERS = 1_000_000  # entries of an array of matrices: what is worked on at a time
LARGEST = 1e14  # precision: a standard deviation of 1e-7
FAR = 1e3  # standard deviations: beyond that the tail of a normal distribution is exponential


@dataclass(frozen=True)
class Faces:
    """The posterior on some faces of the simplex and off them, for one noise level. All faces have f corners.

    There are few components on a face, so that arrays by what is on it and off it are much smaller than those by all.

    Attributes
    ----------
    on : array of int of shape (k, f)
        The components on each face, in order.
    off : array of int of shape (k, r - f)
        All others, in order.
    S : array of shape (k, f, f)
        Covariance on the face.
    U : array of shape (k, f, r - f)
        Column j: the direction u_j of a component off the face, on the face; elsewhere it is one at j, and zero.
    kappa : array of shape (k, r - f)
        Precision along u_j.
    """

    on: NDArray[np.intp]
    off: NDArray[np.intp]
    S: Float
    U: Float
    kappa: Float

    @classmethod
    def of(cls, is_on: NDArray[np.bool_], Q: Float, noise: float, precision: Float | None = None) -> Faces:
        """Return the posterior on faces.

        Parameters
        ----------
        is_on : array of bool of shape (k, r)
            Which components are on each face: at least one, and on all faces equally many.
        Q : array of shape (r, r) or (k, r, r)
            Gram matrix of W about any point, of all features or of those that are observed.
        noise : float
            Variance of the noise in the plane of W.
        precision : array of shape (k, r), optional
            Of the prior; zero where it is uniform, which is the default.
        """
        k, r = is_on.shape
        f = int(is_on[0].sum())
        on, off = np.nonzero(is_on)[1].reshape(k, f), np.nonzero(~is_on)[1].reshape(k, r - f)
        M = _centred(Q) / noise
        # Beyond that the precision of the prior would be lost in rounding, and with it what holds M invertible.
        M = M * np.minimum(1.0, LARGEST / np.maximum(np.abs(M).max(axis=(-2, -1), keepdims=True), 1.0))
        M = np.broadcast_to(M, (k, r, r))
        each = np.arange(k)[:, None, None]
        M_on, M_cross = M[each, on[:, :, None], on[:, None, :]], M[each, on[:, :, None], off[:, None, :]]
        prior = np.full((k, r), f * (f + 1.0))
        if precision is not None:
            prior = np.where(precision > 0.0, precision, prior)
        prior_on, prior_off = np.take_along_axis(prior, on, 1), np.take_along_axis(prior, off, 1)
        # In terms of the memberships on the face but the first, which is one less their sum: the matrix is positive
        # definite for any W, and nothing is lost in differences of large numbers.
        corner = (M_on[:, 0, 0] + prior_on[:, 0])[:, None, None]
        P = M_on[:, 1:, 1:] - M_on[:, 1:, :1] - M_on[:, :1, 1:] + corner
        P[:, np.arange(f - 1), np.arange(f - 1)] += prior_on[:, 1:]
        S = np.empty((k, f, f))
        S[:, 1:, 1:] = np.linalg.inv(P)
        # How the face answers to a component off it: G D + q is constant on the face, and D sums to -1.
        U = np.empty((k, f, r - f))
        U[:, 1:] = S[:, 1:, 1:] @ (M_on[:, 1:, :1] - M_cross[:, 1:] - corner + M_cross[:, :1])
        U[:, 0] = -1.0 - U[:, 1:].sum(axis=1)
        S[:, 0, 1:] = -S[:, 1:, 1:].sum(axis=1)
        S[:, :, 0] = -S[:, :, 1:].sum(axis=2)
        kappa = np.einsum("kij,kij->kj", U, M_on @ U + prior_on[:, :, None] * U + 2.0 * M_cross)
        kappa += M[each[:, :, 0], off, off] + prior_off
        return cls(on, off, S, U, np.maximum(kappa, np.finfo(float).tiny))

    def taken(self, chosen: NDArray[np.intp]) -> Faces:
        """Return some of the faces, by their positions."""
        return Faces(self.on[chosen], self.off[chosen], self.S[chosen], self.U[chosen], self.kappa[chosen])

    def moved(self, h: Float, gradient: Float, Q: Float, E: Float) -> Float:
        """Return how peaks move if W is off by W E, on their faces, shape (k, f).

        Parameters
        ----------
        h, gradient : arrays of shape (k, r)
            For a sample on each face, its peak and (Q h - b) / noise.
        Q : array of shape (r, r) or (k, r, r)
            Gram matrix of W / noise.
        E : array of shape (r, r)
            The error, in terms of the components.
        """
        pull = -(Q @ (h @ E.T)[:, :, None])[:, :, 0] - gradient @ E
        return np.asarray((self.S @ np.take_along_axis(pull, self.on, 1)[:, :, None])[:, :, 0])

    def tails(self, gradient: Float) -> tuple[Float, Float]:
        """Return mean and variance of the memberships off the face, both of shape (k, r - f).

        Parameters
        ----------
        gradient : array of shape (k, r)
            For a sample on each face, (Q h - b) / noise.
        """
        level = np.take_along_axis(gradient, self.on, 1).mean(axis=1, keepdims=True)
        root = np.sqrt(self.kappa)
        t = np.maximum(np.take_along_axis(gradient, self.off, 1) - level, 0.0) / root
        near = np.minimum(t, FAR)  # farther out, the formulas are differences of large numbers
        hazard = np.sqrt(2.0 / np.pi) / erfcx(near / np.sqrt(2.0))
        mean = np.where(t > FAR, 1.0 / np.maximum(t, 1.0), hazard - near) / root
        variance = np.where(t > FAR, 1.0 / np.maximum(t, 1.0) ** 2, 1.0 + (near - hazard) * hazard) / root**2
        return mean, np.maximum(variance, 0.0)

    def among_all(self, on: Float, off: Float) -> Float:
        """Return an array of shape (k, r, ...) from what is on the faces and off them, shapes (k, f, ...) and so on."""
        k, r = len(on), self.on.shape[1] + self.off.shape[1]
        found, each = np.empty((k, r, *on.shape[2:])), np.arange(k)[:, None]
        found[each, self.on], found[each, self.off] = on, off
        return found

    def covariance(self, variance: Float) -> Float:
        """Return the covariance of memberships, shape (k, r, r), from the variances off the faces, shape (k, r - f)."""
        beside = np.broadcast_to(np.eye(self.off.shape[1]), (len(self.off), *(2 * self.off.shape[1:])))
        directions = self.among_all(self.U, beside)
        found = (directions * variance[:, None, :]) @ directions.transpose(0, 2, 1)
        found[np.arange(len(self.on))[:, None, None], self.on[:, :, None], self.on[:, None, :]] += self.S
        return np.asarray(found)


@dataclass(frozen=True)
class Posterior:
    """What is known of the memberships of samples.

    Attributes
    ----------
    mean : array of shape (n, r)
        Means of the posterior without the dark component, rows on the simplex.
    std : array of shape (n, r)
        Standard deviations.
    brightness : array of shape (n,)
        Mean of the brightness.
    """

    mean: Float
    std: Float
    brightness: Float


@dataclass(frozen=True)
class PosteriorModel:
    """What the posterior of samples of one source depends on, besides the samples.

    Attributes
    ----------
    Q : array of shape (n_patterns, n_patterns)
        Gram matrix of W about any point.
    noise : float
        Variance of the noise in the plane of W.
    parts : Parts
        Which of the components is the dark one.
    prior : array of shape (n_patterns,)
        alpha0 - 1.
    norms : array of shape (r,), optional
        Norms of the components, if memberships are multiplied by them, with brightness.
    errors : array of shape (k, n_patterns, n_patterns), optional
        Likely errors of W: it may be W (I - E) for each E of them. By default W is taken as exact.
    """

    Q: Float
    noise: float
    parts: Parts
    prior: Float
    norms: Float | None = None
    errors: Float | None = None

    def at(
        self, Ht: NDArray[Any], gradient: Float, Q: Float | None = None, parallel_map: ParallelMap = map
    ) -> Posterior:
        """Return the posterior of samples.

        Parameters
        ----------
        Ht : array of shape (n, n_patterns)
            Their memberships at the peak, with the dark component.
        gradient : array of shape (n, n_patterns)
            Q h - b, in squared units of the data.
        Q : array of shape (n, n_patterns, n_patterns), optional
            Gram matrices over the observed features of each sample, if they have gaps.
        parallel_map : callable
            As ``map``; it may run in threads.
        """
        n, r = Ht.shape
        mean, std = np.empty((2, n, self.parts.n_components))
        light = np.empty(n)

        def fill(rows: slice) -> None:
            own = None if Q is None else Q[rows]
            mean[rows], std[rows], light[rows] = self._of_block(Ht[rows].astype(np.float64), gradient[rows], own)

        deque(parallel_map(fill, blocks(n, r * r)), maxlen=0)
        return Posterior(mean, std, light)

    def _of_block(self, h: Float, gradient: Float, Q: Float | None) -> tuple[Float, Float, Float]:
        n, is_on = len(h), h > POSITIVE
        mean, std, light = np.empty((n, self.parts.n_components)), np.empty((n, self.parts.n_components)), np.empty(n)
        sizes = is_on.sum(axis=1)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            own = None if Q is None else Q[rows]
            mean[rows], std[rows], light[rows] = self._of_size(is_on[rows], h[rows], gradient[rows], own)
        return mean, std, light

    def _of_size(
        self, is_on: NDArray[np.bool_], h: Float, gradient: Float, Q: Float | None
    ) -> tuple[Float, Float, Float]:
        """Return mean, standard deviations and brightness of samples whose faces have equally many corners."""
        faces, g = self._faces(is_on, h, Q), gradient / self.noise
        tail_mean, tail_variance = faces.tails(g)
        mean = h + faces.among_all((faces.U @ tail_mean[:, :, None])[:, :, 0], tail_mean)
        mean = np.maximum(mean, 0.0)
        mean /= mean.sum(axis=1, keepdims=True)
        own = (self.Q if Q is None else Q) / self.noise
        moved = [] if self.errors is None else [faces.moved(h, g, own, E) for E in self.errors]
        if not self.parts.has_dark:
            on = np.einsum("kii->ki", faces.S) + (np.square(faces.U) @ tail_variance[:, :, None])[:, :, 0]
            if moved:
                on = on + np.mean(np.square(moved), axis=0)
            return mean, _bounded_std(faces.among_all(on, tail_variance)), np.ones(len(h))
        covariance = faces.covariance(tail_variance)
        if moved:
            beside = np.zeros(faces.off.shape)
            for each in moved:
                step = faces.among_all(each, beside)
                covariance += step[:, :, None] * step[:, None, :] / len(moved)
        shares = self.parts.shares(mean, self.norms)
        variance = _of_shares(covariance[:, :-1, :-1], shares, mean[:, :-1], self.norms)
        return shares, _bounded_std(variance), self.parts.brightness(mean)

    def _faces(self, is_on: NDArray[np.bool_], h: Float, Q: Float | None) -> Faces:
        if self.prior.any():
            precision = self.prior / np.square(np.maximum(h, POSITIVE))
            return Faces.of(is_on, self.Q if Q is None else Q, self.noise, precision)
        if Q is not None:
            return Faces.of(is_on, Q, self.noise)
        different, which = _different(is_on)
        return Faces.of(is_on[different], self.Q, self.noise).taken(which)


def _different(is_on: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of rows, shape (n, r), that are all different, and which of them each row is, shape (n,)."""
    n, r = is_on.shape
    bits = np.zeros((n, -(-r // 64) * 64), bool)
    bits[:, :r] = is_on
    numbers = np.packbits(bits, axis=1).view(np.uint64)
    # Numbers are sorted much faster than rows of them.
    rows = numbers[:, 0] if numbers.shape[1] == 1 else numbers
    _, different, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return different, which.ravel()


def _bounded_std(variance: Float) -> Float:
    """Return standard deviations of numbers between 0 and 1: one half is the largest that there is."""
    return np.sqrt(np.clip(variance, 0.0, 0.25))


def _of_shares(covariance: Float, shares: Float, h: Float, norms: Float | None) -> Float:
    """Return the variances of shares, shape (n, r), from the covariance of memberships without the dark component.

    A share is its part of a sum, so it changes by (1 - share) times its own change, less its share of the others'.
    Where there is hardly any light a share may be anything: its variance is at most that of a uniform distribution.

    Parameters
    ----------
    covariance : array of shape (n, r, r)
        Of the memberships.
    shares, h : arrays of shape (n, r)
        Shares, and the memberships that they are shares of.
    norms : array of shape (r,), optional
        What memberships are multiplied by.
    """
    r = shares.shape[1]
    weights = np.ones(r) if norms is None else norms
    total = np.maximum(h @ weights, np.finfo(float).tiny ** 0.25)
    change = (np.eye(r) - shares[:, :, None]) * (weights / total[:, None])[:, None, :]
    variance = np.einsum("nij,njk,nik->ni", change, covariance, change, optimize=True)
    return np.minimum(variance, (r - 1.0) / (r * r * (r + 1.0)) if r > 1 else 0.0)


def blocks(n: int, numbers: int) -> Iterator[slice]:
    """Yield n rows in pieces for which arrays with so many numbers for each row have a bounded size."""
    step = max(1, NUMBERS // max(numbers, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def grams(W: Float, is_missing: NDArray[np.bool_], Q: Float) -> Float:
    """Return the Gram matrices of W over the observed features of each sample, shape (n, r, r).

    Parameters
    ----------
    W : array of shape (m, r)
        The basis.
    is_missing : array of bool of shape (n, m)
        Which entries are missing.
    Q : array of shape (r, r)
        W'W.
    """
    n, (m, r) = len(is_missing), W.shape
    gone = np.zeros((n, r * r))
    for features in blocks(m, r * r):
        part = W[features]
        gone += is_missing[:, features].astype(np.float64) @ (part[:, :, None] * part[:, None, :]).reshape(-1, r * r)
    return Q - gone.reshape(n, r, r)


def _centred(Q: Float) -> Float:
    """Return Q about the mean of the columns of W: as small as it can be, with the same differences."""
    Q = Q - Q.mean(axis=-1, keepdims=True)
    return np.asarray(Q - Q.mean(axis=-2, keepdims=True))
