"""The state before the first iteration: W, the noise levels, and how memberships are integrated out.

The ways to a first W, k-means and random samples, are in model/start.py. By default a fit of a sample on the driver
follows: its iterations cost next to nothing, and after it a few passes over all samples are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from dbmd import in_coordinates
from dbmd._utils.arrays import is_here, to_host
from dbmd._utils.parallel import Threads, kept_threads
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd._utils.threads import one_blas_thread
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.data.preparation import Preparation
from dbmd.engines.local import Engine as LocalEngine
from dbmd.h_step import origin_of
from dbmd.model.bright_start import bright_starts, clearly_lowest
from dbmd.model.coordinates import Coordinates
from dbmd.model.draw import Moments
from dbmd.model.evidence import Evidence, noise_excess, pooled
from dbmd.model.low_rank import LowRank
from dbmd.model.node import Node
from dbmd.model.noise import Noise, least_level
from dbmd.model.offsets import OffsetPrior
from dbmd.model.parts import Parts
from dbmd.model.reduce import ParallelMap, can_be_reduced, reduced
from dbmd.model.result import State
from dbmd.model.start import (
    STARTS,
    Clusters,
    Sample,
    clusters_of,
    draw_sample,
    nearest,
    replace_nearest,
    source_means,
    weighed,
    without_offsets,
)
from dbmd.model.statistics import Float, PerSource, Statistics, middle
from dbmd.protocols import Engine, NodeFunction
from dbmd.registry import load_one_loop
from dbmd.sweep import sweep

# Nodes of a sample on the driver, at most, and the work of one: samples times the square of the number of components,
# divided by the number of nodes. With more nodes, threads would wait for each other's Python. It does not depend on the
# machine, because it changes the last digits of the sums.
SAMPLE_NODES, NODE_WORK = 12, 100_000
SAMPLE_TOL = 0.1  # tolerance of the fit of a sample, relative to that of all samples: an iteration there costs little

FITTING_A_SAMPLE = "fitting the samples drawn"

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What stays the same throughout a fit.

    Attributes
    ----------
    engine : Engine
        Has the nodes.
    config : Config
        The parameters.
    n_sources : int
        Sources have the codes 0 to n_sources - 1.
    dtype : dtype
        Of the data.
    known : array of shape (m, n_known), optional
        The known components.
    on_sample : callable
        Called with the samples that are drawn for the start.
    on_phase : callable
        Called with what is done next.
    sweep, nearest : NodeFunction
        How a node makes a pass, and the first one.
    """

    engine: Engine
    config: Config
    n_sources: int
    dtype: np.dtype[Any]
    known: Float | None = None
    on_sample: Callable[[Sample], object] = lambda sample: None
    on_phase: OnPhase = ignore_phase
    sweep: NodeFunction[PerSource[Statistics]] = sweep
    nearest: NodeFunction[PerSource[Statistics]] = nearest

    @cached_property
    def parts(self) -> Parts:
        """What the fit looks for."""
        return self.config.parts(self.n_sources)

    def with_known(self, W: Float) -> Float:
        """Return components, shape (m, r), with the known ones first, in the place of those nearest to them."""
        return W if self.known is None else replace_nearest(W, self.known)


Descend = Callable[[State, Setting, Callable[[State], object]], State]


