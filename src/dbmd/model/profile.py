"""Counts and histograms of the memberships of all samples, which the report shows; they add."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, namespace, to_host

BINS = 50  # of the histograms, equal on [0, 1]


@dataclass(frozen=True)
class Profile:
    """Counts and histograms of memberships. Adding those of two sets of samples gives those of both.

    Samples whose weight is zero are not counted. Other weights count in the sums of memberships only.

    Attributes
    ----------
    n : array of int of shape (n_sources,)
        Samples.
    counts : array of int of shape (n_sources, r)
        Samples by their cluster, the largest membership.
    sizes : array of shape (n_sources, r)
        Sums of memberships, each times the weight of its sample.
    largest : array of int of shape (n_sources, BINS)
        Histogram of the largest membership of a sample.
    memberships : array of int of shape (r, BINS)
        Histogram of all memberships in a component.
    contingency : array of int of shape (n_classes, r)
        Samples by known class and cluster; no rows where no labels were given.
    """

    n: NDArray[np.int64]
    counts: NDArray[np.int64]
    sizes: NDArray[np.float64]
    largest: NDArray[np.int64]
    memberships: NDArray[np.int64]
    contingency: NDArray[np.int64]

    @classmethod
    def zero(cls, n_sources: int, r: int, n_classes: int = 0) -> Profile:
        """Return the profile of no samples."""
        return cls(
            np.zeros(n_sources, np.int64),
            np.zeros((n_sources, r), np.int64),
            np.zeros((n_sources, r)),
            np.zeros((n_sources, BINS), np.int64),
            np.zeros((r, BINS), np.int64),
            np.zeros((n_classes, r), np.int64),
        )

    def __add__(self, other: Profile) -> Profile:
        return Profile(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def reordered(self, order: NDArray[np.intp]) -> Profile:
        """Return the profile with its components in another order."""
        return replace(
            self,
            counts=self.counts[:, order],
            sizes=self.sizes[:, order],
            memberships=self.memberships[order],
            contingency=self.contingency[:, order],
        )

    def among(self, numbers: NDArray[np.intp], n_sources: int) -> Profile:
        """Return the profile with n_sources sources, where source i of this one has the code numbers[i]."""

        def placed(values: NDArray[Any]) -> NDArray[Any]:
            among = np.zeros((n_sources, *values.shape[1:]), values.dtype)
            among[numbers] = values
            return among

        return replace(self, **{name: placed(getattr(self, name)) for name in ("n", "counts", "sizes", "largest")})

    def count(
        self,
        Ht: NDArray[np.floating],
        source_code: int,
        class_codes: NDArray[np.intp] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add samples of one source, in place.

        Parameters
        ----------
        Ht : array of shape (n, r)
            Their memberships.
        source_code : int
            Their source.
        class_codes : array of int of shape (n,), optional
            Their known classes, of NumPy or of the kind of the memberships.
        weights : array of shape (n,), optional
            For how many samples each stands; by default for itself.
        """
        class_codes = None if class_codes is None else namespace(Ht).asarray(class_codes)
        if weights is not None and not weights.all():
            counted = np.flatnonzero(weights > 0.0)
            class_codes = None if class_codes is None else class_codes[counted]
            Ht, weights = Ht[counted], weights[counted]
        n, r = Ht.shape
        if not n:
            return
        # Elsewhere in 32 bits: there are n r numbers, and memory may be short.
        index = np.dtype(np.intp if is_here(Ht) else np.int32)
        cluster = Ht.argmax(axis=1).astype(index, copy=False)
        bins = np.minimum((Ht * BINS).astype(index), BINS - 1)
        largest_bin = bins.max(axis=1)
        bins += BINS * namespace(Ht).arange(r, dtype=index)
        numbers = [(cluster, r), (largest_bin, BINS), (bins.ravel(), r * BINS)]
        if class_codes is not None:
            numbers.append(((class_codes * r + cluster).astype(index, copy=False), self.contingency.size))
        counts, largest, memberships, *pairs = _counts(numbers)
        self.n[source_code] += n
        self.counts[source_code] += counts
        # A product is many times as fast as a sum over rows.
        weights = np.ones_like(Ht[:, 0], np.float64) if weights is None else weights
        self.sizes[source_code] += to_host(weights @ Ht.astype(np.float64, copy=False))
        self.largest[source_code] += largest
        self.memberships[:] += memberships.reshape(r, BINS)
        for found in pairs:
            self.contingency[:] += found.reshape(self.contingency.shape)


def _counts(numbers: list[tuple[NDArray[np.intp], int]]) -> list[NDArray[np.intp]]:
    """Return how often each number is in each of some arrays, which come with how many numbers there are."""
    if is_here(numbers[0][0]):
        return [np.bincount(each, minlength=length) for each, length in numbers]
    # Elsewhere all are counted at once: each count would be waited for.
    starts = np.cumsum([0, *(length for _, length in numbers)]).tolist()
    joined = np.concatenate([each + start for (each, _), start in zip(numbers, starts, strict=False)])
    return np.split(to_host(np.bincount(joined, minlength=starts[-1])), starts[1:-1])
