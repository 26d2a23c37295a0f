"""Finding the first entry that is NaN or infinite."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

ROWS = 4096  # checked entry by entry at a time


class Entry(NamedTuple):
    """An entry of a matrix."""

    row: int
    column: int
    value: Any


def first_nonfinite(Xt: Any) -> Entry | None:
    """Return the first entry of a dense or CSR array that is NaN or infinite, None if there is none."""
    values = Xt.data if sparse.issparse(Xt) else Xt
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=values.dtype)):  # one fast pass; a sum of finite numbers may overflow, too
            return None
    if sparse.issparse(Xt):
        entries = np.flatnonzero(~np.isfinite(values))
        if not len(entries):
            return None
        row = int(np.searchsorted(Xt.indptr, entries[0], side="right")) - 1
        return Entry(row, int(Xt.indices[entries[0]]), values[entries[0]])
    for start in range(0, len(Xt), ROWS):
        bad = np.argwhere(~np.isfinite(Xt[start : start + ROWS]))
        if len(bad):
            row, column = int(bad[0][0]) + start, int(bad[0][1])
            return Entry(row, column, Xt[row, column])
    return None