def find_start(
    setting: Setting,
    moments: PerSource[Moments],
    seed: int,
    evidence: Evidence | None,
    descend: Descend,
) -> State:
    """Return the state before the first iteration, found as ``config.init`` says.

    Wide samples are clustered and fitted in the space of their leading principal directions (model/reduce.py). The
    noise outside of that space counts, too.

    Parameters
    ----------
    setting : Setting
        The fit.
    moments : PerSource[Moments]
        Of all samples.
    seed : int
        Of the draws.
    evidence : Evidence, optional
        How memberships are integrated out, if it is known already.
    descend : callable
        ``descend(state, setting, on_iteration)`` fits the sample: :func:`dbmd.algorithm.descend`.
    """
    config, parts = setting.config, setting.parts
    r, n_patterns = parts.n_components, parts.n_patterns
    if config.init != "k-means++":
        setting.on_phase("finding a start")
        W = STARTS[str(config.init)](setting.engine.ask, r, seed)
        return start_from(setting, moments, seed, evidence, setting.with_known(W))
    setting.on_phase("drawing samples to start from")
    sample = draw_sample(
        setting.engine.ask, moments, n_patterns, seed, has_offsets=bool(parts.n_offsets), anywhere=True
    )
    D = source_means(sample, setting.n_sources) if parts.n_offsets else None
    centred = sample if D is None else without_offsets(sample, D)
    setting.on_phase("clustering the samples drawn")
    pool = kept_threads()
    with (
        one_blas_thread(),
        # Whatever does not depend on the clusters is done beside them.
        pool.submit(setting.on_sample, sample) if is_here(sample.Xt) else nullcontext() as looking,
    ):
        needs_excess = config.inference == "evidence" and evidence is None

        def work(Xt: Any) -> tuple[Clusters, Float | None]:
            if looking is None:
                setting.on_sample(replace(sample, Xt=Xt))
            return _cluster_sample(setting, replace(centred, Xt=Xt), seed, pool, needs_excess=needs_excess)

        clusters, excess = _work_on(setting.engine, centred.Xt, work, r=r)
        Xt = clusters.Xt
        candidates = bright_starts(Xt, clusters.weights, r, seed) if parts.has_dark else [clusters.W]
        if D is not None:  # offsets are found from the samples as they are
            Xt = sample.Xt
            if can_be_reduced(Xt, r + setting.n_sources):
                Xt = reduced(Xt, clusters.weights, r + setting.n_sources, seed, pool.map)
        if looking is not None:
            looking.result()
        if excess is not None:
            evidence = Evidence.of(excess, sample.n_of_all, n_patterns)
        starts = [parts.assemble(setting.with_known(W), D) for W in candidates]
        if config.inference == "map" and not sample.is_worth_a_peak_fit:
            return begin(setting, starts[0])

        def on_iteration(now: State) -> None:
            setting.on_phase(FITTING_A_SAMPLE, len(now.history))

        setting.on_phase(FITTING_A_SAMPLE)
        states = _fit_sample(setting, sample, Xt, starts, evidence, descend, on_iteration, pool.map)
    return replace(_best_fit(states, float(sample.weights.sum())), evidence=evidence)


def _work_on(engine: Engine, Xt: Any, work: Callable[[Any], T], *, r: int) -> T:
    """Return work(Xt) for samples that were drawn; for dense wide ones, where the engine computes."""
    lent = getattr(engine, "work_on", None)
    if lent is None or sparse.issparse(Xt) or not can_be_reduced(Xt, r):
        return work(to_host(Xt))
    found: T = lent(Xt, work)
    return found


def _cluster_sample(
    setting: Setting, sample: Sample, seed: int, pool: Threads, *, needs_excess: bool
) -> tuple[Clusters, Float | None]:
    """Return the clusters of a sample, without offsets, and the noise excess of each source if it is needed."""
    r, n_patterns, codes = setting.parts.n_components, setting.parts.n_patterns, sample.source_codes
    ready = weighed(sample, r, seed, pool.map)
    if not needs_excess:
        return clusters_of(ready, r, seed, pool.map), None
    # The excess in this thread: samples may be elsewhere, unlike what is clustered.
    with pool.submit(clusters_of, ready, r, seed, pool.map) as clusters:
        excess = noise_excess(sample.Xt, ready.weights, codes, setting.n_sources, n_patterns, pool.map)
        return clusters.result(), excess


