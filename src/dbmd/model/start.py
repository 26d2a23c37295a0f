"""Where W starts: k-means|| or random samples, drawn in passes over the nodes.

Randomness is keyed by the number of the sample in the whole data, so one seed gives one start, however the samples
are cut into nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from dbmd.model.lasso import minimise
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, squared_norms, statistics

ROUNDS = 3  # of k-means||; each draws OVERSAMPLING * r candidates
OVERSAMPLING = 2
REFINEMENTS = 5  # passes of k-means from there; more gain little


def random_samples(ask: Callable[..., Any], r: int, seed: int) -> Float:
    """Return W, shape (m, r): r samples drawn at random, without duplicates as far as there are so many."""
    drawn: Draw = ask(partial(draw_uniform, seed=seed, take=4 * r))
    _, first = np.unique(drawn.Xt, axis=0, return_index=True)
    return _fill(drawn.Xt[np.sort(first)], r).T


def k_means_parallel(ask: Callable[..., Any], r: int, seed: int) -> Float:
    """Return W, shape (m, r), by k-means|| (Bahmani et al. 2012), refined by a few passes of k-means.

    Each pass draws samples with a probability that grows with their squared distance to the candidates so far; the
    candidates, weighted by what they stand for, are clustered at the centre. Distances count in units of the noise of
    their source, so that a noisy source does not supply all the candidates.
    """
    candidates = ask(partial(draw_uniform, seed=seed, take=1)).Xt
    precision = _relative_precision(ask(partial(measure, offset=0), candidates))
    for stream in range(1, ROUNDS + 1):
        take = partial(draw_by_distance, seed=seed + stream, take=OVERSAMPLING * r, precision=precision)
        new = ask(take).Xt
        precision = _relative_precision(ask(partial(measure, offset=len(candidates)), new))
        candidates = np.concatenate([candidates, new])
    weights = ask(partial(tally, n_candidates=len(candidates), precision=precision))
    return refine(ask, _cluster(candidates, weights, r, seed).T, REFINEMENTS)


def refine(ask: Callable[..., Any], W: Float, passes: int) -> Float:
    """Return W after some passes of k-means: the exact W-step with hard memberships, sources weighted by precision."""
    for _ in range(passes):
        origin = W.mean(axis=1)
        stats: PerSource[Statistics] = ask(partial(nearest, origin=origin), W)
        sigma2 = {c: max(s.squares(W, origin), 1e-12 * s.sq_norm, 1e-300) / s.n for c, s in stats.items()}
        W = minimise(Quadratic.of(stats, sigma2, origin), 0.0, W)
    return W


def nearest(node: Node, W: Float, *, origin: Float | None = None) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign every sample to the nearest column of W, and send the statistics of these hard memberships."""
    origin = np.zeros(len(W)) if origin is None else origin
    block, taken = node.block, node.block.without(origin)
    centres = (W.T - taken).astype(block.dtype)
    stats: PerSource[Statistics] = PerSource()
    for chunk in block.chunks(taken):
        _, near = _distances(chunk.Xt, centres)
        Ht = np.zeros((len(near), len(centres)), block.dtype)
        Ht[np.arange(len(near)), near] = 1
        stats += PerSource({chunk.source: statistics(chunk.Xt, Ht, origin - taken)})
    return node, stats


@dataclass(frozen=True)
class Draw:
    """The samples with the smallest keys. Adding two draws keeps the smallest of both.

    If the key of sample i is an exponential variable divided by w_i, the first ``take`` of all keys are a weighted
    sample without replacement (Efraimidis and Spirakis 2006), and no node needs the sum of the weights.

    Attributes
    ----------
    keys : array of shape (k,)
        In rising order, k <= take.
    Xt : array of shape (k, m)
        The samples.
    take : int
        How many to keep.
    """

    keys: Float
    Xt: Float
    take: int

    @classmethod
    def of(cls, node: Node, keys: Float, take: int) -> Draw:
        """Keep the samples of a node with the smallest finite keys."""
        first = np.argsort(keys, kind="stable")[:take]
        first = first[np.isfinite(keys[first])]
        return cls(keys[first], node.block.take(first).astype(np.float64), take)

    def __add__(self, other: Draw) -> Draw:
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[: self.take]
        return Draw(keys[first], np.concatenate([self.Xt, other.Xt])[first], self.take)


