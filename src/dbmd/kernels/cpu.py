"""The H-step in numba: the kernel that fits use.

With a prior, an interior-point method solves for many samples at a time (:mod:`dbmd.kernels._interior_point`). Without
one, most samples are solved exactly on a face of the simplex (:mod:`dbmd.kernels._faces`, and for many components
:mod:`dbmd.kernels._pivoting`), and the interior-point method takes the rest. Samples with gaps have
each a Gram matrix of their own (:mod:`dbmd.kernels._gaps`).

The functions release the GIL and start no threads: they may be called from several Python threads, and in forked
workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._covariance import FaceCovariance
from dbmd.kernels._faces import MAX_RANK, solve_on_faces
from dbmd.kernels._fill import locate, put, put_products
from dbmd.kernels._gap_covariance import GapCovariance
from dbmd.kernels._gaps import solve_h_with_gaps
from dbmd.kernels._host import asarray, coming, empty
from dbmd.kernels._interior_point import solve_interior
from dbmd.kernels._k_means import k_means, k_means_attempt, k_means_plus_plus, sums_of_nearest
from dbmd.kernels._one_loop import OneLoop
from dbmd.kernels._pivoting import solve_by_pivoting
from dbmd.kernels._rows import jit
from dbmd.kernels._sums import Sums, products
from dbmd.kernels._tolerance import tolerances

__all__ = [
    "FaceCovariance",
    "GapCovariance",
    "OneLoop",
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
        Rows x'W, in squared units of the data. The computation is in float64 for either type: in float32 the
        multipliers, which are differences of large numbers, would not be precise enough to find the minimum.
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
    if out is None:
        out = np.empty(Bt.shape, Bt.dtype)
    # Contiguous and writeable arrays only: numba would compile again for others.
    Q = np.require(Q / scale, np.float64, ["C", "W"])
    Bt = np.require(Bt, Bt.dtype, ["C", "W"])
    Ht0 = None if Ht0 is None else np.require(Ht0, Bt.dtype, ["C", "W"])

    def interior(Bt: NDArray[Any], Ht0: NDArray[Any] | None, out: NDArray[Any]) -> None:
        solve_interior(Q, Bt, weights, out if Ht0 is None else Ht0, Ht0 is not None, out, 1.0 / scale, tol)

    if np.any(a):
        interior(Bt, Ht0, out)
        return out
    on_faces = solve_on_faces if len(Q) <= MAX_RANK else solve_by_pivoting
    left = on_faces(Q, Bt, Ht0, out, 1.0 / scale)
    if len(left):
        rest = np.empty((len(left), len(Q)), Bt.dtype)
        interior(Bt[left], None if Ht0 is None else Ht0[left], rest)
        out[left] = rest
    return out


def sum_log(Ht: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums over the samples of ln Ht, shape (r,), float64; Ht is of shape (n, r) and positive."""
    return _sum_log(np.require(Ht, requirements=["C", "W"]))


@jit
def _sum_log(Ht: Any) -> Any:
    """Return the column sums of ln Ht, shape (r,), float64; Ht is of shape (n, r), contiguous."""
    n, r = Ht.shape
    total = np.zeros(r)
    product = np.ones(r)
    for i in range(n):
        for k in range(r):
            product[k] *= Ht[i, k]
        # A logarithm costs more than ten products. The product of eight entries above 1e-38 is in the range of float64,
        # and even an outlier a billion times as far away as the data has no smaller memberships.
        if i % 8 == 7 or i == n - 1:
            for k in range(r):
                total[k] += np.log(product[k])
                product[k] = 1.0
    return total
