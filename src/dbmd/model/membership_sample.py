"""Memberships of some samples of each source, which pages and figures show one by one; they add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import to_host
from dbmd.model.evidence import golden

MOST, LEAST = 3_000, 50  # samples in all, and of each source however many there are
SPARE = 1.5  # so many times as many samples are looked at as are to be drawn, if they are spread evenly


@dataclass(frozen=True)
class MembershipSample:
    """Memberships of some samples, drawn by row number: neither the number of nodes nor their order changes the draw.

    Of each source the rows with the smallest :func:`~dbmd.model.evidence.golden` numbers are kept, so that adding the
    samples of two nodes gives the sample of both.

    Attributes
    ----------
    rows : array of int of shape (k,)
        Row numbers in the whole data, in order.
    source_codes : array of int of shape (k,)
        The source of each.
    class_codes : array of int of shape (k,)
        The known class of each; -1 where none is known.
    memberships : array of shape (k, r)
        Their memberships at the peak of the posterior.
    std : array of shape (k, r), optional
        Their standard deviations; None if they are not known.
    limit : int
        Most samples of a source.
    """

    rows: NDArray[np.int64]
    source_codes: NDArray[np.int64]
    class_codes: NDArray[np.int64]
    memberships: NDArray[np.float64]
    std: NDArray[np.float64] | None
    limit: int

    @classmethod
    def empty(cls, n_sources: int, r: int, *, with_std: bool = False) -> MembershipSample:
        """Return the sample of no data that will have so many sources and components."""
        none = np.zeros(0, np.int64)
        std = np.zeros((0, r)) if with_std else None
        return cls(none, none, none, np.zeros((0, r)), std, max(LEAST, MOST // n_sources))

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: MembershipSample) -> MembershipSample:
        both = self.joined(other)
        return both.taken(both.drawn())

    def drawn(self) -> NDArray[np.intp]:
        """Return the positions of the samples that are kept if there are too many, in the order of their rows."""
        drawn = np.zeros(len(self), bool)
        position = golden(self.rows)
        for source_code in np.unique(self.source_codes):
            own = np.flatnonzero(self.source_codes == source_code)
            if len(own) > self.limit:
                own = own[np.argsort(position[own], kind="stable")[: self.limit]]
            drawn[own] = True
        chosen = np.flatnonzero(drawn)
        return chosen[np.argsort(self.rows[chosen], kind="stable")]

    def taken(self, chosen: NDArray[np.intp]) -> MembershipSample:
        """Return some of the samples, by their positions."""
        return self._mapped(lambda values: values[chosen])

    def reordered(self, order: NDArray[np.intp]) -> MembershipSample:
        """Return the sample with its components in another order."""
        return replace(
            self,
            memberships=self.memberships[:, order],
            std=None if self.std is None else self.std[:, order],
        )

    def among(self, numbers: NDArray[np.intp], n_sources: int) -> MembershipSample:
        """Return the sample among n_sources sources, where source i of this one has the code numbers[i]."""
        placed = replace(self, source_codes=np.asarray(numbers, np.int64)[self.source_codes])
        return MembershipSample.empty(n_sources, self.memberships.shape[1], with_std=self.std is not None) + placed

    def candidates(self, rows: NDArray[np.integer], source_code: int) -> NDArray[np.intp]:
        """Return the positions of rows of one source that are drawn if they are added: none of the others can be kept.

        Parameters
        ----------
        rows : array of int of shape (n,), here or elsewhere
            Their numbers in the whole data.
        source_code : int
            Their source.
        """
        position, own = golden(rows), golden(self.rows[self.source_codes == source_code])
        most = own.max() if len(own) >= self.limit else 1.0
        # Golden numbers are spread evenly: hardly more than those that are drawn have to be looked at again.
        likely = min(most, SPARE * self.limit / max(len(rows), 1))
        fit = np.flatnonzero(position < likely)
        if len(fit) < self.limit and likely < most:
            fit = np.flatnonzero(position < most)
        fit, position = to_host(fit), to_host(position[fit])
        if len(fit) > self.limit:
            fit = np.sort(fit[np.argpartition(position, self.limit)[: self.limit]])
        return fit

    def joined(self, other: MembershipSample) -> MembershipSample:
        """Return the samples of both, those of the other last, however many they are."""
        names = _ARRAYS if self.std is None or other.std is None else (*_ARRAYS, "std")
        joined: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return replace(self, **{"std": None} | joined)

    def _mapped(self, change: Any) -> MembershipSample:
        arrays: dict[str, Any] = {name: change(getattr(self, name)) for name in _ARRAYS}
        return replace(self, **arrays, std=None if self.std is None else change(self.std))


_ARRAYS = ("rows", "source_codes", "class_codes", "memberships")
