"""Which number of components two halves of the data agree on, from the correlations of the worst pairs.

The right number is nearly always the one that the halves agree on best: with fewer, several optima are about as good;
with more, each half has a component of its own, and the worst correlation falls to 0 to 0.5. Where the model is not
quite right, it falls in steps instead, and the halves may agree rather well on a component or two that only mend it. So
what is asked for depends on how well they agree at best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

SURE = 0.015  # two halves agree if a correlation is less below 1 than that,
FACTOR = 2.5  # or than so many times the least that is found,
MOST = 0.1  # but not if it is more than this
DOUBTFUL = 0.5  # below such a correlation, one split is enough to see that they do not agree


def typical(worst: Float) -> Float:
    """Return the correlation of the worst pair in a typical split, the median of all that were made.

    Parameters
    ----------
    worst : array of shape (n_tried, n_splits)
        For each number and split; NaN where a split was not made. At least one was, for each number.

    Returns
    -------
    array of shape (n_tried,)
    """
    return np.asarray(np.nanmedian(worst, axis=1), np.float64)


def limit_of(worst: Float) -> float:
    """Return the correlation from which on two halves agree, for data with such correlations.

    Those of exactly 1 do not count: a component that is alone, or known, agrees whatever the data are.
    """
    found = typical(worst)
    found = found[found < 1.0]
    least = 1.0 - found.max(initial=0.0)
    return float(1.0 - np.clip(FACTOR * least, SURE, MOST))


def largest_stable(worst: Float) -> int | None:
    """Return the position of the largest number that two halves agree on; None if there is none."""
    stable = np.flatnonzero(typical(worst) >= limit_of(worst))
    return int(stable[-1]) if len(stable) else None


def worth_another_split(worst: Float) -> list[int]:
    """Return the positions of the numbers whose agreement has to be known from all splits.

    These are the number that would be proposed, the one above it, and those further above that are not clearly
    unstable: the fit of a half may have ended in a local optimum. What is below has no part in the choice.
    """
    best = largest_stable(worst)
    first = 0 if best is None else best
    doubtful = typical(worst) >= DOUBTFUL
    return [i for i in range(first, len(worst)) if doubtful[i] or i - first <= 1]
