"""Passes over samples that have a few coordinates, on the driver.

The fit of the samples drawn makes a dozen passes or more over some ten thousand of them. In several nodes, threads
would spend most of the time with, and waiting for, each other's Python. So there is one node, and all that takes time
is one call for each piece of its samples, side by side (:class:`dbmd.protocols.OneLoop`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Block, Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.reduce import ParallelMap
from dbmd.model.statistics import Float, PerSource, SampleSums, Statistics
from dbmd.registry import load_clustering, load_one_loop
from dbmd.source_sums import SourceSums

# Work of a piece, samples times the square of the number of components, divided by the number of pieces: each finds the
# faces for itself. It does not depend on the machine, because it changes the last digits of the sums.
PIECE_WORK, PIECES = 25_000, 16


@dataclass(frozen=True)
class OfSource:
    """The samples of one source, and what stays the same from pass to pass.

    Attributes
    ----------
    source_code : int
        The source.
    Xt : array of shape (n, m)
        Its samples.
    weights, roots : array of shape (n,)
        How often each counts, and the square roots of that.
    pieces : tuple of slice
        Their rows, piece by piece.
    first : int
        Number of the first row in the block.
    n : float
        Sum of the weights.
    totals, squares : array of shape (m,)
        Sums of the samples and of their squares; squares include those of their distances from the space.
    """

    source_code: int
    Xt: Float
    weights: Float
    roots: Float
    pieces: tuple[slice, ...]
    first: int
    n: float
    totals: Float
    squares: Float

    @classmethod
    def of(cls, block: Block, rows: slice, source_code: int, r: int) -> OfSource:
        """Return those of consecutive rows of a block, for r components."""
        Xt, n = block.Xt[rows], rows.stop - rows.start
        weights = np.ones(n) if block.weights is None else block.weights[rows]
        count = int(np.clip(np.sqrt(n * r**2 / PIECE_WORK), 1, PIECES))
        pieces = tuple(slice(i, j) for i, j in pairwise(np.linspace(0, n, count + 1).astype(int).tolist()))
        squares = weights @ np.square(Xt) + block.off.get(source_code, 0.0) / Xt.shape[1]
        return cls(
            source_code, Xt, weights, np.sqrt(weights), pieces, rows.start, float(weights.sum()), weights @ Xt, squares
        )

    def statistics(self, XHt: Float, HHt: Float, origin: Float) -> Statistics:
        """Return the statistics about an origin from those sums over the samples that depend on memberships."""
        # Memberships sum to one.
        return Statistics.of(SampleSums(XHt, HHt, HHt.sum(axis=1), self.n, self.totals, self.squares), origin)


def nearest(node: Node, V: Float, *, origin: Float, parts: Parts | None = None) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign each sample to the nearest column of V, and send the statistics of these hard memberships.

    As :func:`dbmd.model.start.nearest`, for a node as :func:`sweep` needs it.
    """
    sources, centres = _sources(node, V), np.ascontiguousarray(V.T)
    find, stats = load_clustering(node.samples.kernel).sums_of_nearest, PerSource[Statistics]()
    for source in sources:
        sums, sizes = find(source.Xt, source.weights, centres)
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
    V, sigma2, prior, parts, evidence, origin, near_zero, warm
        As for :func:`dbmd.sweep.sweep`. Samples are always read as they are, and statistics are about the origin.
    parallel_map : callable
        As ``map``; it may run in threads, which do not change the result.
    """
    sources, r = _sources(node, V), V.shape[1]
    warm = warm and node.Ht is not None
    Ht = np.empty((node.samples.shape[0], r)) if node.Ht is None else node.Ht
    centre = V.mean(axis=1)
    W = V - centre[:, None]
    Q = W.T @ W
    loop = load_one_loop(node.samples.kernel)(W, centre @ W, Q)
    work = [(source, rows, source.first + rows.start) for source in sources for rows in source.pieces]
    sums = np.zeros((len(work), loop.size))

    def over(source: OfSource, rows: slice, first: int, out: Float) -> NDArray[np.intp]:
        c, own = source.source_code, Ht[first : first + rows.stop - rows.start]
        noise = None if evidence is None else evidence.excess[c] * float(sigma2[c])
        return loop.over(source.Xt[rows], source.roots[rows], own, noise, out, warm=warm)

    left = [*parallel_map(over, *zip(*work, strict=True), sums)]
    stats, piece = PerSource[Statistics](), 0
    for source in sources:
        c, pieces = source.source_code, slice(piece, piece + len(source.pieces))
        piece = pieces.stop
        XHt, HHt, S, log_det = loop.parts_of(sums[pieces].sum(axis=0))
        stats[c] = source.statistics(XHt, HHt, origin)
        if evidence is not None:
            stats[c] = stats[c].with_covariance(S, evidence.cost(c, S, log_det, Q, float(sigma2[c])))
        if any(map(len, left[pieces])):
            rows = np.concatenate([p.start + each for p, each in zip(source.pieces, left[pieces], strict=True)])
            # The kernel knows another way for them, which is that of any samples.
            nowhere = np.zeros_like(origin)
            h_step = HStep.prepare(node.samples, V, sigma2=sigma2, prior=prior, origin=nowhere, evidence=evidence)
            chunk = Chunk(source.Xt[rows], c, source.first + rows, weights=source.weights[rows])
            Ht[chunk.rows] = h_step.memberships(chunk, Ht[chunk.rows] if warm else None)
            others = SourceSums(h_step, c, origin)
            others.add(chunk, Ht[chunk.rows], node.samples.first_row, norms=False)
            more, own = others.total().stats, stats[c]
            stats[c] = replace(own, XHt=own.XHt + more.XHt, HHt=own.HHt + more.HHt, h_cost=own.h_cost + more.h_cost)
    return replace(node, Ht=Ht, scratch=sources), stats


def _sources(node: Node, V: Float) -> list[OfSource]:
    """Return the samples of a node, source by source."""
    if node.scratch is not None:
        return node.scratch
    block = node.samples
    assert isinstance(block, Block)
    codes = np.broadcast_to(block.source_codes, len(block.Xt))
    runs = pairwise([0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)])
    return [OfSource.of(block, slice(start, stop), int(codes[start]), V.shape[1]) for start, stop in runs]
