"""One pass over a node's block: memberships given W, and the statistics that follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Chunk
from dbmd.errors import DataError
from dbmd.model.evidence import Evidence
from dbmd.model.node import Node, continues
from dbmd.model.profile import Profile
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, statistics
from dbmd.registry import load


@dataclass(frozen=True)
class HStep:
    """The H-step for a given W: everything but the samples.

    The memberships sum to one, so x - W h = (x - c) - (W - c 1')h for any c. With the mean of the columns of W
    for c, Q and b lose the part that is common to all components, which on raw data is most of them. Where that is
    little, c may be what was taken off the samples, and no offset is needed.

    Attributes
    ----------
    W_centred : array of shape (m, r), of the type of the data
        W - c 1'.
    offset : array of shape (r,), optional
        (W - c 1')'(c - taken), to be taken off (x - taken)'(W - c 1'). None if it is zero.
    Q : array of shape (r, r)
        Gram matrix of W - c 1'.
    prior : array of shape (r,)
        alpha0 - 1.
    sigma2 : array of shape (n_sources,)
        Noise of each source.
    kernel : module
        See :mod:`dbmd.kernels`.
    evidence : Evidence, optional
        How the memberships are integrated out, if they are.
    """

    W_centred: NDArray[Any]
    offset: NDArray[Any] | None
    Q: Float
    prior: Float
    sigma2: Float
    kernel: Any
    evidence: Evidence | None = None

    @classmethod
    def at(
        cls,
        W: Float,
        prior: Float,
        sigma2: Float,
        dtype: np.dtype[Any],
        shift: Float | None = None,
        evidence: Evidence | None = None,
        kernel: str = "cpu",
    ) -> HStep:
        """Prepare the H-step at W for samples of a type, less what was taken off them, shape (m,)."""
        c = W.mean(axis=1)
        shift = np.zeros_like(c) if shift is None else shift
        common, own = np.sum((c - shift) ** 2), np.sum((W - c[:, None]) ** 2) / W.shape[1]
        # With a prior, where the H-step stops depends on Q: then it must be the same for dense and sparse samples.
        c = shift if common <= own and not prior.any() else c
        W_centred = W - c[:, None]
        return cls(
            np.ascontiguousarray(W_centred, dtype),
            None if c is shift else ((c - shift) @ W_centred).astype(dtype),
            W_centred.T @ W_centred,
            prior,
            sigma2,
            load("kernels", kernel),
            evidence,
        )

    def memberships(self, chunk: Chunk, Ht0: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return Ht, shape (rows, r): for each sample the minimiser of the objective given W and sigma."""
        with np.errstate(over="ignore", invalid="ignore"):
            Bt = chunk.Xt @ self.W_centred
            if self.offset is not None:
                Bt -= self.offset
            if not np.isfinite(Bt.sum()):
                raise DataError(
                    f"A sample is too large for {Bt.dtype}: its products with the components leave the range of the "
                    "type. Take the data in the units that the model was fitted in."
                )
        a = self.sigma2[chunk.source_code] * self.prior
        return self.kernel.solve_h(self.Q, Bt, a, Ht0)

    def cost(self, Ht: NDArray[Any], weights: Float | None) -> float:
        """Return the Dirichlet term of the objective for memberships, shape (rows, r), each counted by its weight."""
        if not self.prior.any():
            return 0.0
        return -float(self.prior @ (self.kernel.sum_log(Ht) if weights is None else weights @ np.log(Ht)))

    def covariance(self, source: int) -> Covariance:
        """Return what adds up the covariances of the memberships of a source."""
        assert self.evidence is not None
        level = float(self.sigma2[source])
        faces = self.kernel.FaceCovariance(self.Q, self.evidence.excess[source] * level)
        return Covariance(faces, self.evidence, source, self.Q, level)


@dataclass(frozen=True)
class Covariance:
    """The covariance of the memberships of a source, as it adds up over chunks.

    Attributes
    ----------
    faces : FaceCovariance
        Of the kernel.
    evidence : Evidence
        How memberships are integrated out.
    source : int
        Number of the source.
    Q : array of shape (r, r)
        Gram matrix of W.
    sigma2 : float
        Noise of the source.
    """

    faces: Any
    evidence: Evidence
    source: int
    Q: Float
    sigma2: float

    def add(self, Ht: NDArray[Any], weights: Float | None, rows: NDArray[np.intp]) -> None:
        """Take in memberships, shape (n, r), of samples with weights and row numbers in the whole data, shape (n,)."""
        counted = self.evidence.counted(rows)
        if counted is not None:
            Ht = Ht[counted]
            weights = np.full(len(Ht), float(self.evidence.one_in)) * (1.0 if weights is None else weights[counted])
        self.faces.add(Ht, weights)

    def total(self) -> tuple[Float, float]:
        """Return the sum of the covariances, shape (r, r), and what the memberships cost in the objective."""
        S, log_det = self.faces.total()
        return S, self.evidence.cost(self.source, S, log_det, self.Q, self.sigma2)


def sweep(
    node: Node,
    W: Float,
    *,
    sigma2: Float,
    prior: Float,
    gather: bool,
    evidence: Evidence | None = None,
    origin: Float | None = None,
    near_zero: bool = False,
    warm: bool = True,
) -> tuple[Node, PerSource[Statistics] | PerSource[Summary]]:
    """Node: find the memberships of its samples at W, and send statistics for each source that it holds.

    Parameters
    ----------
    node : Node
        With memberships of an earlier sweep, if any, to start from.
    W : array of shape (m, r)
        The basis.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    prior : array of shape (r,)
        alpha0 - 1.
    gather : bool
        Send all statistics (m r + r^2 numbers and a few scalars a source), or keep them and send their summary.
    evidence : Evidence, optional
        Whether, and how, to integrate the memberships out; without it they are taken at their peak.
    origin : array of shape (m,), optional
        What statistics are taken about; zero without it.
    near_zero : bool
        Whether the origin may be taken off the sums instead of the samples.
    warm : bool
        Whether to start from the memberships of the last sweep, if they are there.

    Returns
    -------
    Node
        With its memberships; and, if it does not send them, its statistics and its share of (P).
    PerSource
        Of Statistics, or of Summary.
    """
    origin = np.zeros(len(W)) if origin is None else origin
    norms = node.norms if node.origin is not None and np.array_equal(node.origin, origin) else None
    warm = warm and node.Ht is not None
    Ht = _room(node, W) if node.Ht is None else node.Ht
    shift = np.zeros_like(origin) if near_zero and node.block.is_in_a_row else node.block.shift_for(origin)
    h_step = HStep.at(W, prior, sigma2, node.block.dtype, shift, evidence)
    stats = _pass(node, h_step, origin, shift, Ht, warm=warm, norms=norms is None)
    if norms is None:
        norms = {c: s.sq_norm for c, s in stats.items()}
    else:
        stats = PerSource({c: replace(s, sq_norm=norms[c]) for c, s in stats.items()})
    node = replace(node, Ht=Ht, norms=norms, origin=origin, stats=None, quadratic=None, scratch=None)
    if gather:
        return node, stats
    share = Quadratic.of(stats, sigma2, origin) if stats else Quadratic.zero(*W.shape)
    return replace(node, stats=stats, quadratic=share), stats.map(lambda s: s.summary(W, origin))


@dataclass(frozen=True)
class Survey:
    """What the last sweep of a fit finds. It adds.

    Attributes
    ----------
    stats : PerSource[Statistics]
        Of the model as it is kept.
    profile : Profile
        What its memberships look like.
    """

    stats: PerSource[Statistics]
    profile: Profile

    def __add__(self, other: Survey) -> Survey:
        return Survey(self.stats + other.stats, self.profile + other.profile)


def survey(
    node: Node,
    W: Float,
    *,
    sigma2: Float,
    prior: Float,
    origin: Float,
    evidence: Evidence | None = None,
    n_classes: int = 0,
) -> tuple[Node, Survey]:
    """Node: find the memberships from nothing but W and sigma, and send statistics and what they look like."""
    profile = Profile.zero(len(sigma2), W.shape[1], n_classes)
    Ht = _room(node, W)
    shift = node.block.shift_for(origin)
    h_step = HStep.at(W, prior, sigma2, node.block.dtype, shift, evidence)

    def count(chunk: Chunk, h: NDArray[Any]) -> None:
        profile.count(h, chunk.source_code, chunk.classes)

    stats = _pass(node, h_step, origin, shift, Ht, warm=False, norms=True, on_chunk=count)
    return replace(node, Ht=Ht), Survey(stats, profile)


def _room(node: Node, W: Float) -> NDArray[Any] | None:
    """Return an array for the memberships of a node, if it keeps them."""
    return np.empty((node.block.shape[0], W.shape[1]), node.block.dtype) if node.keeps_rows else None


def _pass(
    node: Node,
    h_step: HStep,
    origin: Float,
    shift: Float,
    Ht: NDArray[Any] | None,
    *,
    warm: bool,
    norms: bool,
    on_chunk: Callable[[Chunk, NDArray[Any]], None] = lambda chunk, h: None,
) -> PerSource[Statistics]:
    """Return the statistics of all samples; ``Ht`` is where their memberships may start from, and are put.

    ``shift`` is what of the origin is taken off the samples, and the rest off the sums.
    """
    stats: PerSource[Statistics] = PerSource()
    covariances: dict[int, Any] = {}
    for chunk in node.block.chunks(shift if shift.any() else None):
        h = h_step.memberships(chunk, Ht[chunk.rows] if warm and Ht is not None else None)
        if Ht is not None:
            Ht[chunk.rows] = h
        weights = None if node.weights is None else node.weights[chunk.rows]
        found = statistics(chunk.Xt, h, origin - shift, h_step.cost(h, weights), norms=norms, weights=weights)
        stats += PerSource({chunk.source_code: found})
        if h_step.evidence is not None:
            if chunk.source_code not in covariances:
                covariances[chunk.source_code] = h_step.covariance(chunk.source_code)
            covariances[chunk.source_code].add(h, weights, node.block.first_row + chunk.numbers)
        on_chunk(chunk, h)
    for source, covariance in covariances.items():
        stats[source] = stats[source].with_covariance(*covariance.total())
    return stats


@continues
def summarise(node: Node, W: Float) -> tuple[Node, PerSource[Summary]]:
    """Node: send the summary of each source at a new W, with the memberships of the last sweep."""
    assert node.stats is not None
    return node, node.stats.map(lambda s: s.summary(W, node.origin))


@dataclass(frozen=True)
class Labels:
    """The cluster of each sample. Adding those of two nodes puts them one after the other.

    Attributes
    ----------
    values : array of int of shape (n,)
        Numbers of the clusters.
    """

    values: NDArray[np.intp]

    def __add__(self, other: Labels) -> Labels:
        return Labels(np.concatenate([self.values, other.values]))


@continues
def own_labels(node: Node) -> tuple[Node, Labels]:
    """Node: send the cluster of each of its samples, by the memberships of the last sweep."""
    assert node.Ht is not None
    return node, Labels(node.Ht.argmax(axis=1))


def origin_of(W: Float, dtype: np.dtype[Any]) -> Float:
    """Return an origin amidst samples that W describes, shape (m,), exact in the type of the samples."""
    return W.mean(axis=1).astype(dtype).astype(np.float64)


def memberships(node: Node, W: Float, *, sigma2: Float, prior: Float, out: NDArray[Any]) -> tuple[Node, int]:
    """Node: write the memberships of its samples to their rows of ``out``, shape (n, r), in this process."""
    shift = node.block.shift_for(origin_of(W, node.block.dtype))
    h_step = HStep.at(W, prior, sigma2, node.block.dtype, shift)
    own = out[node.block.first_row :]
    for chunk in node.block.chunks(shift):
        own[chunk.rows] = h_step.memberships(chunk)
    return node, 0
