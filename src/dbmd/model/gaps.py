"""Where entries are missing: the columns of the gaps of each sample, which take less time to go through than a mask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import namespace


class Gaps(NamedTuple):
    """The gaps of samples, row by row, as in a CSR array; arrays are of the kind of the samples.

    Attributes
    ----------
    starts : array of int of shape (rows + 1,)
        The gaps of row i are ``columns[starts[i] : starts[i + 1]]``.
    columns : array of int of shape (number of gaps,)
        Their features, in order.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]

    @classmethod
    def of(cls, mask: NDArray[np.bool_] | Gaps) -> Gaps:
        """Return the gaps of samples from a mask, shape (rows, m), True where an entry is missing; or as they are."""
        if isinstance(mask, Gaps):
            return mask
        (n, m), xp = mask.shape, namespace(mask)
        places = np.flatnonzero(mask)
        starts = np.searchsorted(places, xp.arange(n + 1) * m)
        return cls(starts, places - np.repeat(xp.arange(n) * m, np.diff(starts)))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of gaps of each sample, shape (rows,)."""
        return np.diff(self.starts)

    def mask(self, m: int) -> NDArray[np.bool_]:
        """Return which of m features are missing, shape (rows, m)."""
        xp = namespace(self.columns)
        mask: NDArray[np.bool_] = xp.zeros((len(self.starts) - 1, m), np.bool_)
        mask[np.repeat(xp.arange(len(mask)), self.counts), self.columns] = True
        return mask

    def some(self) -> tuple[NDArray[np.bool_], Gaps]:
        """Return which samples have gaps, shape (rows,), and the gaps of those."""
        have = self.counts > 0
        return have, self if have.all() else Gaps(self.starts[np.append(have, True)], self.columns)
