"""How crisp memberships are, split into what the data say and what noise makes.

The peak of a noisy sample is often a corner of the simplex, so that its memberships look crisp. Its posterior says
otherwise: many other memberships are as likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

CLEAR = 0.9  # a sample whose largest membership is at least this is clear, otherwise it is mixed
SURE = 0.95  # the probability from which on that can be said
STEPS = 40  # halvings of an interval of exponents: the width of a density to ten digits


@dataclass(frozen=True)
class Crispness:
    """Fractions of samples, of one source or of all. A sample is clear if its largest membership is 0.9 or more.

    ``clear + mixed + unsure`` is 1. If ``at_peaks`` is much larger than ``expected``, noise makes samples look crisp.

    Attributes
    ----------
    at_peaks : float
        Samples that are clear by the peaks of their memberships, as if these were certain.
    expected : float
        Samples that are clear, expected with the uncertainty of their memberships: the mean probability.
    clear : float
        Samples of which the data say that they are clear, with a probability of 0.95 or more.
    mixed : float
        Samples of which the data say that they are mixed, likewise.
    unsure : float
        Samples that are too noisy to say.
    """

    at_peaks: float
    expected: float
    clear: float
    mixed: float
    unsure: float


def crispness(memberships: NDArray[Any], std: NDArray[Any]) -> Crispness:
    """Return which fraction of samples is clear, mixed, or too noisy to say.

    Parameters
    ----------
    memberships : array of shape (n, r)
        Memberships at the peak; rows of NaN are left out.
    std : array of shape (n, r)
        Their standard deviations.

    Returns
    -------
    Crispness
        All NaN for no samples.
    """
    there = ~np.isnan(memberships[:, 0])
    memberships, std = np.asarray(memberships[there], np.float64), np.asarray(std[there], np.float64)
    if not len(memberships):
        return Crispness(*np.full(5, np.nan).tolist())
    probability = clear_probability(memberships, std)
    is_clear, is_mixed = probability >= SURE, probability <= 1.0 - SURE
    return Crispness(
        at_peaks=float((memberships.max(axis=1) >= CLEAR).mean()),
        expected=float(probability.mean()),
        clear=float(is_clear.mean()),
        mixed=float(is_mixed.mean()),
        unsure=float((~is_clear & ~is_mixed).mean()),
    )


def clear_probability(memberships: NDArray[Any], std: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that the largest membership is 0.9 or more, for each sample, shape (n,).

    The posterior of the largest membership is taken to be a normal distribution between 0 and 1 whose maximum is at the
    peak, and as wide as the standard deviation says.

    Parameters
    ----------
    memberships, std : arrays of shape (n, r)
        Memberships at the peak, and their standard deviations.
    """
    n, largest = len(memberships), memberships.argmax(axis=1)
    peak, spread = memberships[np.arange(n), largest], std[np.arange(n), largest]
    if memberships.shape[1] == 1:
        return np.ones(n)
    low, high = np.full(n, -12.0), np.full(n, 12.0)
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        is_wide = _spread(peak, np.exp(middle)) > spread
        low, high = np.where(is_wide, low, middle), np.where(is_wide, middle, high)
    width = np.exp(high)
    above = ndtr((1.0 - peak) / width) - ndtr((CLEAR - peak) / width)
    inside = ndtr((1.0 - peak) / width) - ndtr(-peak / width)
    return np.where(spread > 0.0, above / inside, peak >= CLEAR)


def _spread(peak: NDArray[np.float64], width: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of a normal distribution of a width about a peak, cut off at 0 and 1."""
    a, b = -peak / width, (1.0 - peak) / width
    density_a, density_b = (np.exp(-0.5 * np.minimum(x * x, 700.0)) / np.sqrt(2.0 * np.pi) for x in (a, b))
    inside = ndtr(b) - ndtr(a)
    mean = (density_a - density_b) / inside
    square = 1.0 + (a * density_a - b * density_b) / inside
    return width * np.sqrt(np.maximum(square - mean * mean, 0.0))