def draw_uniform(node: Node, *, seed: int, take: int) -> tuple[Node, Draw]:
    """Node: draw samples with equal probabilities."""
    return node, Draw.of(node, exponentials(seed, node.block.first_row, node.block.shape[0]), take)


def measure(node: Node, new: Float, *, offset: int) -> tuple[Node, PerSource[Summary]]:
    """Node: note for every sample the nearest candidate and its squared distance, and send their sums by source.

    Parameters
    ----------
    node : Node
        Its memory holds distances and numbers of the nearest of the candidates before.
    new : array of shape (k, m)
        The candidates since then.
    offset : int
        How many there were before.
    """
    block = node.block
    n = block.shape[0]
    d2, near = node.memory if offset else (np.full(n, np.inf, block.dtype), np.zeros(n, np.int32))
    d2, near = d2.copy(), near.copy()
    found: PerSource[Summary] = PerSource()
    for chunk in block.chunks():
        rows = chunk.rows
        if len(new):
            d2_new, near_new = _distances(chunk.Xt, new.astype(block.dtype))
            closer = d2_new < d2[rows]
            near[rows] = np.where(closer, near_new + offset, near[rows])
            d2[rows] = np.where(closer, d2_new, d2[rows])
        own = d2[rows]
        total = Summary(float(own.sum(dtype=np.float64)), len(own), 0.0, np.zeros(0))
        found += PerSource({chunk.source: total})
    return replace(node, memory=(d2, near)), found


def draw_by_distance(node: Node, *, seed: int, take: int, precision: dict[int, float]) -> tuple[Node, Draw]:
    """Node: draw samples by their squared distance to the candidates, in units of the noise of their source."""
    d2, _ = node.memory
    keys = exponentials(seed, node.block.first_row, node.block.shape[0])
    for place, source in node.block.segments():
        rows = node.block.rows_at(place)
        # A sample stands for its cluster only as well as its noise allows: precision counts twice.
        with np.errstate(divide="ignore"):
            keys[rows] /= d2[rows].astype(np.float64) * precision[source] ** 2
    return node, Draw.of(node, keys, take)


def tally(node: Node, *, n_candidates: int, precision: dict[int, float]) -> tuple[Node, Float]:
    """Node: send how much precision each candidate is nearest to, shape (n_candidates,)."""
    _, near = node.memory
    weights = np.zeros(n_candidates)
    for place, source in node.block.segments():
        rows = node.block.rows_at(place)
        weights += precision[source] * np.bincount(near[rows], minlength=n_candidates)
    return replace(node, memory=None), weights


def exponentials(seed: int, first_row: int, n: int) -> Float:
    """Return standard exponential variables for samples first_row to first_row + n, whoever asks for them."""
    generator = np.random.Philox(key=seed)
    generator.advance(first_row // 4)  # a step of Philox gives four numbers
    raw = generator.random_raw(first_row % 4 + n)[first_row % 4 :]
    return -np.log1p(-((raw >> np.uint64(11)) * 2.0**-53))


def _relative_precision(found: PerSource[Summary]) -> dict[int, float]:
    """Return for each source the mean squared distance in all data over that in the source."""
    pooled = sum(s.squares for s in found.values()) / sum(s.n for s in found.values())
    # A source that the candidates hit exactly is as good as a very precise one, but not infinitely so.
    return {c: pooled / max(s.squares / s.n, 1e-6 * pooled) if pooled > 0.0 else 1.0 for c, s in found.items()}


def _distances(Xt: Any, centres: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
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


def _cluster(candidates: Float, weights: Float, r: int, seed: int) -> Float:
    """Return r centres, shape (r, m), of weighted candidates."""
    used = weights > 0.0
    candidates, weights = candidates[used], weights[used]
    if len(candidates) <= r:
        return _fill(candidates, r)
    from sklearn.cluster import KMeans  # late: it takes a while to load

    model = KMeans(r, n_init=10, random_state=seed % 2**32)
    with threadpool_limits(1):  # a few dozen points: threads would only wait for each other
        model.fit(candidates, sample_weight=weights / weights.mean())
    return np.asarray(model.cluster_centers_)


def _fill(centres: Float, r: int) -> Float:
    """Return r rows: the first of the given ones, repeated where there are fewer distinct samples than components."""
    return centres[np.arange(r) % len(centres)]
