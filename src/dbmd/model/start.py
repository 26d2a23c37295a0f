"""Where W starts: k-means of a sample, k-means|| or random samples, found in passes over the nodes.

One seed gives one start, however the samples are cut into nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.threads import one_thread
from dbmd.model.draw import Chances, Draw, Moments, Share, draw_share, draw_uniform, moments
from dbmd.model.lasso import minimise
from dbmd.model.low_rank import LowRank
from dbmd.model.measure import distances, draw_by_distance, measure, tally
from dbmd.model.node import Node
from dbmd.model.reduce import Spread, can_be_reduced, reduced
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, statistics
from dbmd.protocols import Ask

SAMPLE, SAMPLE_SHARE = 20_000, 0.01  # so many samples, or such a share if that is more, are fitted at the centre
SAMPLE_NUMBERS = 8_000_000  # but no more than have so many numbers; zeros of sparse ones do not count
SAMPLE_EACH = 50  # and no fewer for each component
PRECISION_ROUNDS = 2  # clusterings from which the precision of the sources is found
ATTEMPTS, CHEAP_ATTEMPTS = 3, 10  # at the clustering that is kept; of reduced samples they cost little
ROUNDS = 3  # of k-means||; each draws OVERSAMPLING * r candidates
OVERSAMPLING = 2
REFINEMENTS = 5  # passes of k-means from there; more gain little


def random_samples(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r): r samples drawn at random, without duplicates as far as there are so many."""
    drawn: Draw = ask(partial(draw_uniform, seed=seed, take=4 * r))
    _, first = np.unique(drawn.Xt, axis=0, return_index=True)
    return _fill(drawn.Xt[np.sort(first)], r).T


@dataclass(frozen=True)
class Sample:
    """Some samples at the centre.

    Attributes
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    source : array of int of shape (n,)
        Their sources.
    weights : array of shape (n,)
        For how many of the whole each stands.
    n_of_all : int
        Number of samples that they were drawn from.
    """

    Xt: Any
    source: NDArray[np.intp]
    weights: Float
    n_of_all: int

    @property
    def is_worth_a_peak_fit(self) -> bool:
        """Whether a fit with ``inference="map"`` is a step towards one of all: W must not fit the noise of a few."""
        n, m = self.Xt.shape
        return bool(2 * m <= n < self.n_of_all)


class Clusters(NamedTuple):
    """A sample that was clustered.

    Attributes
    ----------
    W : array of shape (m, r)
        The centres.
    Xt : array, CSR array or LowRank of shape (n, m)
        The samples as they were clustered: wide ones in the space of their leading principal directions.
    weights : array of shape (n,)
        For how many of the whole each stands, times the precision of its source.
    """

    W: Float
    Xt: Any
    weights: Float


def draw_sample(ask: Ask, known: PerSource[Moments], r: int, seed: int) -> Sample:
    """Return about 20,000 samples or 1 %; fewer if they have more than 8 million numbers, but 50 for each component.

    A light pass, which draws by the moments of the data. Only what is drawn travels.
    """
    n, stored = sum(each.n for each in known.values()), sum(each.stored for each in known.values())
    most = SAMPLE_NUMBERS * n / max(stored, 1)
    share = max(min(max(SAMPLE, SAMPLE_SHARE * n), most), SAMPLE_EACH * r) / n
    if share > 0.5:  # then the rest is worth having, too
        share = 1.0
    drawn: Share = ask(partial(draw_share, seed=seed, chances=Chances.of(known, share)))
    return Sample(*drawn.in_order(), n)


def k_means_of_a_sample(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r), by k-means++ and k-means on some samples."""
    return k_means(draw_sample(ask, ask(moments), r, seed), r, seed).W


def k_means(sample: Sample, r: int, seed: int, spread: Spread = map) -> Clusters:
    """Cluster a sample. Sources count by their precision, found from the distances to clusterings that came before.

    Parameters
    ----------
    sample : Sample
        What is clustered.
    r, seed : int
        Clusters, what makes the draws.
    spread : callable
        What is used as ``map``: the outcome is the same if several threads share the work.

    Returns
    -------
    Clusters
        The best of some attempts.
    """
    Xt: Any = sample.Xt
    if Xt.shape[0] <= r:  # each is a centre
        centres = _fill(np.asarray(Xt.toarray() if sparse.issparse(Xt) else Xt, np.float64), r)
        return Clusters(centres.T, Xt, sample.weights)
    _, source = np.unique(sample.source, return_inverse=True)
    precision = np.ones(source.max() + 1)

    is_wide = can_be_reduced(Xt, r)

    def clustered(attempts: int) -> tuple[Float, Any]:
        weights = precision[source] * sample.weights
        seen = reduced(Xt, weights, r, seed, spread) if is_wide else Xt
        # A sample stands for its cluster only as well as its noise allows: to be drawn, precision counts twice.
        draw_by = weights * precision[source]
        return _cluster(seen, weights, r, seed, draw_by=draw_by, attempts=attempts, spread=spread), seen

    with one_thread():
        for _ in range(PRECISION_ROUNDS if len(precision) > 1 else 0):
            centres, seen = clustered(1)
            d2 = distances(seen, centres)[0] * sample.weights
            precision = _relative_precision(np.bincount(source, d2), np.bincount(source, sample.weights))
        centres, seen = clustered(CHEAP_ATTEMPTS if is_wide else ATTEMPTS)
    return Clusters(centres.T, seen, precision[source] * sample.weights)


def k_means_parallel(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r), by k-means|| (Bahmani et al. 2012), refined by a few passes of k-means.

    Each pass draws samples with a probability that grows with their squared distance to the candidates so far; the
    candidates, weighted by what they stand for, are clustered at the centre. Distances count in units of the noise of
    their source, so that a noisy source does not supply all the candidates.
    """
    candidates = ask(partial(draw_uniform, seed=seed, take=1)).Xt
    precision = _precision_of(ask(measure, candidates))
    for stream in range(1, ROUNDS + 1):
        take = partial(draw_by_distance, seed=seed + stream, take=OVERSAMPLING * r, precision=precision)
        candidates = np.concatenate([candidates, ask(take, candidates).Xt])
        precision = _precision_of(ask(measure, candidates))
    weights = ask(partial(tally, precision=precision), candidates)
    used = weights > 0.0
    if used.sum() <= r:
        return refine(ask, _fill(candidates[used], r).T, REFINEMENTS)
    weights = weights[used]
    centres = _cluster(candidates[used], weights, r, seed, draw_by=weights, attempts=10)
    return refine(ask, centres.T, REFINEMENTS)


