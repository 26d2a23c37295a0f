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


def tolerances(Q: NDArray[Any]) -> tuple[float, float, float]:
    """Return (scale, floor, tol) of the H-step for W'W = Q.

    scale
        Of the problem: the largest diagonal entry of Q. The solvers work on Q / scale.
    floor
        The least weight a_k / scale of a logarithm. alpha0 = 1 is the limit of small weights: a
        point on the boundary is found to a distance of this size.
    tol
        The largest error of the optimality conditions, relative to the scale.
    """
    scale = float(np.max(np.diagonal(Q), initial=0.0)) or 1.0
    shrink = min(1.0, 10.0 / len(Q))  # at the same error of h z, z is known r times less well
    return scale, 1e-11 * shrink, 1e-10 * shrink
