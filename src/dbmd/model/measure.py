"""How far samples are from the nearest of some centres, and draws by that distance: the node functions of k-means||."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.model.draw import Draw, exponentials
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, Summary, squared_norms


@dataclass(frozen=True)
class Measured:
    """For every sample of a node the nearest of some candidates.

    Attributes
    ----------
    d2 : array of shape (n_i,)
        Squared distances.
    near : array of int of shape (n_i,)
        Numbers of the candidates.
    n_candidates : int
        Among how many.
    """

    d2: NDArray[Any]
    near: NDArray[np.int32]
    n_candidates: int


def measure(node: Node, candidates: Float) -> tuple[Node, PerSource[Summary]]:
    """Node: send for each source the sum of the squared distances of its samples to the nearest candidate.

    It remembers them, if it keeps anything by the row, and next time looks at the candidates that are new.

    Parameters
    ----------
    node : Node
        The node.
    candidates : array of shape (k, m)
        Those of the last time, if any, and new ones behind them.
    """
    block, known = node.samples, node.scratch
    if not isinstance(known, Measured):  # nothing, or what the solver of an earlier descent left
        n = block.shape[0] if node.keeps_rows else 0
        known = Measured(np.full(n, np.inf, block.dtype), np.zeros(n, np.int32), 0)
    new = candidates[known.n_candidates :].astype(block.dtype)
    found: PerSource[Summary] = PerSource()
    for chunk in block.chunks():
        d2, near = distances(chunk.Xt, new) if len(new) else (known.d2[chunk.rows], known.near[chunk.rows])
        if node.keeps_rows:
            closer = d2 < known.d2[chunk.rows]
            near = np.where(closer, near + known.n_candidates, known.near[chunk.rows])
            d2 = np.where(closer, d2, known.d2[chunk.rows])
            known.d2[chunk.rows], known.near[chunk.rows] = d2, near
        total = Summary(float(d2.sum(dtype=np.float64)), len(d2), 0.0, np.zeros((0, 0)))
        found += PerSource({chunk.source_code: total})
    if node.keeps_rows:
        node = replace(node, scratch=replace(known, n_candidates=len(candidates)))
    return node, found


def draw_by_distance(
    node: Node, candidates: Float, *, seed: int, take: int, precision: dict[int, float]
) -> tuple[Node, Draw]:
    """Node: draw samples by their squared distance to the candidates, in units of the noise of their source."""
    block = node.samples
    drawn = Draw.nothing(block.shape[1], take)
    for chunk, d2, _ in _measured(node, candidates):
        # A sample stands for its cluster only as well as its noise allows: precision counts twice.
        weights = d2.astype(np.float64) * precision[chunk.source_code] ** 2
        with np.errstate(divide="ignore"):
            keys = exponentials(seed, block.first_row + chunk.numbers) / weights
        drawn = drawn.among(chunk.Xt, keys)
    return node, drawn


def tally(node: Node, candidates: Float, *, precision: dict[int, float]) -> tuple[Node, Float]:
    """Node: send how much precision each candidate is nearest to, shape (n_candidates,)."""
    weights = np.zeros(len(candidates))
    for chunk, _, near in _measured(node, candidates):
        weights += precision[chunk.source_code] * np.bincount(near, minlength=len(candidates))
    return replace(node, scratch=None), weights


def _measured(node: Node, candidates: Float) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any]]]:
    """Yield chunks with the squared distance to and the number of the nearest candidate, remembered or found again."""
    known = node.scratch
    remembered = isinstance(known, Measured) and known.n_candidates == len(candidates)
    for chunk in node.samples.chunks():
        if remembered:
            yield chunk, known.d2[chunk.rows], known.near[chunk.rows]
        else:
            yield chunk, *distances(chunk.Xt, candidates.astype(node.samples.dtype))


def distances(Xt: Any, centres: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return for every row the squared distance to the nearest centre, and the number of that centre."""
    if not sparse.issparse(Xt):
        # Far from the origin, distances are small differences of large numbers: measure from amidst the centres.
        origin = centres.mean(axis=0)
        Xt, centres = Xt - origin, centres - origin
    norms, sizes = squared_norms(Xt), squared_norms(centres)
    d2 = sizes - 2.0 * (Xt @ centres.T)
    near = d2.argmin(axis=1)
    best = d2[np.arange(len(near)), near] + norms
    # What is left of equal numbers is rounding, and a duplicate must not look like a new cluster.
    best[best <= 16 * np.finfo(centres.dtype).eps * (norms + sizes[near])] = 0.0
    return best, near
