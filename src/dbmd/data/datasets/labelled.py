"""What a loader takes, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Labelled:
    """Samples with known classes.

    Attributes
    ----------
    name : str
        For people.
    X : array, shape (n_samples, n_features)
        float32, or float64 where float32 would lose digits.
    y : array, shape (n_samples,)
        Classes: ints or text.
    about : str
        Where it comes from, and what was done to it.
    surrogate : bool
        Whether it replaces a set that is not available; ``about`` says which.
    feature_names : tuple of str, optional
        Names of the columns of X.
    source : array, shape (n_samples,), optional
        The source of each sample, if there are several.
    truth : array, shape (n_samples, n_components), optional
        Known memberships, in rows on the simplex.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    about: str
    surrogate: bool
    feature_names: tuple[str, ...] | None = None
    source: NDArray[Any] | None = None
    truth: NDArray[Any] | None = None


@dataclass(frozen=True)
class Draw:
    """Which samples to return. A loader chooses the rows before it makes the samples."""

    n: int | None
    seed: int

    def rows(self, total: int) -> NDArray[np.intp]:
        """Return the numbers of the samples to return, out of so many."""
        if self.n is None:
            return np.arange(total)
        if not 1 <= self.n <= total:
            raise ValueError(
                f"The 'n' parameter of load must be None or an int from 1 to the number of samples, {total:,}. "
                f"Got {self.n!r}."
            )
        return np.random.default_rng(self.seed).permutation(total)[: self.n]
