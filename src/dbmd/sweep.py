"""One pass over a node's block: memberships given W, and the statistics that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Chunk
from dbmd.model.node import Node, continues
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, statistics
from dbmd.profile import Profile
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
    """

    W_centred: NDArray[Any]
    offset: NDArray[Any] | None
    Q: Float
    prior: Float
    sigma2: Float
    kernel: Any

    @classmethod
    def at(
        cls,
        W: Float,
        prior: Float,
        sigma2: Float,
        dtype: np.dtype[Any],
        taken: Float | None = None,
        kernel: str = "cpu",
    ) -> HStep:
        """Prepare the H-step at W for samples of a type, less what was taken off them, shape (m,)."""
        c = W.mean(axis=1)
        taken = np.zeros_like(c) if taken is None else taken
        common, own = np.sum((c - taken) ** 2), np.sum((W - c[:, None]) ** 2) / W.shape[1]
        # With a prior, where the H-step stops depends on Q: then it must be the same for dense and sparse samples.
        c = taken if common <= own and not prior.any() else c
        W_centred = W - c[:, None]
        return cls(
            np.ascontiguousarray(W_centred, dtype),
            None if c is taken else ((c - taken) @ W_centred).astype(dtype),
            W_centred.T @ W_centred,
            prior,
            sigma2,
            load("kernels", kernel),
        )

    def memberships(self, chunk: Chunk, Ht0: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return Ht, shape (rows, r): for each sample the minimiser of the objective given W and sigma."""
        Bt = chunk.Xt @ self.W_centred
        if self.offset is not None:
            Bt -= self.offset
        a = self.sigma2[chunk.source] * self.prior
        return self.kernel.solve_h(self.Q, Bt, a, Ht0)


def sweep(
    node: Node,
    W: Float,
    *,
    sigma2: Float,
    prior: Float,
    gather: bool,
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
    stats: PerSource[Statistics] = PerSource()
    warm = warm and node.Ht is not None
    Ht = _room(node, W) if node.Ht is None else node.Ht
    taken = np.zeros_like(origin) if near_zero and node.block.is_in_a_row else node.block.without(origin)
    for chunk, _, found in _steps(node, W, sigma2, prior, origin, taken, Ht, warm=warm, norms=norms is None):
        stats += PerSource({chunk.source: found})
    if norms is None:
        norms = {c: s.sq_norm for c, s in stats.items()}
    else:
        stats = PerSource({c: replace(s, sq_norm=norms[c]) for c, s in stats.items()})
    node = replace(node, Ht=Ht, norms=norms, origin=origin, stats=None, quadratic=None, memory=None)
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
    node: Node, W: Float, *, sigma2: Float, prior: Float, origin: Float, n_classes: int = 0
) -> tuple[Node, Survey]:
    """Node: find the memberships from nothing but W and sigma, and send statistics and what they look like."""
    stats: PerSource[Statistics] = PerSource()
    profile = Profile.zero(len(sigma2), W.shape[1], n_classes)
    Ht = _room(node, W)
    taken = node.block.without(origin)
    for chunk, h, found in _steps(node, W, sigma2, prior, origin, taken, Ht, warm=False, norms=True):
        stats += PerSource({chunk.source: found})
        profile.count(h, chunk.source, chunk.classes)
    return replace(node, Ht=Ht), Survey(stats, profile)


def _room(node: Node, W: Float) -> NDArray[Any] | None:
    """Return an array for the memberships of a node, if it keeps them."""
    return np.empty((node.block.shape[0], W.shape[1]), node.block.dtype) if node.keeps_rows else None


def _steps(
    node: Node,
    W: Float,
    sigma2: Float,
    prior: Float,
    origin: Float,
    taken: Float,
    Ht: NDArray[Any] | None,
    *,
    warm: bool,
    norms: bool,
) -> Iterator[tuple[Chunk, NDArray[Any], Statistics]]:
    """Yield each chunk with its memberships and statistics; ``Ht`` is where they may start from, and are put.

    ``taken`` is what of the origin is taken off the samples, and the rest off the sums.
    """
    h_step = HStep.at(W, prior, sigma2, node.block.dtype, taken)
    for chunk in node.block.chunks(taken if taken.any() else None):
        h = h_step.memberships(chunk, Ht[chunk.rows] if warm and Ht is not None else None)
        if Ht is not None:
            Ht[chunk.rows] = h
        weights = None if node.weights is None else node.weights[chunk.rows]
        log_prior = 0.0
        if prior.any():
            log_prior = float(prior @ (h_step.kernel.sum_log(h) if weights is None else weights @ np.log(h)))
        yield chunk, h, statistics(chunk.Xt, h, origin - taken, log_prior, norms=norms, weights=weights)


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
    taken = node.block.without(origin_of(W, node.block.dtype))
    h_step = HStep.at(W, prior, sigma2, node.block.dtype, taken)
    own = out[node.block.first_row :]
    for chunk in node.block.chunks(taken):
        own[chunk.rows] = h_step.memberships(chunk)
    return node, 0