def _fit_sample(
    setting: Setting,
    sample: Sample,
    Xt: Any,
    starts: list[Float],
    evidence: Evidence | None,
    descend: Descend,
    on_iteration: Callable[[State], object],
    parallel_map: ParallelMap = map,
) -> list[State]:
    """Return the states from which all samples are fitted: after fits of a sample from several V, shape (m, n_columns).

    Where nothing but the samples says what W is like, reduced samples are fitted in their coordinates.
    """
    config, dtype, parts = setting.config, setting.dtype, setting.parts
    space = Coordinates.of(Xt) if isinstance(Xt, LowRank) and _is_plain(setting) else None
    starts = starts if space is None else [space.of_points(V) for V in starts]
    # In float64 whatever the type of the data: the many small moves of this fit would be lost in the rounding of
    # float32. Of reduced samples in features everything but the memberships is in float64 anyway.
    sample_type = dtype if isinstance(Xt, LowRank) and space is None else np.dtype(np.float64)
    rounding = 0.0  # of the samples, in coordinates
    if space is not None:
        rounding = space.factor * float(np.finfo(dtype).eps) ** 2 * float(np.mean(np.square(space.offset)))
    if evidence is not None:
        evidence = Evidence.of(evidence.excess, len(sample.source_codes), parts.n_patterns)
        evidence = evidence if space is None else space.evidence(evidence)
    in_one_loop = space is not None and parts.n_patterns <= load_one_loop("cpu").MAX_RANK
    most = 1 if in_one_loop else SAMPLE_NODES
    nodes = _nodes_on_the_driver(sample, Xt, parts.n_patterns, sample_type, most, in_coordinates=space is not None)
    found = []
    with LocalEngine(nodes) as driver, one_blas_thread():
        sample_config = replace(config, solver="exact", solver_options=None, tol=SAMPLE_TOL * config.tol)
        sample_setting = replace(setting, engine=driver, config=sample_config, dtype=sample_type)
        if in_one_loop:
            own_sweep = partial(in_coordinates.sweep, parallel_map=parallel_map)
            sample_setting = replace(sample_setting, sweep=own_sweep, nearest=in_coordinates.nearest)
        for V in starts:
            state = replace(begin(sample_setting, V), evidence=evidence)
            floor = max(state.floor * least_level(dtype) / least_level(sample_type), rounding)
            state = descend(replace(state, floor=max(state.floor, rounding)), sample_setting, on_iteration)
            found.append(_for_all_samples(replace(state, floor=floor), dtype, space))
    return found


def _is_plain(setting: Setting) -> bool:
    """Return whether samples alone pull at W, and the number of features matters to the noise levels only."""
    config, parts = setting.config, setting.parts
    is_free = parts == Parts(parts.n_components) and setting.known is None and not config.lam
    return is_free and not config.prior.any() and isinstance(config.noise, str)


def _for_all_samples(state: State, dtype: np.dtype[Any], space: Coordinates | None) -> State:
    """Return the state of all samples, of a type, after a fit of some of them, which may have been in coordinates."""
    V, sigma2, origin, lbfgs = state.V, state.sigma2, state.origin, state.lbfgs.for_other_samples()
    floor = state.floor
    if space is not None:
        V, origin, lbfgs = space.points(V), space.points(origin[:, None])[:, 0], space.steps(lbfgs)
        sigma2, floor = sigma2 / space.factor, floor / space.factor
    origin = origin.astype(dtype).astype(np.float64)  # exact in the type of the samples
    return State(V, sigma2, origin, floor, state.evidence, state.offset_prior, state.objective, lbfgs=lbfgs)


def _best_fit(states: list[State], n: float) -> State:
    """Return the best of the fits of a sample of n samples from several candidates."""
    objectives = [np.inf if state.objective is None else state.objective.value for state in states]
    first = states[0]
    excess = 1.0 if first.evidence is None else pooled(np.array(first.evidence.excess), first.sigma2)
    best = states[clearly_lowest(objectives, n, excess)] if len(states) > 1 else first
    return replace(best, objective=None)


def start_from(
    setting: Setting,
    moments: PerSource[Moments],
    seed: int,
    evidence: Evidence | None,
    W: Float,
    sigma2: Float | None = None,
    D: Float | None = None,
) -> State:
    """Return the state before the first iteration from a given W.

    Parameters
    ----------
    setting, moments, seed, evidence
        As for :func:`find_start`.
    W : array of shape (m, r)
        The components.
    sigma2 : array of shape (n_sources,), optional
        The noise levels; by default they are found from the distances of the samples to the columns of W.
    D : array of shape (m, n_sources), optional
        The offsets, if the model has some; by default the means of the sources, less that of all.
    """
    parts = setting.parts
    if parts.n_offsets and D is None:
        D = np.zeros((len(W), parts.n_offsets))
        mean = sum(each.total for each in moments.values()) / sum(each.n for each in moments.values())
        for c, each in moments.items():
            D[:, c] = each.total / each.n - mean
    setting.on_phase("measuring distances to the start")
    state = begin(setting, parts.assemble(W, D), sigma2)
    if setting.config.inference == "evidence" and evidence is None:
        evidence = _find_evidence(setting, moments, seed, state.sigma2)
    return replace(state, evidence=evidence)


