"""When a sample of the H-step counts as solved: the numbers that all kernels share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

MAX_STEPS = 60  # Newton steps; four to nine are usual


def tolerances(Q: NDArray[Any], dtype: DTypeLike) -> tuple[float, float, float]:
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
    if np.dtype(dtype) == np.float32:
        return scale, 2e-7 * shrink, 5e-6 * shrink
    return scale, 1e-11 * shrink, 1e-10 * shrink
