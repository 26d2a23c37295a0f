"""Memberships of samples in a fitted model: of all at once, or one window after the other for data of any size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Chunk, Samples, Window, consecutive_rows
from dbmd.h_step import HStep
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.statistics import Float

MAX_ROWS = 65536  # of a window that is yielded


@dataclass(frozen=True)
class MembershipModel:
    """What the memberships of samples are computed from.

    Attributes
    ----------
    V : array of shape (m, n_columns)
        The components, and the offsets of the sources of the samples if they have any.
    parts : Parts
        What the columns of V are.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    by_energy : bool
        Whether memberships are multiplied by the norms of the components, with brightness.
    """

    V: Float
    parts: Parts
    sigma2: Float
    prior: Float
    by_energy: bool = False

    @classmethod
    def plain(cls, W: Float, sigma2: Float, prior: Float) -> MembershipModel:
        """Return a model of components only: W of shape (m, r)."""
        return cls(W, Parts.plain(W), sigma2, prior)

    def h_step(self, samples: Samples) -> HStep:
        """Return the H-step for samples."""
        return HStep.prepare(
            samples,
            self.parts.W(self.V),
            sigma2=self.sigma2,
            prior=self.parts.prior(self.prior),
            offsets=self.parts.offsets(self.V),
        )

    def shares(self, Ht: NDArray[Any]) -> NDArray[Any]:
        """Return memberships without the dark component, shape (n, r), from those with it, shape (n, n_patterns)."""
        return self.parts.shares(Ht, self.parts.norms(self.V) if self.by_energy else None)


def write_memberships(
    node: Node, model: MembershipModel, *, out: NDArray[Any], brightness: NDArray[Any] | None = None
) -> tuple[Node, int]:
    """Node: write the memberships of its samples to their rows of ``out``, shape (n, r), an array of this process.

    The brightness of the samples is written to the same rows of ``brightness``, shape (n,), if given.
    """
    first = node.samples.first_row
    rows = slice(first, first + node.samples.shape[0])
    memberships(node.samples, model, out=out[rows], brightness=None if brightness is None else brightness[rows])
    return node, 0


def memberships(
    samples: Samples, model: MembershipModel, *, out: NDArray[Any] | None = None, brightness: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return the memberships of samples, shape (n, r).

    Parameters
    ----------
    samples : Samples
        n samples of m features.
    model : MembershipModel
        What they are computed from.
    out : array of shape (n, r), optional
        Where to write them; by default a new array of the type of the samples.
    brightness : array of shape (n,), optional
        Where to write the brightness of the samples.
    """
    h_step = model.h_step(samples)
    out = np.empty((samples.shape[0], model.parts.n_components), samples.dtype) if out is None else out
    for chunk in samples.chunks(h_step.shift):
        out[chunk.rows], light = _of_chunk(model, h_step, chunk)
        if brightness is not None:
            brightness[chunk.rows] = light
    return out


def _of_chunk(model: MembershipModel, h_step: HStep, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the memberships of a chunk, shape (rows, r), and the brightness of its samples, shape (rows,).

    They are NaN for samples that are left out because they have gaps.
    """
    Ht = h_step.memberships(chunk)
    shares, brightness = model.shares(Ht), model.parts.brightness(Ht)
    if chunk.dropped is not None:
        shares[chunk.dropped], brightness[chunk.dropped] = np.nan, np.nan
    return shares, brightness


def labels_of(Ht: NDArray[Any]) -> NDArray[np.intp]:
    """Return the cluster of each sample by its memberships, shape (n, r): -1 where they are NaN."""
    return np.where(np.isnan(Ht[:, 0]), -1, Ht.argmax(axis=1))


def iter_memberships(
    samples: Samples, model: MembershipModel, *, n_threads: int
) -> Iterator[tuple[Window, NDArray[Any], NDArray[Any]]]:
    """Yield windows of the samples with their memberships, in order. A few windows are in memory at a time.

    Parameters
    ----------
    samples : Samples
        n samples of m features.
    model : MembershipModel
        What the memberships are computed from.
    n_threads : int
        Number of windows that are worked on at once.

    Yields
    ------
    Window
        At most 65,536 samples.
    array of shape (rows, r)
        Their memberships.
    array of shape (rows,)
        Their brightness: ones, if the model has none.
    """
    h_step = model.h_step(samples)

    def solve(window: Window) -> tuple[Window, NDArray[Any], NDArray[Any]]:
        n = window.Xt.shape[0]
        Ht, light = np.empty((n, model.parts.n_components), samples.dtype), np.empty(n, samples.dtype)
        for chunk in samples.chunks_of(window, h_step.shift):
            rows = chunk.rows_after(window.first)
            Ht[rows], light[rows] = _of_chunk(model, h_step, chunk)
        return window, Ht, light

    waiting: deque[Future[tuple[Window, NDArray[Any], NDArray[Any]]]] = deque()
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
            None if window.weights is None else window.weights[i:j],
        )
