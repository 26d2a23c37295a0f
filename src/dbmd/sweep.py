"""One pass over the samples of a node: their memberships at W, and statistics of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import namespace, to_host
from dbmd.data.block import Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.node import Node, continues
from dbmd.model.parts import Parts
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary
from dbmd.protocols import NodeFunction
from dbmd.registry import load_kernel
from dbmd.source_sums import SourceSums, Summed


def sweep(
    node: Node,
    V: Float,
    *,
    sigma2: Float,
    prior: Float,
    parts: Parts | None = None,
    evidence: Evidence | None = None,
    origin: Float | None = None,
    near_zero: bool = False,
    warm: bool = True,
) -> tuple[Node, PerSource[Statistics]]:
    """Node: find the memberships of its samples at V, and send statistics of each of its sources.

    A reply has m r + r^2 numbers and three scalars for each source. Offsets are not subtracted in them.

    Parameters
    ----------
    node : Node
        With the memberships of an earlier sweep, if any.
    V : array of shape (m, n_columns)
        The components, and the offsets of sources if they have any.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    parts : Parts, optional
        What the columns of V are; by default components.
    evidence : Evidence, optional
        How to integrate the memberships out; by default they are taken at their peak.
    origin : array of shape (m,), optional
        The point statistics are taken about; by default zero.
    near_zero : bool
        Whether the origin may be subtracted from the sums instead of from each sample.
    warm : bool
        Whether to start from the memberships of the last sweep, if the node has them.

    Returns
    -------
    Node
        With its memberships.
    PerSource[Statistics]
        About the origin.
    """
    parts = parts or Parts.plain(V)
    W = parts.W(V)
    origin = np.zeros(len(W)) if origin is None else origin
    is_same_origin = node.origin is origin or (node.origin is not None and np.array_equal(node.origin, origin))
    norms = node.norms if is_same_origin else None
    warm = warm and node.Ht is not None
    Ht = empty_memberships(node, W) if node.Ht is None else node.Ht
    h_step = HStep.prepare(
        node.samples,
        W,
        sigma2=sigma2,
        prior=prior,
        origin=origin,
        near_zero=near_zero,
        evidence=evidence,
        offsets=parts.offsets(V),
    )
    has_gaps = False

    def look(chunk: Chunk, h: NDArray[Any]) -> None:
        nonlocal has_gaps
        has_gaps |= chunk.gaps is not None

    found = one_pass(node, h_step, origin, Ht, warm=warm, norms=norms is None, on_chunk=look)
    stats = PerSource({c: each.stats for c, each in found.items()})
    if has_gaps:
        norms = None  # what is expected in gaps changes from pass to pass
    else:
        off = node.samples.off
        norms = norms or {c: s.sq_norm + off.get(c, 0.0) for c, s in stats.items()}
        stats = PerSource({c: replace(s, sq_norm=norms[c]) for c, s in stats.items()})
    return replace(node, Ht=Ht, norms=norms, origin=origin, stats=None, quadratic=None, scratch=None), stats


def sweep_and_keep(
    node: Node,
    V: Float,
    *,
    sweep: NodeFunction[PerSource[Statistics]],
    sigma2: Float,
    parts: Parts | None = None,
    ridge: Float | None = None,
) -> tuple[Node, PerSource[Summary]]:
    """Node: make a sweep, keep its statistics and the node's term of (P), and send a summary of each source.

    Parameters
    ----------
    node : Node
        As for the sweep.
    V : array of shape (m, n_columns)
        The components, and the offsets of sources if they have any.
    sweep : NodeFunction
        :func:`sweep` with its parameters bound.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    parts : Parts, optional
        What the columns of V are; by default components.
    ridge : array of shape (n_sources,), optional
        With offsets, see :meth:`dbmd.model.statistics.Quadratic.of`.
    """
    parts = parts or Parts.plain(V)
    node, stats = sweep(node, V)
    term = Quadratic.of(stats, sigma2, node.origin, ridge) if stats else Quadratic.zero(*V.shape)
    summaries = parts.summaries(stats, V, node.origin)
    return replace(node, stats=stats, quadratic=parts.of_free(term, V)), summaries


@continues
def summarise(node: Node, V: Float, *, parts: Parts | None = None) -> tuple[Node, PerSource[Summary]]:
    """Node: send a summary of each source at a new V, with the statistics that the last sweep kept."""
    assert node.stats is not None
    return node, (parts or Parts.plain(V)).summaries(node.stats, V, node.origin)


def empty_memberships(node: Node, W: Float) -> NDArray[Any] | None:
    """Return an array of the kernel's kind for the memberships of a node, shape (n_i, r); None if it keeps none."""
    samples = node.samples
    shape = (samples.shape[0], W.shape[1])
    return load_kernel(samples.kernel).empty(shape, samples.dtype) if node.keeps_rows else None


