"""Passes over samples that have a few coordinates, on the driver.

The fit of the samples drawn makes a dozen passes or more over some ten thousand of them. In several nodes, threads
would spend most of the time with, and waiting for, each other's Python. So there is one node, and all that takes time
is one call for each piece of its samples, side by side (:class:`dbmd.protocols.OneLoop`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dbmd.data.block import Block, Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.reduce import ParallelMap
from dbmd.model.statistics import Float, PerSource, SampleSums, Statistics
from dbmd.protocols import OneLoop
from dbmd.registry import load_clustering, load_one_loop
from dbmd.source_sums import SourceSums

# There are two pieces for each of sqrt(n r^2 / PAIR_WORK) pairs: fewer than the work alone would ask for, as each piece
# finds maps of faces for itself. It does not depend on the machine, because it changes the last digits of the sums.
PAIR_WORK, PAIRS = 50_000, 8


@dataclass(frozen=True)
class OfSource:
    """The samples of one source, and what stays the same from pass to pass.

    Attributes
    ----------
    source_code : int
        The source.
    loop : OneLoop
        Has its samples, weights and memberships.
    n : float
        Sum of the weights.
    totals, squares : array of shape (m,)
        Sums of the samples and of their squares; squares include those of their distances from the space.
    """

    source_code: int
    loop: OneLoop
    n: float
    totals: Float
    squares: Float

    @classmethod
    def of(cls, block: Block, rows: slice, source_code: int, r: int) -> OfSource:
        """Return those of consecutive rows of a block, for r components."""
        Xt, n = block.Xt[rows], rows.stop - rows.start
        weights = np.ones(n) if block.weights is None else block.weights[rows]
        n_pieces = 2 * int(np.clip(np.sqrt(n * r**2 / PAIR_WORK), 1, PAIRS))
        loop = load_one_loop(block.kernel)(Xt, weights, r, n_pieces)
        squares = weights @ np.square(Xt) + block.off.get(source_code, 0.0) / Xt.shape[1]
        return cls(source_code, loop, float(weights.sum()), weights @ Xt, squares)

    def statistics(self, XHt: Float, HHt: Float, origin: Float) -> Statistics:
        """Return the statistics about an origin from those sums over the samples that depend on memberships."""
        # Memberships sum to one.
        return Statistics.of(SampleSums(XHt, HHt, HHt.sum(axis=1), self.n, self.totals, self.squares), origin)


def nearest(node: Node, V: Float, *, origin: Float, parts: Parts | None = None) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign each sample to the nearest column of V, and send the statistics of these hard memberships.

    As :func:`dbmd.model.start.nearest`, for a node as :func:`sweep` needs it.
    """
    sources, centres = _sources(node, V.shape[1]), np.ascontiguousarray(V.T)
    find, stats = load_clustering(node.samples.kernel).sums_of_nearest, PerSource[Statistics]()
    for source in sources:
        sums, sizes = find(source.loop.Xt, source.loop.weights, centres)
        stats[source.source_code] = source.statistics(sums.T, np.diag(sizes), origin)
    return replace(node, scratch=sources), stats


def sweep(
    node: Node,
    V: Float,
    *,
    sigma2: Float,
    prior: Float,
    parts: Parts,
    evidence: Evidence | None,
    origin: Float,
    near_zero: bool = True,
    warm: bool = True,
    parallel_map: ParallelMap = map,
) -> tuple[Node, PerSource[Statistics]]:
    """Node: find the memberships of its samples at V, and send statistics of each of its sources.

    As :func:`dbmd.sweep.sweep`, for a model of components alone, without a prior.

    Parameters
    ----------
    node : Node
        With samples in memory, in float64 and contiguous, of few features and about a point amidst them; those of a
        source are consecutive.
    V, sigma2, prior, parts, evidence, origin
        As for :func:`dbmd.sweep.sweep`.
    near_zero, warm
        Ignored: samples are read as they are, and memberships do not depend on where they start.
    parallel_map : callable
        As ``map``; it may run in threads, which do not change the result.
    """
    sources = _sources(node, V.shape[1])
    centre = V.mean(axis=1)
    W = V - centre[:, None]
    offset, Q = centre @ W, W.T @ W
    work: list[Callable[[], None]] = []
    for source in sources:
        noise = None if evidence is None else evidence.noise(source.source_code, sigma2)
        work += source.loop.prepare(W, offset, Q, noise)
    deque(parallel_map(lambda piece: piece(), work), maxlen=0)
    stats = PerSource[Statistics]()
    for source in sources:
        c, found = source.source_code, source.loop.total()
        stats[c] = source.statistics(found.XHt, found.HHt, origin)
        if evidence is not None:
            cost = evidence.cost(c, found.S, found.log_det, Q, float(sigma2[c]))
            stats[c] = stats[c].with_covariance(found.S, cost)
        if len(found.left):
            # The kernel knows another way for them, which is that of any samples.
            loop, rows, nowhere = source.loop, source.loop.order[found.left], np.zeros_like(origin)
            h_step = HStep.prepare(node.samples, V, sigma2=sigma2, prior=prior, origin=nowhere, evidence=evidence)
            chunk = Chunk(loop.Xt[rows], c, rows, weights=loop.weights[rows])
            others = SourceSums(h_step, c, origin)
            others.add(chunk, h_step.memberships(chunk), 0, norms=False)
            more, own = others.total().stats, stats[c]
            stats[c] = replace(own, XHt=own.XHt + more.XHt, HHt=own.HHt + more.HHt, h_cost=own.h_cost + more.h_cost)
    return replace(node, scratch=sources), stats


def _sources(node: Node, r: int) -> list[OfSource]:
    """Return the samples of a node, source by source."""
    if node.scratch is not None:
        found: list[OfSource] = node.scratch
        return found
    block = node.samples
    assert isinstance(block, Block)
    codes = np.broadcast_to(block.source_codes, len(block.Xt))
    runs = pairwise([0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)])
    return [OfSource.of(block, slice(i, j), int(codes[i]), r) for i, j in runs]
