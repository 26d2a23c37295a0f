"""The node functions of k-means||: distances of samples to the nearest candidate, and draws by that distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import is_sparse, namespace, to_host
from dbmd.model.draw import Draw, exponentials, keys_by_weight
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, Summary, squared_norms
from dbmd.registry import load_kernel


@dataclass(frozen=True)
class Measured:
    """The nearest candidate of each sample of a node.

    Attributes
    ----------
    d2 : array of shape (n_i,)
        Squared distance to it.
    near : array of int of shape (n_i,)
        Its number.
    n_candidates : int
        Number of candidates so far.
    """

    d2: NDArray[Any]
    near: NDArray[np.int32]
    n_candidates: int


def measure(node: Node, candidates: Float) -> tuple[Node, PerSource[Summary]]:
    """Node: send for each source the sum of the squared distances of its samples to the nearest candidate.

    A node that keeps rows keeps the distances, and compares them with new candidates only.

    Parameters
    ----------
    node : Node
        The node.
    candidates : array of shape (k, m)
        The candidates of the last call, if any, followed by new ones.
    """
    block, known = node.samples, node.scratch
    if not isinstance(known, Measured):  # nothing, or the scratch of the solver of an earlier descent
        n = block.shape[0] if node.keeps_rows else 0
        kernel = load_kernel(block.kernel)
        known = Measured(kernel.asarray(np.full(n, np.inf, block.dtype)), kernel.asarray(np.zeros(n, np.int32)), 0)
    new = candidates[known.n_candidates :].astype(block.dtype)
    found: PerSource[Summary] = PerSource()
    for chunk in block.chunks():
        d2, near = distances(chunk.Xt, new) if len(new) else (known.d2[chunk.rows], known.near[chunk.rows])
        if node.keeps_rows:
            closer = d2 < known.d2[chunk.rows]
            near = np.where(closer, near + known.n_candidates, known.near[chunk.rows])
            d2 = np.where(closer, d2, known.d2[chunk.rows])
            known.d2[chunk.rows], known.near[chunk.rows] = d2, near
        squares = float(d2.sum(dtype=np.float64))
        weight = float(len(d2))
        if chunk.weights is not None:
            squares, weight = float(chunk.weights @ d2), float(chunk.weights.sum())
        if weight > 0.0:
            found += PerSource({chunk.source_code: Summary(float(squares), weight, 0.0, np.zeros((0, 0)))})
    if node.keeps_rows:
        node = replace(node, scratch=replace(known, n_candidates=len(candidates)))
    return node, found


def draw_by_distance(
    node: Node, candidates: Float, *, seed: int, take: int, precision: dict[int, float]
) -> tuple[Node, Draw]:
    """Node: draw samples with probabilities that grow with their squared distance to the nearest candidate.

    Parameters
    ----------
    node : Node
        The samples.
    candidates : array of shape (k, m)
        The candidates so far.
    seed, take : int
        Seed of the draws, number of samples to draw.
    precision : dict of int to float
        Relative precision of each source that has samples with a weight: distances are in units of its noise.
    """
    block = node.samples
    drawn = Draw.nothing(block.shape[1], take)
    for chunk, d2, _ in _measured(node, candidates):
        # A noisy sample is a poor representative of its cluster: precision counts twice.
        weights = d2.astype(np.float64) * precision.get(chunk.source_code, 0.0) ** 2
        weights = weights if chunk.weights is None else weights * chunk.weights
        drawn = drawn.among(chunk.Xt, keys_by_weight(exponentials(seed, block.first_row + chunk.numbers), weights))
    return node, drawn


def tally(node: Node, candidates: Float, *, precision: dict[int, float]) -> tuple[Node, Float]:
    """Node: send for each candidate the summed precision of the samples nearest to it, shape (n_candidates,)."""
    weights = np.zeros(len(candidates))
    for chunk, _, near in _measured(node, candidates):
        # Here: elsewhere, the order of such a sum may differ from run to run.
        own = None if chunk.weights is None else to_host(chunk.weights)
        counts = np.bincount(to_host(near), own, minlength=len(candidates))
        weights += precision.get(chunk.source_code, 0.0) * counts
    return replace(node, scratch=None), weights


def _measured(node: Node, candidates: Float) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any]]]:
    """Yield chunks, squared distances to the nearest candidates, and their numbers; kept ones are used again."""
    known = node.scratch
    is_kept = isinstance(known, Measured) and known.n_candidates == len(candidates)
    for chunk in node.samples.chunks():
        if is_kept:
            yield chunk, known.d2[chunk.rows], known.near[chunk.rows]
        else:
            yield chunk, *distances(chunk.Xt, candidates.astype(node.samples.dtype))


def distances(Xt: Any, centres: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the squared distance of each row to the nearest centre, and the number of that centre, shapes (n,).

    Parameters
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        Samples.
    centres : array of shape (k, m)
        The centres, here or where the samples are.
    """
    centres = namespace(Xt).asarray(centres)
    if not is_sparse(Xt):
        # Far from the origin, distances are small differences of large numbers: measure from amidst the centres.
        origin = centres.mean(axis=0)
        Xt, centres = Xt - origin, centres - origin
    norms, sizes = squared_norms(Xt), squared_norms(centres)
    d2 = sizes - 2.0 * (Xt @ centres.T)
    near = d2.argmin(axis=1)
    best = d2.min(axis=1) + norms
    # A difference of equal numbers is rounding, and a duplicate must not look like a new cluster.
    best[best <= 16 * np.finfo(centres.dtype).eps * (norms + sizes[near])] = 0.0
    return best, near