def begin(setting: Setting, V: Float, sigma2: Float | None = None) -> State:
    """Return the state at V without evidence; sigma2, shape (n_sources,), is found if not given."""
    dtype, parts = setting.dtype, setting.parts
    W, D = parts.W(V), parts.offsets(V)
    origin = origin_of(W, dtype)
    hard = setting.engine.ask(partial(setting.nearest, origin=origin, parts=parts), V)
    noise = Noise.for_data(setting.config.noise, setting.n_sources, hard, origin, dtype)
    if sigma2 is None:
        sigma2 = noise.levels(parts.summaries(hard, V, origin), W)
        if parts.has_dark:  # samples are far from all components where they are dark, without any noise
            alpha = parts.prior(setting.config.prior)
            h_step = partial(sweep, sigma2=sigma2, prior=alpha, parts=parts, origin=origin, warm=False)
            sigma2 = noise.levels(parts.summaries(setting.engine.ask(h_step, V), V, origin), W)
    # A column of W may be far out; the mean of the samples is not.
    mean = origin + middle(hard)
    prior = OffsetPrior.of(D, hard, sigma2) if parts.n_offsets else None
    return State(V, sigma2, mean.astype(dtype).astype(np.float64), noise.floor, offset_prior=prior)


def _find_evidence(setting: Setting, moments: PerSource[Moments], seed: int, sigma2: Float) -> Evidence:
    """Return how to integrate memberships out, with the noise excess of a sample at given noise levels."""
    parts = setting.parts
    r = parts.n_patterns
    setting.on_phase("drawing samples to see how noise is spread")
    sample = draw_sample(setting.engine.ask, moments, r, seed, has_offsets=bool(parts.n_offsets), anywhere=True)
    centred = without_offsets(sample, source_means(sample, len(sigma2))) if parts.n_offsets else sample
    codes = sample.source_codes

    def work(Xt: Any) -> Float:
        setting.on_sample(sample if parts.n_offsets else replace(sample, Xt=Xt))
        return noise_excess(Xt, sample.weights / sigma2[codes], codes, len(sigma2), r)

    with one_blas_thread():
        excess = _work_on(setting.engine, centred.Xt, work, r=r)
    return Evidence.of(excess, sample.n_of_all, r)


def _nodes_on_the_driver(
    sample: Sample, Xt: Any, r: int, dtype: np.dtype[Any], most: int, *, in_coordinates: bool = False
) -> list[Node]:
    """Return nodes of a sample, sorted by source so that there are few chunks.

    Reduced samples keep what was found for their gaps; all others have gaps again.

    Parameters
    ----------
    sample : Sample
        Its sources and weights.
    Xt : array, CSR array or LowRank of shape (n, m)
        The sample as it was clustered.
    r : int
        Components.
    dtype : dtype
        Type to compute with.
    most : int
        Nodes at most.
    in_coordinates : bool
        Whether the nodes have the coordinates of reduced samples, and of their distances from the space only the sums.
    """
    n = len(sample.weights)
    n_nodes = int(np.clip(np.sqrt(n * r**2 / NODE_WORK), 1, most))
    gaps, weights, source_codes = None if isinstance(Xt, LowRank) else sample.gaps, sample.weights, sample.source_codes
    if gaps is not None:
        Xt = np.where(gaps, np.nan, Xt)
    if (source_codes[1:] < source_codes[:-1]).any():
        order = np.argsort(source_codes, kind="stable")
        Xt, weights, source_codes = Xt[order], weights[order], source_codes[order]
    of_all = int(source_codes[0]) if source_codes[0] == source_codes[-1] else source_codes
    if in_coordinates:
        return partition(Xt.scores, of_all, n_nodes, dtype, weights=weights, off=Xt.off)
    nodes = partition(Xt, of_all, n_nodes, dtype, weights=weights)
    if gaps is None:
        return nodes
    with_gaps = Preparation(fill=sample.Xt.mean(axis=0))
    return [replace(node, block=with_gaps.of(node.samples)) for node in nodes]
