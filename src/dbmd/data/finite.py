"""Finding entries that cannot be fitted: infinite ones, and missing ones, NaN, where they are not allowed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, to_host
from dbmd._utils.arrays import is_sparse as is_csr
from dbmd._utils.threads import available_threads

ROWS = 4096  # checked entry by entry at a time
PART_BYTES = 16 << 20  # what a thread checks, at least
Missing = Literal["error", "allow", "drop"]


class Entry(NamedTuple):
    """An entry of a matrix."""

    row: int
    column: int
    value: Any


def first_unusable(Xt: Any, missing: Missing = "error", *, rows_may_be_empty: bool = True) -> Entry | None:
    """Return the first entry of a dense or CSR array that cannot be fitted, None if there is none.

    Infinite ones never can. NaN, a missing entry, can in dense arrays if it is allowed.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    missing : {"error", "allow", "drop"}
        Whether entries may be missing; with "drop", samples with such entries are left out.
    rows_may_be_empty : bool
        Whether all entries of a row may be missing with "allow"; else the first entry of such a row is returned.
    """
    values = Xt.data if is_csr(Xt) else Xt
    if _has_finite_sum(values):  # one fast pass; a sum of finite numbers may overflow, too
        return None
    if is_csr(Xt):
        entries = np.flatnonzero(~np.isfinite(values))
        if not len(entries):
            return None
        entry = int(entries[0])
        row = int(np.searchsorted(to_host(Xt.indptr), entry, side="right")) - 1
        return Entry(row, int(Xt.indices[entry]), to_host(values[entry])[()])
    for start in range(0, len(Xt), ROWS):
        part = Xt[start : start + ROWS]
        bad = ~np.isfinite(part) if missing == "error" else np.isinf(part)
        if missing == "allow" and not rows_may_be_empty:
            bad[:, 0] |= np.isnan(part).all(axis=1)
        found = np.argwhere(bad)
        if len(found):
            row, column = int(found[0][0]) + start, int(found[0][1])
            return Entry(row, column, to_host(Xt[row, column])[()])
    return None


def _has_finite_sum(values: Any) -> bool:
    """Return whether the sum of an array is finite. Threads add up parts of a large one: one alone reads too slowly."""
    n_parts = min(available_threads(), values.nbytes // PART_BYTES) if is_here(values) else 1
    edges = np.linspace(0, len(values), max(n_parts, 1) + 1).astype(int).tolist()

    def total(start: int, stop: int) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return values[start:stop].sum(dtype=values.dtype)

    if n_parts <= 1:
        return bool(np.isfinite(total(0, len(values))))
    with ThreadPoolExecutor(n_parts) as pool:
        return bool(np.isfinite(list(pool.map(total, edges[:-1], edges[1:]))).all())


def what_is_wrong(entry: Entry, column: str, missing: Missing, *, is_sparse: bool) -> str:
    """Return what an error message says of an entry that cannot be fitted, after the row, and what to do.

    Parameters
    ----------
    entry : Entry
        Of :func:`first_unusable`.
    column : str
        Its column, as it is shown.
    missing : {"error", "allow", "drop"}
        What the user asked for.
    is_sparse : bool
        Whether the data are sparse.
    """
    if not np.isnan(entry.value):
        return (
            f", column {column} is {entry.value}. Only finite numbers can be fitted: remove or impute such rows first."
        )
    if missing != "error" and not is_sparse:
        return " has no number at all. Leave out such rows with missing='drop'."
    what = f", column {column} has no number (it is empty or NaN)."
    if is_sparse:
        return f"{what} Entries of sparse data cannot be missing: remove or impute such rows first."
    return f"{what} Use the numbers that are there with missing='allow', or leave out such rows with missing='drop'."


def with_nan(X: Any) -> Any:
    """Return an array whose missing entries are NaN: a masked array as floats, anything else as it is."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if not np.ma.is_masked(X):
        return X.data
    if X.dtype.kind not in "biuf":
        raise TypeError(f"A masked array must hold numbers. Got {X.dtype}.")
    dtype = X.dtype if X.dtype.kind == "f" else np.result_type(X.dtype, np.float32)
    return np.where(np.ma.getmaskarray(X), np.nan, X.data).astype(dtype)


def has_nan(values: NDArray[Any]) -> bool:
    """Return whether an entry of an array is NaN, at the cost of a sum."""
    with np.errstate(over="ignore", invalid="ignore"):
        # Finite numbers may sum to NaN, too, if they overflow in both directions.
        return bool(np.isnan(values.sum()) and np.isnan(values).any())


def canonical_nan(values: NDArray[Any]) -> Any:
    """Return floats in which all NaN are the same bits, in the same shape."""
    return np.where(np.isnan(values), values.dtype.type(np.nan), values) if has_nan(values) else values
