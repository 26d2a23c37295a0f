"""The numbers that all kernels share: how the H-step goes about, and when a sample counts as solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_STEPS = 60  # Newton steps; four to nine are usual
PATIENCE = 20  # after so many, every step is a plain centring step: slower, but it always gets on
SHORT = 0.3  # after a step shorter than this, too; also how much of the gap such a step leaves
TO_BOUNDARY = 0.99  # how much of the way to the boundary a step may go
LIFT = 1e-2  # least entry of a warm start, times r: a zero must be able to become positive again
BALANCE = 0.1  # least product h z of a warm start, relative to the mean of h |gradient|
AT_ZERO = 1e-11  # weight of a logarithm that stands for none: a point on the boundary is found to such a distance
TOL = 1e-10  # largest error of the optimality conditions
PART = 1e-4  # and, of the products h z that a prior asks for, the largest relative one
ROUNDING = 1e-15  # no error is known better than that


def tolerances(Q: NDArray[Any], a: NDArray[Any]) -> tuple[float, NDArray[np.float64], float]:
    """Return (scale, weights, tol) of the H-step for W'W = Q, shape (r, r), and logarithms with weights a, shape (r,).

    scale
        Of the problem: the largest diagonal entry of Q. The solvers work on Q / scale.
    weights
        a / scale, shape (r,). Zero (alpha0 = 1) is the limit of small weights.
    tol
        The largest error of the optimality conditions, relative to the scale. Where the noise is small, so are the
        weights of a prior, and so must be the error of what they decide.
    """
    scale = float(np.max(np.diagonal(Q), initial=0.0)) or 1.0
    shrink = min(1.0, 10.0 / len(Q))  # at the same error of h z, z is known r times less well
    weights = np.where(a > 0.0, np.maximum(a / scale, ROUNDING), AT_ZERO * shrink)
    tol = TOL * shrink
    if np.any(a):
        tol = min(tol, max(PART * float(weights[a > 0.0].min()), ROUNDING))
    return scale, weights, tol
