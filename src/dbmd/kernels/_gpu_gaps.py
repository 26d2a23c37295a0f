"""Samples with gaps on a device: each has a Gram matrix of its own, which ``grams.cu`` computes for some at a time.

With those, ``h_many.cu``, ``h_inside.cu`` and ``covariance.cu`` do for each what they do for samples without gaps.
See :mod:`dbmd.kernels._gaps` for samples of which too few features are observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._cuda import cupy, launch
from dbmd.kernels._gpu_covariance import RUN, UNIT, add_covariances, add_up, unpacked
from dbmd.kernels._gpu_fill import gaps_of
from dbmd.kernels._gpu_h_step import REAL, as_rows, start_inside, start_many
from dbmd.model.gaps import Gaps

__all__ = ["GapCovariance", "solve_h_with_gaps"]

THREADS = 128
NUMBERS = 1 << 24  # of Gram matrices at a time


def solve_h_with_gaps(
    Q: NDArray[Any],
    W: NDArray[np.float64],
    gaps: Any,
    Bt: Any,
    a: NDArray[Any],
    Ht0: Any = None,
    out: Any = None,
) -> Any:
    """Return for every row b of Bt the minimiser of 1/2 h'Q_i h - b'h - sum_k a_k ln h_k on the simplex.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        W'W, in squared units of the data.
    W : array of shape (m, r), of NumPy
        The basis, about the point that Bt is taken about.
    gaps : Gaps, or array of bool of shape (n, m)
        Which entries are missing. Q_i is Q less w_j w_j' for each missing feature j of sample i.
    Bt : array of shape (n, r), float32 or float64
        Rows x'W over the observed features, in squared units of the data.
    a : array of shape (r,), of NumPy
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
    if out is None:
        out = cupy().empty(Bt.shape, Bt.dtype)
    if not Bt.size:
        return out
    result = out if out.flags.c_contiguous else cupy().empty(Bt.shape, Bt.dtype)
    Bt, Ht0 = as_rows(Bt), None if Ht0 is None else as_rows(Ht0, Bt.dtype)
    basis, gaps, has_prior = _Basis(Q, W, a), gaps_of(gaps), bool(np.any(a))
    for rows in _batches(*Bt.shape):
        grams, units = basis.grams(gaps, rows, factor=0.0, added=1.0)
        start = None if Ht0 is None else Ht0[rows]
        if not has_prior:
            start_many(grams, None, units, Bt[rows], start, result[rows], 1.0)
            start = None
        start_inside(
            *(grams, units, Bt[rows], start, result[rows], 1.0, 0.0), only_marked=not has_prior, weights=basis.weights
        )
    if result is not out:
        out[...] = result
    return out


