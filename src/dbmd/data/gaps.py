"""Where entries are missing: the columns of the gaps of each sample, which take less time to go through than a mask."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._rows import jit


class Gaps(NamedTuple):
    """The gaps of samples, row by row, as in a CSR array.

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
    def of(cls, mask: NDArray[np.bool_] | Self) -> Self:
        """Return the gaps of samples from a mask, shape (rows, m), True where an entry is missing; or as they are."""
        if isinstance(mask, cls):
            return mask
        mask = np.require(mask, np.bool_, ["C", "W"])
        starts = np.empty(len(mask) + 1, np.int64)
        columns = np.empty(np.count_nonzero(mask) + 1, np.int64)
        _locate(mask.view(np.uint8), starts, columns)
        return cls(starts, columns[:-1])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of gaps of each sample, shape (rows,)."""
        return np.diff(self.starts)

    def mask(self, m: int) -> NDArray[np.bool_]:
        """Return which of m features are missing, shape (rows, m)."""
        mask = np.zeros((len(self.starts) - 1, m), np.bool_)
        mask[np.repeat(np.arange(len(mask)), self.counts), self.columns] = True
        return mask

    def some(self) -> tuple[NDArray[np.bool_], Gaps]:
        """Return which samples have gaps, shape (rows,), and the gaps of those."""
        have = self.counts > 0
        return have, self if have.all() else Gaps(self.starts[np.append(have, True)], self.columns)

    def put(self, Xt: NDArray[Any], values: NDArray[Any]) -> None:
        """Write a number for each feature, shape (m,), into the gaps of samples, shape (rows, m)."""
        _put(Xt, self.starts, self.columns, np.require(values, Xt.dtype, ["C", "W"]))

    def put_products(self, Xt: NDArray[Any], Ht: NDArray[Any], W: NDArray[Any], centre: NDArray[Any]) -> None:
        """Write w_j'h + centre_j into each gap.

        Parameters
        ----------
        Xt : array of shape (rows, m), changed in place
            The samples.
        Ht : array of shape (rows, r)
            Their memberships.
        W : array of shape (m, r)
            The basis.
        centre : array of shape (m,)
            What is added.
        """
        arrays = (np.require(each, np.float64, ["C", "W"]) for each in (Ht, W, centre))
        _put_products(Xt, self.starts, self.columns, *arrays)


@jit
def _locate(mask: Any, starts: Any, columns: Any) -> None:
    """Write where a mask, shape (n, m), is not zero to ``starts``, shape (n + 1,), and ``columns``."""
    n, m = mask.shape
    count = np.int64(0)
    for i in range(n):
        starts[i] = count
        for j in range(m):  # no branches: they would be mispredicted
            columns[np.uint64(count)] = j
            count += mask[i, j]
    starts[n] = count


@jit
def _put(Xt: Any, starts: Any, columns: Any, values: Any) -> None:
    """Write ``values``, shape (m,), into the gaps of Xt, shape (n, m)."""
    for i in range(len(starts) - 1):
        for g in range(starts[i], starts[i + 1]):
            j = columns[np.uint64(g)]
            Xt[np.uint64(i), np.uint64(j)] = values[np.uint64(j)]


@jit
def _put_products(Xt: Any, starts: Any, columns: Any, Ht: Any, W: Any, centre: Any) -> None:
    """Write w_j'h + centre_j into the gaps of Xt, shape (n, m); Ht is of shape (n, r), W of shape (m, r)."""
    r = Ht.shape[1]
    for i in range(len(starts) - 1):
        for g in range(starts[i], starts[i + 1]):
            j = columns[np.uint64(g)]
            total = centre[np.uint64(j)]
            for k in range(r):
                total += W[np.uint64(j), np.uint64(k)] * Ht[np.uint64(i), np.uint64(k)]
            Xt[np.uint64(i), np.uint64(j)] = total
