"""Memberships of samples in a fitted model: of all at once, or one window after the other for data of any size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_here, namespace, rows_here, to_host
from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Chunk, Samples, Window, consecutive_rows
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
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
    evidence : Evidence, optional
        How memberships are integrated out: the noise in the plane of the components, which means and standard
        deviations depend on. By default it is that of other directions.
    is_mean : bool
        Whether memberships are means of the posterior instead of its peaks.
    with_std : bool
        Whether standard deviations stand beside memberships, as further columns.
    errors : array of shape (k, n_patterns, n_patterns), optional
        Likely errors of the components, which standard deviations are to account for (:mod:`dbmd.model.w_error`).
    """

    V: Float
    parts: Parts
    sigma2: Float
    prior: Float
    by_energy: bool = False
    evidence: Evidence | None = None
    is_mean: bool = False
    with_std: bool = False
    errors: Float | None = None

    @classmethod
    def plain(cls, W: Float, sigma2: Float, prior: Float) -> MembershipModel:
        """Return a model of components only: W of shape (m, r)."""
        return cls(W, Parts.plain(W), sigma2, prior)

    @property
    def width(self) -> int:
        """Number of columns of the result: r, or with standard deviations 2 r."""
        return self.parts.n_components * (1 + self.with_std)

    def h_step(self, samples: Samples) -> HStep:
        """Return the H-step for samples."""
        return HStep.prepare(
            samples,
            self.parts.W(self.V),
            sigma2=self.sigma2,
            prior=self.parts.prior(self.prior),
            evidence=self.evidence,
            offsets=self.parts.offsets(self.V),
        )

    def of_chunk(self, h_step: HStep, chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the result for a chunk, shape (rows, width), and the brightness of its samples, shape (rows,).

        They are NaN for samples that are left out because they have gaps. Peaks are arrays of the kind of the chunk,
        means and standard deviations are arrays of NumPy.
        """
        chunk = h_step.located(chunk)
        Ht, norms = h_step.memberships(chunk), self.parts.norms(self.V) if self.by_energy else None
        found, brightness = self.parts.shares(Ht, norms), self.parts.brightness(Ht)
        if self.is_mean or self.with_std:
            posterior = h_step.posterior(chunk, Ht, self.parts, norms=norms, errors=self.errors)
            if self.is_mean:
                found, brightness = posterior.mean.astype(Ht.dtype), posterior.brightness.astype(Ht.dtype)
            if self.with_std:
                found = np.hstack([to_host(found), posterior.std.astype(Ht.dtype)])
        if chunk.dropped is not None:
            dropped = to_host(chunk.dropped)  # which is an index for arrays of either kind
            found[dropped], brightness[dropped] = np.nan, np.nan
        return found, brightness


def write_memberships(
    node: Node, model: MembershipModel, *, out: NDArray[Any], brightness: NDArray[Any] | None = None
) -> tuple[Node, int]:
    """Node: write the memberships of its samples to their rows of ``out``, shape (n, width), an array of this process.

    The brightness of the samples is written to the same rows of ``brightness``, shape (n,), if given. Both may be
    arrays of NumPy, or of the kind of the kernel of the samples.
    """
    first = node.samples.first_row
    rows = slice(first, first + node.samples.shape[0])
    memberships(node.samples, model, out=out[rows], brightness=None if brightness is None else brightness[rows])
    return node, 0


def memberships(
    samples: Samples, model: MembershipModel, *, out: NDArray[Any] | None = None, brightness: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return the memberships of samples, shape (n, width): with their standard deviations, if the model says so.

    Parameters
    ----------
    samples : Samples
        n samples of m features.
    model : MembershipModel
        What they are computed from.
    out : array of shape (n, width), optional
        Where to write them; by default a new array of NumPy, of the type of the samples.
    brightness : array of shape (n,), optional
        Where to write the brightness of the samples.
    """
    h_step = model.h_step(samples)
    out = np.empty((samples.shape[0], model.width), samples.dtype) if out is None else out
    for chunk in samples.chunks(h_step.shift if h_step.shift.any() else None):
        found, light = model.of_chunk(h_step, chunk)
        _write(out, chunk.rows, found)
        if brightness is not None:
            _write(brightness, chunk.rows, light)
    h_step.check()
    return out


def _write(out: NDArray[Any], rows: Any, values: NDArray[Any]) -> None:
    """Write values to rows of an array; both may be of either kind."""
    if is_here(out):
        out[rows_here(rows)] = to_host(values)
    else:
        out[rows] = namespace(out).asarray(values)


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
    array of shape (rows, width)
        Their memberships, with their standard deviations, if the model says so.
    array of shape (rows,)
        Their brightness: ones, if the model has none.
    """
    h_step = model.h_step(samples)

    def solve(window: Window) -> tuple[Window, NDArray[Any], NDArray[Any]]:
        n = window.Xt.shape[0]
        Ht, light = np.empty((n, model.width), samples.dtype), np.empty(n, samples.dtype)
        with one_blas_thread():  # here: who takes the windows may wait in between, or stop, and need BLAS
            for chunk in samples.chunks_of(window, h_step.shift):
                rows = chunk.rows_after(window.first)
                found, own_light = model.of_chunk(h_step, chunk)
                _write(Ht, rows, found)
                _write(light, rows, own_light)
            h_step.check()
        return window, Ht, light

    waiting: deque[Future[tuple[Window, NDArray[Any], NDArray[Any]]]] = deque()
    with ThreadPoolExecutor(n_threads, "dbmd") as pool:
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
