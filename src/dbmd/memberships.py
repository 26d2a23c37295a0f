"""Memberships of data of any size, in the order of the rows, a piece at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Samples, Window, consecutive_rows
from dbmd.model.statistics import Float
from dbmd.sweep import HStep, origin_of

ROWS = 65536  # of a piece at most


def project(
    block: Samples, W: Float, *, sigma2: Float, prior: Float, n_threads: int
) -> Iterator[tuple[Window, NDArray[Any]]]:
    """Yield pieces of the samples with their memberships, in order; a few pieces are in work at a time.

    Parameters
    ----------
    block : Samples
        All samples.
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    n_threads : int
        How many pieces are worked on at once.

    Yields
    ------
    Window
        The samples.
    array of shape (rows, r)
        Their memberships.
    """
    shift = block.shift_for(origin_of(W, block.dtype))
    h_step = HStep.at(W, prior, sigma2, block.dtype, shift)

    def solve(window: Window) -> tuple[Window, NDArray[Any]]:
        Ht = np.empty((window.Xt.shape[0], W.shape[1]), block.dtype)
        for chunk in window._replace(first=0).chunks(block.dtype, shift):
            Ht[chunk.rows] = h_step.memberships(chunk)
        return window, Ht

    waiting: deque[Future[tuple[Window, NDArray[Any]]]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(n_threads, "dbmd") as pool:
        for window in block.windows():
            for piece in _pieces(window):
                waiting.append(pool.submit(solve, piece))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _pieces(window: Window) -> Iterator[Window]:
    n = window.Xt.shape[0]
    for i in range(0, n, ROWS):
        j = min(i + ROWS, n)
        yield Window(
            window.first + i,
            consecutive_rows(window.Xt, i, j),
            window.source_codes if isinstance(window.source_codes, int) else window.source_codes[i:j],
            None if window.classes is None else window.classes[i:j],
            {name: column.slice(i, j - i) for name, column in window.extra.items()},
        )
