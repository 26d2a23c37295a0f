"""The first W: k-means of a sample, k-means|| or random samples, found in passes over the nodes.

One seed gives one W, however the data are divided into nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from dbmd._utils.arrays import namespace
from dbmd._utils.threads import one_blas_thread, one_thread
from dbmd.model.draw import Chances, Moments, draw_fraction, draw_uniform, moments
from dbmd.model.impute import completed, completed_by_source
from dbmd.model.lasso import minimise
from dbmd.model.low_rank import LowRank
from dbmd.model.measure import distances, draw_by_distance, measure, tally
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.reduce import ParallelMap, can_be_reduced, reduced
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, squared_norms
from dbmd.protocols import Ask, Sums
from dbmd.registry import load_clustering, load_kernel

SAMPLE, SAMPLE_FRACTION = 20_000, 0.01  # size of a sample on the driver: so many or such a fraction, whichever is more
SAMPLE_NUMBERS = 8_000_000  # largest number of entries of a sample; zeros of sparse samples do not count
SAMPLE_EACH = 50  # least number of samples for each component
PRECISION_ROUNDS = 2  # clusterings that the precision of the sources is found from
ATTEMPTS, CHEAP_ATTEMPTS = 3, 10  # of k-means++ and k-means, on samples as they are and on reduced ones
# Attempts are made on a part of the samples: so many, and so many for each component. The best continue with all.
PART, PART_EACH, FINALISTS = 3_000, 100, 3
ROUGH, TOL = 1e-3, 1e-4  # tolerances of k-means on the part and on all, as of scikit-learn: of the mean variance
MAX_ITER = 300  # of k-means
ROUNDS = 3  # of k-means||; each draws OVERSAMPLING * r candidates
OVERSAMPLING = 2
REFINEMENTS = 5  # passes of k-means after k-means||; more gain little


def random_samples(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r): r samples drawn at random, different ones if there are so many."""
    drawn = ask(partial(draw_uniform, seed=seed, take=4 * r))
    _, first = np.unique(drawn.Xt, axis=0, return_index=True)
    return _fill(drawn.Xt[np.sort(first)], r).T


@dataclass(frozen=True)
class Sample:
    """Some samples that the driver works on.

    Attributes
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples; dense ones may be where they were drawn.
    source_codes : array of int of shape (n,)
        Their sources.
    weights : array of shape (n,)
        For how many of all samples each stands.
    n_of_all : int
        Number of samples that they were drawn from.
    gaps : array of bool of shape (n, m), optional
        Which entries are missing; None: none. There ``Xt`` has what was found for them.
    """

    Xt: Any
    source_codes: NDArray[np.intp]
    weights: Float
    n_of_all: int
    gaps: NDArray[np.bool_] | None = None

    @property
    def is_worth_a_peak_fit(self) -> bool:
        """Whether to fit it with ``inference="map"``: only if it is large enough that W does not fit its noise."""
        n, m = self.Xt.shape
        return bool(2 * m <= n < self.n_of_all)


class Clusters(NamedTuple):
    """The clusters of a sample.

    Attributes
    ----------
    W : array of shape (m, r)
        The centres.
    Xt : array, CSR array or LowRank of shape (n, m)
        The samples as they were clustered: wide samples in the space of their leading principal directions.
    weights : array of shape (n,)
        For how many of all samples each stands, times the precision of its source.
    """

    W: Float
    Xt: Any
    weights: Float