def refine(ask: Ask, W: Float, passes: int) -> Float:
    """Return W after some passes of k-means: the exact W-step with hard memberships, sources weighted by precision."""
    for _ in range(passes):
        origin = W.mean(axis=1)
        stats: PerSource[Statistics] = ask(partial(nearest, origin=origin), W)
        sigma2 = {c: max(s.squares(W, origin), 1e-12 * s.sq_norm, 1e-300) / s.n for c, s in stats.items()}
        W = minimise(Quadratic.of(stats, sigma2, origin), 0.0, W)
    return W


STARTS: dict[str, Callable[[Callable[..., Any], int, int], Float]] = {
    "k-means++": k_means_of_a_sample,
    "k-means||": k_means_parallel,
    "random": random_samples,
}


def nearest(node: Node, W: Float, *, origin: Float | None = None) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign every sample to the nearest column of W, and send the statistics of these hard memberships."""
    origin = np.zeros(len(W)) if origin is None else origin
    block, shift = node.samples, node.samples.shift_for(origin)
    centres = (W.T - shift).astype(block.dtype)
    stats: PerSource[Statistics] = PerSource()
    for chunk in block.chunks(shift):
        _, near = distances(chunk.Xt, centres)
        Ht = np.zeros((len(near), len(centres)), block.dtype)
        Ht[np.arange(len(near)), near] = 1
        weights = None if node.weights is None else node.weights[chunk.rows]
        stats += PerSource({chunk.source_code: statistics(chunk.Xt, Ht, origin - shift, weights=weights)})
    return node, stats


def _precision_of(found: PerSource[Summary]) -> dict[int, float]:
    """Return for each source its precision, from its squared distances to the candidates."""
    squares, n = zip(*((s.squares, s.n) for s in found.values()), strict=True)
    return dict(zip(found, _relative_precision(np.array(squares), np.array(n)).tolist(), strict=True))


def _relative_precision(squares: NDArray[Any], n: NDArray[Any]) -> Float:
    """Return the mean squared distance in all data over that in each source, from its sum there over n samples."""
    pooled = squares.sum() / n.sum()
    if pooled == 0.0:
        return np.ones(len(n))
    # A source that the candidates hit exactly is as good as a very precise one, but not infinitely so.
    return np.asarray(pooled / np.maximum(squares / n, 1e-6 * pooled))


def _cluster(
    Xt: Any, weights: Float, r: int, seed: int, *, draw_by: Float, attempts: int, spread: Spread = map
) -> Float:
    """Return r centres, shape (r, m), by k-means++ and k-means: the best of some attempts.

    Parameters
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        Samples.
    weights, draw_by : array of shape (n,)
        How much each counts in a centre, and in being drawn by k-means++.
    r, seed, attempts : int
        Centres, what makes the draws, and how often to begin.
    spread : callable
        Takes a function to the attempts.
    """
    from sklearn.cluster import KMeans, kmeans_plusplus  # late: it takes a while to load
    from sklearn.exceptions import ConvergenceWarning

    if isinstance(Xt, LowRank):
        centres = _cluster(Xt.scores, weights, r, seed, draw_by=draw_by, attempts=attempts, spread=spread)
        return Xt.offset + centres @ Xt.directions.T
    # Far from the origin, distances are small differences of large numbers.
    origin = np.zeros(Xt.shape[1], Xt.dtype) if sparse.issparse(Xt) else Xt.mean(axis=0)
    Xt = Xt if sparse.issparse(Xt) else Xt - origin
    weights, draw_by = weights / weights.mean(), draw_by / draw_by.mean()

    def begun(init: NDArray[Any]) -> Any:
        with one_thread():
            return KMeans(r, init=init, n_init=1).fit(Xt, sample_weight=weights)

    draws = np.random.RandomState(seed % 2**32)
    with catch_warnings(), one_thread():
        simplefilter("ignore", ConvergenceWarning)  # fewer distinct samples than components: some centres are the same
        inits = [kmeans_plusplus(Xt, r, sample_weight=draw_by, random_state=draws)[0] for _ in range(attempts)]
        best = min(spread(begun, inits), key=lambda found: found.inertia_)
    return np.asarray(best.cluster_centers_, np.float64) + origin


def _fill(centres: Float, r: int) -> Float:
    """Return r rows: the first of the given ones, repeated where there are fewer distinct samples than components."""
    return centres[np.arange(r) % len(centres)]
