"""Where W starts: k-means|| or random samples, drawn in passes over the nodes.

Randomness is keyed by the number of the sample in the whole data, so one seed gives one start, however the samples
are cut into nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    precision = _relative_precision(ask(measure, candidates))
    for stream in range(1, ROUNDS + 1):
        take = partial(draw_by_distance, seed=seed + stream, take=OVERSAMPLING * r, precision=precision)
        candidates = np.concatenate([candidates, ask(take, candidates).Xt])
        precision = _relative_precision(ask(measure, candidates))
    weights = ask(partial(tally, precision=precision), candidates)
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
    def nothing(cls, m: int, take: int) -> Draw:
        """Return a draw from no samples."""
        return cls(np.zeros(0), np.zeros((0, m)), take)

    def among(self, Xt: Any, keys: Float) -> Draw:
        """Return the draw from these samples, too: shape (n, m), with their keys, shape (n,)."""
        first = np.argsort(keys, kind="stable")[: self.take]
        bound = self.keys[-1] if 0 < len(self.keys) == self.take else np.inf
        first = first[keys[first] < bound]
        if not len(first):
            return self
        drawn = Xt[first]
        drawn = np.asarray(drawn.toarray() if sparse.issparse(drawn) else drawn, np.float64)
        return self + Draw(keys[first], drawn, self.take)

    def __add__(self, other: Draw) -> Draw:
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[: self.take]
        return Draw(keys[first], np.concatenate([self.Xt, other.Xt])[first], self.take)


def draw_uniform(node: Node, *, seed: int, take: int) -> tuple[Node, Draw]:
    """Node: draw samples with equal probabilities."""
    block = node.block
    drawn = Draw.nothing(block.shape[1], take)
    for chunk in block.chunks():
        drawn = drawn.among(chunk.Xt, exponentials(seed, block.first_row + chunk.numbers))
    return node, drawn


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
    block, known = node.block, node.memory
    if not isinstance(known, Measured):  # nothing, or what the solver of an earlier descent left
        n = block.shape[0] if node.keeps_rows else 0
        known = Measured(np.full(n, np.inf, block.dtype), np.zeros(n, np.int32), 0)
    new = candidates[known.n_candidates :].astype(block.dtype)
    found: PerSource[Summary] = PerSource()
    for chunk in block.chunks():
        d2, near = _distances(chunk.Xt, new) if len(new) else (known.d2[chunk.rows], known.near[chunk.rows])
        if node.keeps_rows:
            closer = d2 < known.d2[chunk.rows]
            near = np.where(closer, near + known.n_candidates, known.near[chunk.rows])
            d2 = np.where(closer, d2, known.d2[chunk.rows])
            known.d2[chunk.rows], known.near[chunk.rows] = d2, near
        total = Summary(float(d2.sum(dtype=np.float64)), len(d2), 0.0, np.zeros(0))
        found += PerSource({chunk.source: total})
    if node.keeps_rows:
        node = replace(node, memory=replace(known, n_candidates=len(candidates)))
    return node, found


def draw_by_distance(
    node: Node, candidates: Float, *, seed: int, take: int, precision: dict[int, float]
) -> tuple[Node, Draw]:
    """Node: draw samples by their squared distance to the candidates, in units of the noise of their source."""
    block = node.block
    drawn = Draw.nothing(block.shape[1], take)
    for chunk, d2, _ in _measured(node, candidates):
        # A sample stands for its cluster only as well as its noise allows: precision counts twice.
        weights = d2.astype(np.float64) * precision[chunk.source] ** 2
        with np.errstate(divide="ignore"):
            keys = exponentials(seed, block.first_row + chunk.numbers) / weights
        drawn = drawn.among(chunk.Xt, keys)
    return node, drawn


def tally(node: Node, candidates: Float, *, precision: dict[int, float]) -> tuple[Node, Float]:
    """Node: send how much precision each candidate is nearest to, shape (n_candidates,)."""
    weights = np.zeros(len(candidates))
    for chunk, _, near in _measured(node, candidates):
        weights += precision[chunk.source] * np.bincount(near, minlength=len(candidates))
    return replace(node, memory=None), weights


def _measured(node: Node, candidates: Float) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any]]]:
    """Yield chunks with the squared distance to and the number of the nearest candidate, remembered or found again."""
    known = node.memory
    remembered = isinstance(known, Measured) and known.n_candidates == len(candidates)
    for chunk in node.block.chunks():
        if remembered:
            yield chunk, known.d2[chunk.rows], known.near[chunk.rows]
        else:
            yield chunk, *_distances(chunk.Xt, candidates.astype(node.block.dtype))


def exponentials(seed: int, rows: NDArray[np.integer]) -> Float:
    """Return a standard exponential variable for each row of the data, whoever asks for it, in whatever order.

    SplitMix64 (Steele, Lea and Flood 2014) of the row's number, on a stream of its own for each seed.
    """
    with np.errstate(over="ignore"):
        z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + _mixed(np.uint64(seed))
        raw = _mixed(z)
    return -np.log1p(-((raw >> np.uint64(11)) * 2.0**-53))


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


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