def draw_sample(
    ask: Ask, known: PerSource[Moments], r: int, seed: int, *, has_offsets: bool = False, anywhere: bool = False
) -> Sample:
    """Return about 20,000 samples or 1 %; fewer if they have more than 8 million entries, but 50 for each component.

    It takes one light pass, and only the drawn samples are sent.

    Parameters
    ----------
    ask : Ask
        Reaches the nodes.
    known : PerSource[Moments]
        Of all samples.
    r, seed : int
        Components, seed of the draws.
    has_offsets : bool
        Whether sources have offsets. Then sparse samples are needed as dense ones, so that zeros count as entries, and
        gaps are filled about the mean of their source.
    anywhere : bool
        Whether dense samples may stay where they were drawn.
    """
    n, stored = sum(each.rows for each in known.values()), sum(each.stored for each in known.values())
    if has_offsets:
        stored = n * len(next(iter(known.values())).total)
    most = SAMPLE_NUMBERS * n / max(stored, 1)
    fraction = max(min(max(SAMPLE, SAMPLE_FRACTION * n), most), SAMPLE_EACH * r) / n
    if fraction > 0.5:  # then all samples cost at most twice as much
        fraction = 1.0
    drawn = ask(partial(draw_fraction, seed=seed, chances=Chances.of(known, fraction)))
    Xt, source_codes, weights = drawn.in_order(anywhere=anywhere and not has_offsets)
    if sparse.issparse(Xt):
        return Sample(Xt.toarray() if has_offsets else Xt, source_codes, weights, n)
    if drawn.has_gaps:
        fill = completed_by_source if has_offsets else completed
        return Sample(fill(Xt, source_codes, r, seed), source_codes, weights, n, np.isnan(Xt))
    return Sample(Xt, source_codes, weights, n)


def source_means(sample: Sample, n_sources: int) -> Float:
    """Return the mean of each source, less the mean of all samples, shape (m, n_sources): a start for offsets."""
    D = np.zeros((sample.Xt.shape[1], n_sources))
    mean = np.average(sample.Xt, axis=0, weights=sample.weights)
    for c in np.unique(sample.source_codes):
        own = sample.source_codes == c
        D[:, c] = np.average(sample.Xt[own], axis=0, weights=sample.weights[own]) - mean
    return D


def without_offsets(sample: Sample, D: Float) -> Sample:
    """Return a dense sample less the offsets of its sources, shape (m, n_sources)."""
    return replace(sample, Xt=sample.Xt - D.T[sample.source_codes].astype(sample.Xt.dtype))


def replace_nearest(W: Float, known: Float) -> Float:
    """Return components, shape (m, r), of which the first are the known ones, shape (m, n_known).

    Each known one replaces another column of W, such that the distances are least in all.
    """
    d2 = squared_norms(known.T)[:, None] - 2.0 * (known.T @ W) + squared_norms(W.T)
    _, replaced = linear_sum_assignment(d2)
    return np.hstack([known, np.delete(W, replaced, axis=1)])


def k_means_of_a_sample(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r), by k-means++ and k-means on a sample."""
    return k_means(draw_sample(ask, ask(moments), r, seed), r, seed).W


class Weighed(NamedTuple):
    """Samples as they are clustered.

    Attributes
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        The samples: wide ones in the space of their leading principal directions.
    weights : array of shape (n,)
        For how many of all samples each stands, times the precision of its source.
    draw_by : array of shape (n,)
        Their weights in the draws of k-means++.
    """

    Xt: Any
    weights: Float
    draw_by: Float


def k_means(sample: Sample, r: int, seed: int, parallel_map: ParallelMap = map) -> Clusters:
    """Cluster a sample. Sources are weighted by their precision, found from the distances in earlier clusterings.

    Parameters
    ----------
    sample : Sample
        The samples.
    r, seed : int
        Clusters, seed of the draws.
    parallel_map : callable
        As ``map``; it may run in threads, which do not change the result.

    Returns
    -------
    Clusters
        The best of some attempts.
    """
    return clusters_of(weighed(sample, r, seed, parallel_map), r, seed, parallel_map)


def weighed(sample: Sample, r: int, seed: int, parallel_map: ParallelMap = map) -> Weighed:
    """Return a sample as it is clustered; parameters are those of :func:`k_means`."""
    _, source = np.unique(sample.source_codes, return_inverse=True)
    precision, is_wide = np.ones(source.max() + 1), can_be_reduced(sample.Xt, r)

    def seen() -> Weighed:
        weights = precision[source] * sample.weights
        Xt = reduced(sample.Xt, weights, r, seed, parallel_map) if is_wide else sample.Xt
        # A noisy sample is a poor representative of its cluster: in drawing, precision counts twice.
        return Weighed(Xt, weights, weights * precision[source])

    if len(precision) > 1 and sample.Xt.shape[0] > r:
        for _ in range(PRECISION_ROUNDS):
            now = seen()
            centres = _centres(now, r, seed, 1, parallel_map)
            d2 = distances(now.Xt, centres)[0] * sample.weights
            precision = _relative_precision(np.bincount(source, d2), np.bincount(source, sample.weights))
    return seen()


def clusters_of(samples: Weighed, r: int, seed: int, parallel_map: ParallelMap = map) -> Clusters:
    """Return the clusters of samples; parameters are those of :func:`k_means`."""
    Xt = samples.Xt
    if Xt.shape[0] <= r:  # each is a centre
        centres = _fill(np.asarray(Xt.toarray() if sparse.issparse(Xt) else Xt, np.float64), r)
    else:
        attempts = CHEAP_ATTEMPTS if isinstance(Xt, LowRank) else ATTEMPTS
        centres = _centres(samples, r, seed, attempts, parallel_map)
    return Clusters(centres.T, Xt, samples.weights)


def _centres(samples: Weighed, r: int, seed: int, attempts: int, parallel_map: ParallelMap) -> Float:
    """Return r centres, shape (r, m), of samples: the best of some attempts."""
    with one_blas_thread():
        return _cluster(*samples, r, seed, attempts=attempts, parallel_map=parallel_map)


def k_means_parallel(ask: Ask, r: int, seed: int) -> Float:
    """Return W, shape (m, r), by k-means|| (Bahmani et al. 2012), refined by a few passes of k-means.

    Each pass draws samples with a probability that grows with their squared distance to the candidates so far. The
    candidates, each weighted by the samples that are nearest to it, are clustered on the driver. Distances are in units
    of the noise of their source, so that not all candidates come from a noisy source.
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
    centres = _cluster(candidates[used], weights, weights, r, seed, attempts=10)
    return refine(ask, centres.T, REFINEMENTS)