class GapCovariance:
    """The sum of the covariances of memberships over samples with gaps, of one noise level.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        W'W, in squared units of the data.
    W : array of shape (m, r), of NumPy
        The basis, about any point.
    noise : float
        Variance of the noise in the plane of W, in squared units of the data.
    """

    def __init__(self, Q: NDArray[np.float64], W: NDArray[np.float64], noise: float) -> None:
        self._Q, self._W, self._noise = Q, W, noise
        self._basis: Any = None
        self._total: Any = None  # the sum of the covariances, the gain, and WS

    def add(self, Ht: Any, gaps: Any, weights: Any = None) -> None:
        """Add samples: memberships, shape (n, r), gaps or a mask, shape (n, m), and weights, shape (n,) or one."""
        n, r = Ht.shape
        if not n:
            return
        n_entries = r * (r + 1) // 2 + 1
        if self._basis is None:
            self._basis = _Basis(self._Q, self._W, np.zeros(r))
            self._total = cupy().zeros(n_entries + self._W.size)
        Ht, gaps, real = as_rows(Ht), gaps_of(gaps), REAL[Ht.dtype]
        weights = None if weights is None else as_rows(weights, np.float64)
        for rows in _batches(n, r):
            grams, _ = self._basis.grams(gaps, rows, factor=1.0 / self._noise, added=0.0)
            own = None if weights is None else weights[rows]
            sums = cupy().empty((-(-len(grams) // UNIT), n_entries))
            add_covariances(Ht[rows], own, None, len(grams), r, 2, r, grams, sums, UNIT, OWN=1, REAL=real)
            add_up(sums, self._total[:n_entries], RUN // UNIT)
            self._basis.add_products(gaps, rows, grams, self._total[n_entries:])

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
        m, r = self._W.shape
        if self._total is None:
            return np.zeros((r, r)), 0.0, np.zeros((m, r))
        total = self._total.get()
        return *unpacked(total[: r * (r + 1) // 2 + 1], r), total[r * (r + 1) // 2 + 1 :].reshape(m, r)


def _batches(n: int, r: int) -> Iterator[slice]:
    """Yield slices of n samples, as many as there is room for r x r matrices of: whole runs, or equal parts of one."""
    room = NUMBERS // (r * r)
    some = room // RUN * RUN or RUN
    while some > max(room, UNIT):
        some //= 2
    for first in range(0, n, some):
        yield slice(first, min(first + some, n))


class _Basis:
    """A basis on the device, and what is computed with its rows.

    Parameters
    ----------
    Q : array of shape (r, r), of NumPy
        W'W.
    W : array of shape (m, r), of NumPy
        The basis.
    a : array of shape (r,), of NumPy
        Weights of the logarithms.
    """

    def __init__(self, Q: NDArray[np.float64], W: NDArray[np.float64], a: NDArray[np.float64]) -> None:
        m, r = self._shape = W.shape
        packed = cupy().asarray(np.concatenate([np.ravel(W), np.ravel(Q), a]).astype(np.float64, copy=False))
        self._W, self._Q, self.weights = packed[: m * r], packed[m * r : m * r + r * r], packed[m * r + r * r :]
        self._most = float(np.max(np.diagonal(Q), initial=0.0))
        lanes = 8 if r <= 16 else 32
        self._constants = {"THREADS": THREADS, "LANES": lanes, "SLOTS": -(-r // lanes)}

    def _blocks(self, n: int) -> int:
        return min(-(-n * self._constants["LANES"] // THREADS), 1 << 14)

    def grams(self, gaps: Gaps, rows: slice, *, factor: float, added: float) -> tuple[Any, Any]:
        """Return the Gram matrices of W over the observed features of samples, times a factor, plus a number.

        Parameters
        ----------
        gaps : Gaps
            The gaps of all samples.
        rows : slice
            Which samples.
        factor : float
            The factor, or zero: one over the largest entry of the diagonal of each.
        added : float
            The number.

        Returns
        -------
        grams : array of shape (n, r, r)
            The matrices.
        units : array of shape (n,)
            The factors, negative where so few features are observed that memberships are not unique.
        """
        (m, r), n = self._shape, rows.stop - rows.start
        grams, units = cupy().empty((n, r, r)), cupy().empty(n)
        args = (
            *(gaps.starts[rows.start : rows.stop + 1], gaps.columns, np.int64(n), np.int32(m), np.int32(r)),
            *(self._W, self._Q, np.float64(self._most), np.float64(factor), np.float64(added), grams, units),
        )
        launch("grams", "observed_grams", self._blocks(n), args, **self._constants)
        return grams, units

    def add_products(self, gaps: Gaps, rows: slice, S: Any, WS: Any) -> None:
        """Add w_j'S_i to row j of WS for each gap j of samples i.

        Parameters
        ----------
        gaps : Gaps
            The gaps of all samples.
        rows : slice
            Which samples.
        S : array of shape (n, r, r)
            Their covariances.
        WS : array of shape (m * r,), changed in place
            Rows one after the other.
        """
        (m, r), n = self._shape, len(S)
        starts: Any = gaps.starts[rows.start : rows.stop + 1]
        first, last = (int(each) for each in starts[:: max(n, 1)].get())
        if first == last:
            return
        samples = cupy().searchsorted(starts, cupy().arange(first, last), side="right") - 1
        keys = cupy().sort(gaps.columns[first:last] * n + samples)
        firsts = cupy().searchsorted(keys, cupy().arange(m + 1) * n)
        args = (keys, firsts, np.int64(n), np.int32(m), np.int32(r), self._W, S, WS)
        launch("grams", "add_products", self._blocks(m), args, **self._constants)