def one_pass(
    node: Node,
    h_step: HStep,
    origin: Float,
    Ht: NDArray[Any] | None,
    *,
    warm: bool,
    norms: bool,
    on_chunk: Callable[[Chunk, NDArray[Any]], None] = lambda chunk, h: None,
) -> dict[int, Summed]:
    """Return the statistics of all samples about the origin, and the sums behind them, for each source with weight.

    Parameters
    ----------
    node : Node
        The samples.
    h_step : HStep
        Prepared for them.
    origin : array of shape (m,)
        The origin: the shift is subtracted from the samples, the rest from the sums.
    Ht : array of shape (n_i, r), optional
        Memberships are written to it.
    warm : bool
        Whether memberships start from those in ``Ht``.
    norms : bool
        Whether to compute squared norms, too; where samples have gaps, they depend on W.
    on_chunk : callable
        Called with each chunk and its memberships, before its gaps are filled with what is expected there.
    """
    sums: dict[int, SourceSums] = {}
    samples, shift = node.samples, h_step.shift
    for chunk in samples.chunks(shift if shift.any() else None):
        chunk = h_step.located(chunk)
        if chunk.source_code not in sums:
            sums[chunk.source_code] = SourceSums(h_step, chunk.source_code, origin - shift)
        own, Ht0, out = sums[chunk.source_code], None, None
        if Ht is not None and isinstance(chunk.rows, slice):
            out = Ht if chunk.rows == slice(0, len(Ht)) else Ht[chunk.rows]
            Ht0 = out if warm else None
        elif Ht is not None and warm:
            Ht0 = Ht[chunk.rows]
        at_once = own.add_at_once(chunk, Ht0, out, norms=norms)
        h = h_step.memberships(chunk, Ht0, out) if at_once is None else at_once
        if out is None and Ht is not None:
            Ht[chunk.rows] = h
        on_chunk(chunk, h)
        if at_once is None:
            own.add(chunk, h, samples.first_row, norms=norms)
    # All that is elsewhere is on its way before anything is waited for.
    h_step.send_products()
    for each in sums.values():
        each.send()
    found = {source_code: each.total() for source_code, each in sums.items()}
    h_step.check()
    return {source_code: each for source_code, each in found.items() if each.stats.n}


@dataclass(frozen=True)
class Labels:
    """The cluster of each sample. Adding the labels of two nodes concatenates them.

    Attributes
    ----------
    values : array of int of shape (n,)
        Numbers of the clusters; -1 for a sample that is left out because it has gaps.
    """

    values: NDArray[np.intp]

    def __add__(self, other: Labels) -> Labels:
        return Labels(np.concatenate([self.values, other.values]))


@continues
def own_labels(
    node: Node,
    *,
    numbers: NDArray[np.intp] | None = None,
    parts: Parts | None = None,
    norms: Float | None = None,
) -> tuple[Node, Labels]:
    """Node: send the cluster of each of its samples, by the memberships of the last sweep.

    Parameters
    ----------
    node : Node
        With memberships.
    numbers : array of int of shape (r,), optional
        The number of each cluster, by default its own.
    parts : Parts, optional
        Which of them are of components; by default all.
    norms : array of shape (r,), optional
        Norms of the components, if memberships are to be multiplied by them.
    """
    assert node.Ht is not None
    Ht = node.Ht if parts is None else parts.shares(node.Ht, norms)
    labels, dropped = Ht.argmax(axis=1), node.samples.dropped()
    labels = to_host(labels if numbers is None else namespace(labels).asarray(numbers)[labels])
    return node, Labels(labels if dropped is None else np.where(dropped, -1, labels))
