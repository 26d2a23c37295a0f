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

from dbmd.model.lasso import minimise
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary

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
    new, precision = candidates, None
    for stream in range(1, ROUNDS + 1):
        seen: Spread = ask(
            partial(spread, seed=seed + stream, take=OVERSAMPLING * r, precision=precision, offset=len(candidates)),
            new,
        )
        precision = _relative_precision(seen.nearest)
        new = seen.drawn.Xt
        candidates = np.concatenate([candidates, new])
    last: Spread = ask(partial(spread, seed=seed, take=0, precision=precision, offset=len(candidates)), new)
    precision = _relative_precision(last.nearest)
    weights = ask(partial(tally, n_candidates=len(candidates), precision=precision))
    return refine(ask, _cluster(candidates, weights, r, seed).T, REFINEMENTS)


def refine(ask: Callable[..., Any], W: Float, passes: int) -> Float:
    """Return W after some passes of k-means: the exact W-step with hard memberships, sources weighted by precision."""
    for _ in range(passes):
        stats: PerSource[Statistics] = ask(nearest, W)
        sigma2 = {c: max(s.squares(W), 1e-12 * s.sq_norm, 1e-300) / s.n for c, s in stats.items()}
        W = minimise(Quadratic.of(stats, sigma2), 0.0, W)
    return W


def nearest(node: Node, W: Float) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign every sample to the nearest column of W, and send the statistics of these hard memberships."""
    centres = W.T.astype(node.block.dtype)
    stats: PerSource[Statistics] = PerSource()
    for chunk in node.block.chunks():
        _, near, norms = _distances(chunk.Xt, centres)
        Ht = np.zeros((len(near), len(centres)), node.block.dtype)
        Ht[np.arange(len(near)), near] = 1
        found = Statistics(
            XHt=np.asarray(Ht.T @ chunk.Xt, np.float64).T,
            HHt=np.diag(Ht.sum(axis=0, dtype=np.float64)),
            sq_norm=float(norms.sum(dtype=np.float64)),
            n=len(near),
            log_prior=0.0,
        )
        stats += PerSource({chunk.source: found})
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


@dataclass(frozen=True)
class Spread:
    """A draw, and the distances to the candidates by source. It adds."""

    drawn: Draw
    nearest: PerSource[Summary]

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.drawn + other.drawn, self.nearest + other.nearest)


def draw_uniform(node: Node, *, seed: int, take: int) -> tuple[Node, Draw]:
    """Node: draw samples with equal probabilities."""
    return node, Draw.of(node, exponentials(seed, node.block.first_row, node.block.shape[0]), take)


def spread(
    node: Node, new: Float, *, seed: int, take: int, precision: dict[int, float] | None, offset: int
) -> tuple[Node, Spread]:
    """Node: update the distance of every sample to its nearest candidate, and draw by it.

    Parameters
    ----------
    new : array of shape (k, m)
        The candidates since the last call.
    precision : dict, optional
        Of each source, relative to all, by the distances of the last call.
    offset : int
        How many candidates there are now, the new ones included.
    """
    block = node.block
    n = block.shape[0]
    d2, near = node.memory if node.memory is not None else (np.full(n, np.inf, block.dtype), np.zeros(n, np.int32))
    d2, near = d2.copy(), near.copy()
    keys = exponentials(seed, block.first_row, n)
    found: PerSource[Summary] = PerSource()
    for chunk in block.chunks():
        rows = chunk.rows
        if len(new):
            d2_new, near_new, _ = _distances(chunk.Xt, new.astype(block.dtype))
            closer = d2_new < d2[rows]
            near[rows] = np.where(closer, near_new + (offset - len(new)), near[rows])
            d2[rows] = np.where(closer, d2_new, d2[rows])
        # A sample stands for its cluster as well as its noise allows: precision counts twice.
        weight = 1.0 if precision is None else precision[chunk.source] ** 2
        with np.errstate(divide="ignore"):
            keys[rows] /= d2[rows].astype(np.float64) * weight
        total = float(d2[rows].sum(dtype=np.float64))
        found += PerSource({chunk.source: Summary(total, len(d2[rows]), 0.0, np.zeros(0))})
    node = replace(node, memory=(d2, near))
    return node, Spread(Draw.of(node, keys, take), found)


def tally(node: Node, *, n_candidates: int, precision: dict[int, float]) -> tuple[Node, Float]:
    """Node: send how much precision each candidate is nearest to, shape (n_candidates,)."""
    _, near = node.memory
    weights = np.zeros(n_candidates)
    for chunk in node.block.chunks():
        weights += precision[chunk.source] * np.bincount(near[chunk.rows], minlength=n_candidates)
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


def _distances(Xt: Any, centres: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[Any]]:
    """Return squared distances to the nearest centre, its number, and ||x||^2, for every row."""
    norms = (
        np.asarray(Xt.multiply(Xt).sum(axis=1)).ravel() if hasattr(Xt, "multiply") else np.einsum("ij,ij->i", Xt, Xt)
    )
    sizes = np.einsum("ij,ij->i", centres, centres)
    d2 = sizes - 2.0 * (Xt @ centres.T)
    near = d2.argmin(axis=1)
    best = d2[np.arange(len(near)), near] + norms
    # What is left of equal numbers is rounding, and a duplicate must not look like a new cluster.
    best[best <= 16 * np.finfo(centres.dtype).eps * (norms + sizes[near])] = 0.0
    return best, near, norms


def _cluster(candidates: Float, weights: Float, r: int, seed: int) -> Float:
    """Return r centres, shape (r, m), of weighted candidates."""
    used = weights > 0.0
    candidates, weights = candidates[used], weights[used]
    if len(candidates) <= r:
        return _fill(candidates, r)
    from sklearn.cluster import KMeans  # late: it takes a while to load

    model = KMeans(r, n_init=10, random_state=seed % 2**32)
    return np.asarray(model.fit(candidates, sample_weight=weights / weights.mean()).cluster_centers_)


def _fill(centres: Float, r: int) -> Float:
    """Return r rows: the first of the given ones, repeated where there are fewer distinct samples than components."""
    return centres[np.arange(r) % len(centres)]