def refine(ask: Ask, W: Float, passes: int) -> Float:
    """Return W after some passes of k-means: the exact W-step with hard memberships, sources weighted by precision."""
    for _ in range(passes):
        origin = W.mean(axis=1)
        stats = ask(partial(nearest, origin=origin), W)
        sigma2 = {c: max(s.squares(W, origin), 1e-12 * s.sq_norm, 1e-300) / s.n for c, s in stats.items()}
        W = minimise(Quadratic.of(stats, sigma2, origin), 0.0, W)
    return W


STARTS: dict[str, Callable[[Ask, int, int], Float]] = {
    "k-means++": k_means_of_a_sample,
    "k-means||": k_means_parallel,
    "random": random_samples,
}


def nearest(
    node: Node, V: Float, *, origin: Float | None = None, parts: Parts | None = None
) -> tuple[Node, PerSource[Statistics]]:
    """Node: assign each sample to the nearest column of W, and send the statistics of these hard memberships.

    Parameters
    ----------
    node : Node
        The samples.
    V : array of shape (m, n_columns)
        The components, and the offsets of sources if they have any.
    origin : array of shape (m,), optional
        The point statistics are taken about; by default zero.
    parts : Parts, optional
        What the columns of V are; by default components.
    """
    parts = parts or Parts.plain(V)
    origin = np.zeros(len(V)) if origin is None else origin
    block, shift = node.samples, node.samples.shift_for(origin)
    centres = (parts.W(V).T - shift).astype(block.dtype)
    kernel, sums = load_kernel(block.kernel), dict[int, Sums]()
    for chunk in block.chunks(shift):
        offset = parts.offset(V, chunk.source_code)
        _, near = distances(chunk.Xt, centres if offset is None else centres + offset.astype(block.dtype))
        Ht = (near[:, None] == namespace(near).arange(len(centres))).astype(block.dtype)
        if chunk.source_code not in sums:
            sums[chunk.source_code] = kernel.Sums(len(V), len(centres), block.dtype)
        sums[chunk.source_code].add(chunk.Xt, Ht, chunk.weights, norms=True)
    found = {source_code: each.total() for source_code, each in sums.items()}
    stats = {c: Statistics.of(each, origin - shift) for c, each in found.items() if each.n}
    return node, PerSource({c: replace(s, sq_norm=s.sq_norm + block.off.get(c, 0.0)) for c, s in stats.items()})


