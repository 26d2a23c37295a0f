"""Constants that all kernels share: how the interior-point method proceeds, and when a sample is solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_STEPS = 60  # Newton steps; four to nine are usual
PATIENCE = 20  # after so many, every step is a plain centring step: slower, but it always makes progress
SHORT = 0.3  # so is the step after one that was shorter than this; also the fraction of the gap that it leaves
TO_BOUNDARY = 0.99  # fraction of the way to the boundary that a step may go
LIFT = 1e-2  # least entry of a warm start, times r: a zero must be able to become positive again
BALANCE = 0.1  # least product h z of a warm start, relative to the mean of h |gradient|
AT_ZERO = 1e-11  # weight of a logarithm without a prior: the distance at which a point on the boundary is found
TOL = 1e-10  # largest error of the optimality conditions
PART = 1e-4  # with a prior, the largest relative error of the products h z
ROUNDING = 1e-15  # errors are not known better than this


def tolerances(Q: NDArray[Any], a: NDArray[Any]) -> tuple[float, NDArray[np.float64], float]:
    """Return the scale of the H-step, its weights in that scale, and the tolerance.

    Parameters
    ----------
    Q : array of shape (r, r)
        W'W, in squared units of the data.
    a : array of shape (r,)
        Weights of the logarithms, in squared units of the data.

    Returns
    -------
    scale : float
        The largest diagonal entry of Q, in squared units of the data. The kernels work on Q / scale.
    weights : array of shape (r,)
        a / scale, without a unit; a small number instead of zero (alpha0 = 1).
    tol : float
        The largest error of the optimality conditions, relative to the scale. It is smaller if the weights of a prior
        are small, as they are where the noise is.
    """
    scale = float(np.max(np.diagonal(Q), initial=0.0)) or 1.0
    shrink = min(1.0, 10.0 / len(Q))  # for the same error of h z, z is known r times less well
    weights = np.where(a > 0.0, np.maximum(a / scale, ROUNDING), AT_ZERO * shrink)
    tol = TOL * shrink
    if np.any(a):
        tol = min(tol, max(PART * float(weights[a > 0.0].min()), ROUNDING))
    return scale, weights, tol
