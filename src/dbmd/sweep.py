"""One pass over a node's block: memberships given W, and the statistics that follow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Block, Chunk
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary, statistics
from dbmd.registry import load


@dataclass(frozen=True)
class HStep:
    """The H-step for a given W: everything but the samples.

    The memberships sum to one, so x - W h = (x - c) - (W - c 1')h for any c. With the mean of the columns of W
    for c, Q and b lose the part that is common to all components, which on raw data is most of them.

    Attributes
    ----------
    W_centred : array of shape (m, r), of the type of the data
        W - c 1'.
    offset : array of shape (r,)
        (W - c 1')'(c - taken), to be taken off (x - taken)'(W - c 1').
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
    offset: NDArray[Any]
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
        W_centred = W - c[:, None]
        return cls(
            np.ascontiguousarray(W_centred, dtype),
            ((c if taken is None else c - taken) @ W_centred).astype(dtype),
            W_centred.T @ W_centred,
            prior,
            sigma2,
            load("kernels", kernel),
        )

    def memberships(self, chunk: Chunk, Ht0: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return Ht, shape (rows, r): for each sample the minimiser of the objective given W and sigma."""
        Bt = chunk.Xt @ self.W_centred
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
    warm : bool
        Start from the memberships of the last sweep.

    Returns
    -------
    Node
        With memberships, statistics and its share of (P).
    PerSource
        Of Statistics, or of Summary.
    """
    block: Block = node.block
    origin = np.zeros(len(W)) if origin is None else origin
    taken = block.without(origin)
    h_step = HStep.at(W, prior, sigma2, block.dtype, taken)
    before = node.stats if node.origin is not None and np.array_equal(node.origin, origin) else None
    warm = warm and node.Ht is not None
    Ht = np.empty((block.shape[0], W.shape[1]), block.dtype) if node.Ht is None else node.Ht
    stats: PerSource[Statistics] = PerSource()
    for chunk in block.chunks(taken):
        h = h_step.memberships(chunk, Ht[chunk.place] if warm else None)
        Ht[chunk.place] = h
        log_prior = float(prior @ h_step.kernel.sum_log(h)) if prior.any() else 0.0
        found = statistics(chunk.Xt, h, origin - taken, log_prior, norms=before is None)
        stats += PerSource({chunk.source: found})
    if before is not None:
        stats = PerSource({c: replace(s, sq_norm=before[c].sq_norm) for c, s in stats.items()})
    share = Quadratic.of(stats, sigma2, origin) if stats else Quadratic.zero(*W.shape)
    node = replace(node, Ht=Ht, stats=stats, origin=origin, quadratic=share, memory=None)
    return node, stats if gather else stats.map(lambda s: s.summary(W, origin))


def summarise(node: Node, W: Float) -> tuple[Node, PerSource[Summary]]:
    """Node: send the summary of each source at a new W, with the memberships of the last sweep."""
    assert node.stats is not None
    return node, node.stats.map(lambda s: s.summary(W, node.origin))


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
