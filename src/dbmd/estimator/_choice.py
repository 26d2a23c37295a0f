"""What is said about how many components to take: the number, the curve behind it, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.stability import typical

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """How many components to take, and why; :func:`dbmd.choose_components` returns it.

    Attributes
    ----------
    n_components : int
        The number that is proposed: the largest whose components are all found by either half of the data. If there is
        none, the smallest that was tried.
    is_stable : bool
        Whether there is such a number.
    tried : tuple of int
        The numbers that were tried, in rising order.
    agreement : tuple of arrays of shape (n_splits, r)
        For each number, and each way to split the data, the correlations between the memberships by either half in
        the r matched components, in falling order. Rows of NaN: this split was not needed.
    explained : array of shape (n_tried,)
        The fraction of the variance that fits of a half explain, on average.
    limit : float
        Two halves agree on components with at least this correlation: 0.985, or less, down to 0.9, where even the
        number that they agree on best is not far above it.
    n_samples : int
        Number of samples that were drawn.
    """

    n_components: int
    is_stable: bool
    tried: tuple[int, ...]
    agreement: tuple[Float, ...]
    explained: Float
    limit: float
    n_samples: int

    @property
    def worst(self) -> Float:
        """The correlation of the worst pair, shape (n_tried, n_splits)."""
        return np.array([each[:, -1] for each in self.agreement])

    @property
    def mean(self) -> Float:
        """The mean correlation of the pairs, shape (n_tried, n_splits)."""
        return np.array([each.mean(axis=1) for each in self.agreement])

    @property
    def typical(self) -> Float:
        """The correlation of the worst pair in a typical split, the median of all that were made, shape (n_tried,)."""
        return typical(self.worst)

    @property
    def sentence(self) -> str:
        """One sentence that says what it means."""
        found, tried = self.typical, self.tried
        if not self.is_stable:
            best = int(np.argmax(found))
            numbers = f"{tried[0]}" if len(tried) == 1 else f"{tried[0]} to {tried[-1]}"
            return (
                f"Two halves of the data do not find the same patterns for any number that was tried, {numbers}: at "
                f"best the least stable pattern correlates {found[best]:.2f}, with {tried[best]}, where "
                f"{self.limit:.2f} is wanted."
            )
        i = tried.index(self.n_components)
        start = (
            f"Two halves of the data find the same {self.n_components} patterns: the least stable one correlates "
            f"{_below_one(found[i])}"
        )
        if i == len(tried) - 1:
            return f"{start}; no larger number was tried, and there may be more."
        return (
            f"{start}, but {_below_one(found[i + 1])} with {tried[i + 1]}, where each half finds patterns of its own."
        )

    def asdict(self) -> dict[str, Any]:
        """Return all of it as numbers, text and lists, which JSON can hold; None where a split was not needed."""
        return {
            "n_components": self.n_components,
            "is_stable": self.is_stable,
            "tried": list(self.tried),
            "agreement": [_listed(each) for each in self.agreement],
            "worst": _listed(self.worst),
            "mean": _listed(self.mean),
            "explained": _listed(self.explained),
            "limit": self.limit,
            "n_samples": self.n_samples,
            "sentence": self.sentence,
        }


def _below_one(correlation: float) -> str:
    """Return a correlation as text: never 1 unless it is."""
    return "1" if correlation == 1.0 else f"{min(correlation, 0.9999):.{2 if correlation < 0.98 else 4}f}"


def _listed(values: Float) -> Any:
    """Return an array as nested lists, with None for NaN."""
    return np.where(np.isnan(values), np.array(None), values).tolist()