def _precision_of(found: PerSource[Summary]) -> dict[int, float]:
    """Return the relative precision of each source, from its squared distances to the candidates."""
    squares, n = zip(*((s.squares, s.n) for s in found.values()), strict=True)
    return dict(zip(found, _relative_precision(np.array(squares), np.array(n)).tolist(), strict=True))


def _relative_precision(squares: NDArray[Any], n: NDArray[Any]) -> Float:
    """Return the mean squared distance in all data over that in each source, shape (n_sources,).

    Parameters
    ----------
    squares, n : array of shape (n_sources,)
        Sum of the squared distances of each source, and number of its samples.
    """
    pooled = squares.sum() / n.sum()
    if pooled == 0.0:
        return np.ones(len(n))
    # A source at distance zero from the candidates counts as very precise, but not as infinitely so.
    return np.asarray(pooled / np.maximum(squares / n, 1e-6 * pooled))


def _cluster(
    Xt: Any, weights: Float, draw_by: Float, r: int, seed: int, *, attempts: int, parallel_map: ParallelMap = map
) -> Float:
    """Return r centres, shape (r, m), by k-means++ and k-means: the best of some attempts.

    Parameters
    ----------
    Xt : array, CSR array or LowRank of shape (n, m)
        Samples.
    weights, draw_by : array of shape (n,)
        Weight of each in a centre, and in the draws of k-means++.
    r, seed, attempts : int
        Centres, seed of the draws, number of attempts.
    parallel_map : callable
        As ``map``, for the attempts; it may run in threads.
    """
    weights, draw_by = weights / weights.mean(), draw_by / draw_by.mean()
    best = partial(_best_centres, n=Xt.shape[0], r=r, seed=seed, attempts=attempts, parallel_map=parallel_map)
    if sparse.issparse(Xt):
        return best(_SparseClustering(Xt, weights, draw_by, r))
    if isinstance(Xt, LowRank):
        return Xt.offset + best(_DenseClustering.of(Xt.scores, weights, draw_by, r)) @ Xt.directions.T
    # Far from the origin, distances are small differences of large numbers.
    origin = Xt.mean(axis=0, dtype=np.float64)
    return best(_DenseClustering.of(np.ascontiguousarray(Xt - origin), weights, draw_by, r)) + origin


Attempt = Callable[[], tuple[Float, float]]  # returns centres, and what k-means minimises


def _best_centres(
    clustering: _DenseClustering | _SparseClustering,
    n: int,
    r: int,
    seed: int,
    attempts: int,
    parallel_map: ParallelMap,
) -> Float:
    """Return the centres of the best of some attempts on n samples, shape (r, m), in float64."""

    def best(found: Iterable[tuple[Float, float]], count: int) -> list[Float]:
        return [centres for centres, _ in sorted(found, key=lambda each: each[1])[:count]]

    draws = np.random.RandomState(seed % 2**32)
    some = _part_of(n, r, draws)
    if some is None:
        inits = [clustering.drawn(draws) for _ in range(attempts)]
    else:
        rough = clustering.taken(some).attempts(draws.randint(2**31 - 1, size=attempts).tolist(), ROUGH)
        inits = best(parallel_map(lambda attempt: attempt(), rough), FINALISTS)
    return best(parallel_map(partial(clustering.refined, tol=TOL), inits), 1)[0]


