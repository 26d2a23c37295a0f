"""Memberships of samples in a fitted model: of all at once, or one window after the other for data of any size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Samples, Window, consecutive_rows
from dbmd.h_step import HStep
from dbmd.model.node import Node
from dbmd.model.statistics import Float

MAX_ROWS = 65536  # of a window that is yielded


def write_memberships(node: Node, W: Float, *, sigma2: Float, prior: Float, out: NDArray[Any]) -> tuple[Node, int]:
    """Node: write the memberships of its samples to their rows of ``out``, shape (n, r), an array of this process."""
    first = node.samples.first_row
    memberships(node.samples, W, sigma2=sigma2, prior=prior, out=out[first : first + node.samples.shape[0]])
    return node, 0


def memberships(
    samples: Samples, W: Float, *, sigma2: Float, prior: Float, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return the memberships of samples, shape (n, r).

    Parameters
    ----------
    samples : Samples
        n samples of m features.
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    out : array of shape (n, r), optional
        Where to write them; by default a new array of the type of the samples.
    """
    h_step = HStep.prepare(samples, W, sigma2=sigma2, prior=prior)
    out = np.empty((samples.shape[0], W.shape[1]), samples.dtype) if out is None else out
    for chunk in samples.chunks(h_step.shift):
        out[chunk.rows] = h_step.memberships(chunk)
    return out


def iter_memberships(
    samples: Samples, W: Float, *, sigma2: Float, prior: Float, n_threads: int
) -> Iterator[tuple[Window, NDArray[Any]]]:
    """Yield windows of the samples with their memberships, in order. A few windows are in memory at a time.

    Parameters
    ----------
    samples : Samples
        n samples of m features.
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    n_threads : int
        Number of windows that are worked on at once.

    Yields
    ------
    Window
        At most 65,536 samples.
    array of shape (rows, r)
        Their memberships.
    """
    h_step = HStep.prepare(samples, W, sigma2=sigma2, prior=prior)

    def solve(window: Window) -> tuple[Window, NDArray[Any]]:
        Ht = np.empty((window.Xt.shape[0], W.shape[1]), samples.dtype)
        for chunk in window._replace(first=0).chunks(samples.dtype, h_step.shift):
            Ht[chunk.rows] = h_step.memberships(chunk)
        return window, Ht

    waiting: deque[Future[tuple[Window, NDArray[Any]]]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(n_threads, "dbmd") as pool:
        for window in samples.windows():
            for part in _split(window):
                waiting.append(pool.submit(solve, part))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _split(window: Window) -> Iterator[Window]:
    """Yield a window in parts of at most ``MAX_ROWS`` rows."""
    n = window.Xt.shape[0]
    for i in range(0, n, MAX_ROWS):
        j = min(i + MAX_ROWS, n)
        yield Window(
            window.first + i,
            consecutive_rows(window.Xt, i, j),
            window.source_codes if isinstance(window.source_codes, int) else window.source_codes[i:j],
            None if window.class_codes is None else window.class_codes[i:j],
            {name: column.slice(i, j - i) for name, column in window.extra.items()},
        )
