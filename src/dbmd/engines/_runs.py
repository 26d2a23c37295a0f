"""The order in which rows go to a device: runs of one source each, cut where sums may be cut, and in windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Window, consecutive_rows

ROWS = 8192  # the kernel's sums are over runs of so many rows
LEAST_ROWS = 256  # of a chunk, where there is no memory for more


class Run(NamedTuple):
    """Consecutive rows of one source."""

    start: int
    stop: int
    source_code: int


def runs_of(source_codes: NDArray[np.intp] | int, n: int) -> tuple[list[Run], NDArray[np.intp] | None]:
    """Return runs of rows of one source, and the order of the rows that makes them; None: they are in that order.

    Parameters
    ----------
    source_codes : array of int of shape (n,), or an int
        The source of each row, or of all.
    n : int
        Number of rows.
    """
    if isinstance(source_codes, int):
        return [Run(0, n, source_codes)] if n else [], None
    cuts, order = np.flatnonzero(np.diff(source_codes)) + 1, None
    if len(cuts) * ROWS > n:  # else they are so long that they need not be gathered
        order = np.argsort(source_codes, kind="stable")
        if (np.diff(order) > 0).all():
            order = None
        source_codes = np.sort(source_codes)
        cuts = np.flatnonzero(np.diff(source_codes)) + 1
    return [Run(i, j, int(source_codes[i])) for i, j in pairwise([0, *cuts.tolist(), n]) if j > i], order


def rows_within(n_bytes: int, row_bytes: float) -> int:
    """Return how many rows fit into so many bytes: a multiple of ``ROWS``, or less, but at least ``LEAST_ROWS``."""
    rows = int(n_bytes / max(row_bytes, 1.0))
    if rows >= ROWS:
        return rows // ROWS * ROWS
    return max(LEAST_ROWS, 1 << max(rows, 1).bit_length() - 1)


def pieces(runs: Iterable[Run], size: int) -> Iterator[Run]:
    """Yield runs cut into pieces of at most so many rows."""
    for start, stop, source_code in runs:
        for i in range(start, stop, size):
            yield Run(i, min(i + size, stop), source_code)


def groups(runs: Iterable[Run], size: int) -> Iterator[list[Run]]:
    """Yield lists of consecutive runs with at most so many rows together; long runs are cut, after multiples of ROWS.

    Parameters
    ----------
    runs : iterable of Run
        Rows that follow one another.
    size : int
        A multiple of ``ROWS``, or less than it.
    """
    group: list[Run] = []
    for start, stop, source_code in pieces(runs, min(ROWS, size)):
        if group and stop - group[0].start > size:
            yield group
            group = []
        if group and group[-1].source_code == source_code:
            group[-1] = group[-1]._replace(stop=stop)
        else:
            group.append(Run(start, stop, source_code))
    if group:
        yield group


def pieces_by_entries(runs: list[Run], ends: NDArray[np.int64], entries: int) -> Iterator[Run]:
    """Yield runs cut into pieces of at most so many entries, whose first rows are multiples of ``ROWS``, or less.

    Parameters
    ----------
    runs : list of Run
        Rows of one source each.
    ends : array of int of shape (n,)
        How many entries rows have up to each.
    entries : int
        Largest number of entries of a piece, unless a piece of ``LEAST_ROWS`` has more.
    """
    entries = min(entries, np.iinfo(np.int32).max)
    before = np.concatenate([[0], ends])
    for start, stop, source_code in runs:
        i = start
        while i < stop:
            rows = int(np.searchsorted(before, before[i] + entries, side="right")) - 1 - i
            j = min(stop, i + rows_within(rows, 1.0)) if i + rows < stop else stop
            yield Run(i, j, source_code)
            i = j


def row_ends(Xt: Any, order: NDArray[np.intp] | None) -> NDArray[np.int64]:
    """Return how many entries rows have up to each, in an order, shape (n,)."""
    lengths = np.diff(Xt.indptr).astype(np.int64)
    return np.cumsum(lengths if order is None else lengths[order])


def csr_rows(Xt: Any, order: NDArray[np.intp] | None, run: Run) -> Any:
    """Return the rows of a run of a CSR array, in an order."""
    if order is None:
        return consecutive_rows(Xt, run.start, run.stop)
    return Xt[order[run.start : run.stop]]


def regrouped(windows: Iterator[Window], size: int) -> Iterator[list[Window]]:
    """Yield lists of windows with exactly so many rows together, but for the last one."""
    part: list[Window] = []
    missing = size
    for window in windows:
        start, n = 0, window.Xt.shape[0]
        while n - start >= missing:
            part.append(_rows_of(window, start, start + missing))
            yield part
            start, part, missing = start + missing, [], size
        if start < n:
            part.append(_rows_of(window, start, n))
            missing -= n - start
    if part:
        yield part


def _rows_of(window: Window, start: int, stop: int) -> Window:
    part = slice(start, stop)
    return Window(
        window.first + start,
        consecutive_rows(window.Xt, start, stop),
        window.source_codes if isinstance(window.source_codes, int) else window.source_codes[part],
        None if window.class_codes is None else window.class_codes[part],
        weights=None if window.weights is None else window.weights[part],
    )


def codes_of(part: list[Window]) -> NDArray[np.intp] | int:
    """Return the sources of the rows of windows."""
    codes = [window.source_codes for window in part]
    first = codes[0]
    if isinstance(first, int) and all(isinstance(code, int) and code == first for code in codes):
        return first
    return np.concatenate([np.broadcast_to(c, w.Xt.shape[0]) for c, w in zip(codes, part, strict=True)])