@dataclass(frozen=True)
class _DenseClustering:
    """k-means of dense samples.

    Attributes
    ----------
    Xt : array of shape (n, m), float64, contiguous
        Samples, about a point amidst them.
    weights, draw_by : array of shape (n,)
        Weight of each in a centre, and in the draws of k-means++.
    r : int
        Clusters.
    variance : float
        Mean variance of the features.
    """

    Xt: Float
    weights: Float
    draw_by: Float
    r: int
    variance: float

    @classmethod
    def of(cls, Xt: Float, weights: Float, draw_by: Float, r: int) -> _DenseClustering:
        """Return that of samples."""
        mean = np.full(len(Xt), 1.0 / len(Xt)) @ Xt  # products take a fraction of the time of var
        variance = (float(np.vdot(Xt, Xt)) / len(Xt) - float(mean @ mean)) / Xt.shape[1]
        return cls(Xt, weights, draw_by, r, max(variance, 0.0))

    def taken(self, chosen: NDArray[np.intp]) -> _DenseClustering:
        """Return that of some of the samples."""
        return self.of(self.Xt[chosen], self.weights[chosen], self.draw_by[chosen], self.r)

    def drawn(self, random: np.random.RandomState) -> Float:
        """Return centres by k-means++, shape (r, m)."""
        return load_clustering("cpu").k_means_plus_plus(self.Xt, self.draw_by, self._numbers(random))

    def attempts(self, seeds: list[int], tol: float) -> list[Attempt]:
        """Return for each seed what draws centres, and refines them; it may be called in any thread."""
        # One call, as threads would have to wait for Python between two.
        attempt, further = load_clustering("cpu").k_means_attempt, (tol * self.variance, MAX_ITER)
        random, found = np.random.RandomState(0), list[Attempt]()
        for seed in seeds:
            random.seed(seed)  # takes a tenth of the time of making another one
            found.append(partial(attempt, self.Xt, self.weights, self.draw_by, self._numbers(random), *further))
        return found

    def _numbers(self, random: np.random.RandomState) -> Float:
        """Return the numbers that decide the draws of k-means++, drawn in the order of scikit-learn."""
        numbers = np.zeros((self.r, 2 + int(np.log(self.r))))
        numbers[0, 0] = random.random_sample()
        numbers[1:] = random.random_sample(numbers[1:].shape)
        return numbers

    def refined(self, centres: Float, tol: float) -> tuple[Float, float]:
        """Return centres after k-means from others, and what it minimises; the tolerance is relative."""
        return load_clustering("cpu").k_means(self.Xt, self.weights, centres, tol * self.variance, MAX_ITER)


@dataclass(frozen=True)
class _SparseClustering:
    """k-means of sparse samples by scikit-learn, as :class:`_DenseClustering`; ``Xt`` is a CSR array."""

    Xt: Any
    weights: Float
    draw_by: Float
    r: int

    def taken(self, chosen: NDArray[np.intp]) -> _SparseClustering:
        """Return that of some of the samples."""
        return _SparseClustering(self.Xt[chosen], self.weights[chosen], self.draw_by[chosen], self.r)

    def drawn(self, random: np.random.RandomState) -> Float:
        """Return centres by k-means++, shape (r, m)."""
        from sklearn.cluster import kmeans_plusplus  # late: it takes a while to load

        with one_thread():
            found = kmeans_plusplus(self.Xt, self.r, sample_weight=self.draw_by, random_state=random)[0]
        return np.asarray(found)

    def attempts(self, seeds: list[int], tol: float) -> list[Attempt]:
        """Return for each seed what draws centres, and refines them; it may be called in any thread."""

        def attempt(seed: int) -> tuple[Float, float]:
            return self.refined(self.drawn(np.random.RandomState(seed)), tol)

        return [partial(attempt, seed) for seed in seeds]

    def refined(self, centres: Float, tol: float) -> tuple[Float, float]:
        """Return centres after k-means from others, and what it minimises; the tolerance is relative."""
        from sklearn import config_context
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        # Samples were checked before, and checking them again takes half of the time.
        with catch_warnings(), one_thread(), config_context(assume_finite=True, skip_parameter_validation=True):
            # With fewer distinct samples than components some centres coincide.
            simplefilter("ignore", ConvergenceWarning)
            model = KMeans(self.r, init=centres, n_init=1, tol=tol, max_iter=MAX_ITER)
            found = model.fit(self.Xt, sample_weight=self.weights)
        return np.asarray(found.cluster_centers_, np.float64), float(found.inertia_)


def _part_of(n: int, r: int, draws: np.random.RandomState) -> NDArray[np.intp] | None:
    """Return which of n samples r clusters are sought in at first, in order; None: in all."""
    size = max(PART, PART_EACH * r)
    return None if n < 2 * size else np.sort(draws.permutation(n)[:size])


def _fill(centres: Float, r: int) -> Float:
    """Return r centres, shape (r, m): the first of the given ones, repeated if they are fewer."""
    return centres[np.arange(r) % len(centres)]
