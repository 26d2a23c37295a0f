"""Wide samples in the space of their leading principal directions, where clustering and fitting cost little.

Noise has components along all directions, but r clusters differ along r - 1 directions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from dbmd.model.low_rank import LowRank
from dbmd.model.statistics import Float, squared_norms

ParallelMap = Callable[..., Iterable[Any]]  # as map; may run in threads

MORE = 10  # number of directions, less the number of components
WIDE = 4  # ratio of features to directions from which on samples are reduced
ROUNDS = 4  # of subspace iteration: directions need not be exact, but none that matters may be missed
PIECES = 8  # of the samples; it does not depend on the number of threads, because it changes the last digits of sums


def can_be_reduced(Xt: Any, r: int) -> bool:
    """Return whether samples, shape (n, m), have many more dimensions than r components need."""
    return bool(min(Xt.shape) > WIDE * (r + MORE))


def reduced(Xt: Any, weights: Float, r: int, seed: int, parallel_map: ParallelMap = map) -> LowRank:
    """Return samples in the space of their r + 10 leading principal directions.

    Found by randomised subspace iteration (Halko, Martinsson and Tropp 2011).

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples, n and m larger than r + 10.
    weights : array of shape (n,)
        Weight of each.
    r, seed : int
        Components, seed of the draws.
    parallel_map : callable
        As ``map``; it may run in threads.
    """
    pieces = centred(Xt, weights)
    basis = principal_directions(pieces, r + MORE, seed, parallel_map)
    scores = np.concatenate([*parallel_map(lambda piece: piece.scores(basis), pieces)])
    norms = np.concatenate([*parallel_map(Piece.norms, pieces)])
    # A negative difference is rounding.
    return LowRank(scores, basis, pieces[0].mean, np.maximum(norms - squared_norms(scores), 0.0))


def centred(Xt: Any, weights: Float) -> list[Piece]:
    """Return samples, shape (n, m), about their mean, in pieces; weights, shape (n,), are scaled to sum to one."""
    weights = weights / weights.sum()
    mean = np.asarray(weights @ Xt)
    edges = np.linspace(0, Xt.shape[0], PIECES + 1).astype(int)
    return [Piece.of(Xt[i:j], weights[i:j], mean) for i, j in pairwise(edges)]


def principal_directions(pieces: list[Piece], count: int, seed: int, parallel_map: ParallelMap = map) -> Float:
    """Return the leading principal directions, shape (m, count), orthonormal, by falling variance."""
    directions = np.random.default_rng(seed).standard_normal((len(pieces[0].mean), count))
    for _ in range(ROUNDS):
        basis = np.linalg.qr(directions)[0]
        directions = np.sum([*parallel_map(lambda piece: piece.scattered(basis), pieces)], axis=0)  # noqa: B023
    left, _, _ = np.linalg.svd(directions, full_matrices=False)
    return np.asarray(left)


@dataclass(frozen=True)
class Piece:
    """Some samples about the mean of all. Sparse samples stay as they are, and the mean is subtracted from products.

    Attributes
    ----------
    Xt : array or CSR array of float64 of shape (n_i, m)
        The samples, less the mean if they are dense.
    rest : array of shape (m,)
        What is still to be subtracted: the mean if they are sparse, else zero.
    weights : array of shape (n_i,)
        Weight of each.
    mean : array of shape (m,)
        The mean of all samples.
    """

    Xt: Any
    rest: Float
    weights: Float
    mean: Float

    @classmethod
    def of(cls, Xt: Any, weights: Float, mean: Float) -> Piece:
        """Return a piece, shape (n_i, m), about the mean of all samples, shape (m,)."""
        if sparse.issparse(Xt):
            return cls(Xt.astype(np.float64), mean, weights, mean)
        return cls(Xt - mean, np.zeros_like(mean), weights, mean)

    def scores(self, basis: Float) -> Float:
        """Return the coordinates of the samples along the columns of a basis, shape (n_i, k)."""
        return np.asarray(self.Xt @ basis - self.rest @ basis)

    def scattered(self, basis: Float) -> Float:
        """Return the part of this piece in the covariance of all samples times a basis, shape (m, k)."""
        weighted = self.scores(basis) * self.weights[:, None]
        return np.asarray(self.Xt.T @ weighted - np.outer(self.rest, weighted.sum(axis=0)))

    def norms(self) -> Float:
        """Return the squared distances from the mean, shape (n_i,)."""
        return squared_norms(self.Xt) - 2.0 * (self.Xt @ self.rest) + self.rest @ self.rest
