"""Wide samples in the space of their leading principal directions, where clustering and fitting cost little.

Noise has components along all directions, but r clusters differ along r - 1 directions only. Dense samples may be
arrays of NumPy, or of another kind: then products with them are computed where they are, and all results are of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import is_here, namespace, to_host
from dbmd.model.low_rank import LowRank
from dbmd.model.statistics import Float, squared_norms

ParallelMap = Callable[..., Iterable[Any]]  # as map; may run in threads

MORE = 10  # number of directions, less the number of components
WIDE = 4  # ratio of features to directions from which on samples are reduced
# Rounds of subspace iteration on a part of the samples, if they are many, and on all of them: directions need not be
# exact, but none that matters may be missed.
ROUNDS_OF_PART, ROUNDS = 3, 2
ONE_IN, PART, EACH = 4, 2_000, 20  # the part is one in so many, but so many samples, and so many for each direction
# Samples of a piece, and pieces. They do not depend on the number of threads, because they change the last digits.
PIECE, PIECES = 500, 16


def can_be_reduced(Xt: Any, r: int) -> bool:
    """Return whether samples, shape (n, m), have many more dimensions than r components need."""
    return bool(min(Xt.shape) > WIDE * (r + MORE))


def reduced(Xt: Any, weights: Float, r: int, seed: int, parallel_map: ParallelMap = map) -> LowRank:
    """Return samples in the space of their r + 10 leading principal directions.

    Found by randomised subspace iteration (Halko, Martinsson and Tropp 2011).

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples, n and m larger than r + 10. Dense ones are worked on in their type.
    weights : array of shape (n,)
        Weight of each.
    r, seed : int
        Components, seed of the draws.
    parallel_map : callable
        As ``map``; it may run in threads.
    """
    parallel_map = parallel_map if is_here(Xt) else map  # other threads do not know where it is
    pieces = centred(Xt, weights, parallel_map)
    basis = to_host(principal_directions(pieces, r + MORE, seed, parallel_map))
    found = [*parallel_map(lambda piece: (to_host(piece.scores(basis)), to_host(piece.norms())), pieces)]
    scores, norms = (np.concatenate(each).astype(np.float64, copy=False) for each in zip(*found, strict=True))
    # A negative difference is rounding.
    return LowRank(scores, basis, pieces[0].mean, np.maximum(norms - squared_norms(scores), 0.0))


def centred(Xt: Any, weights: Float, parallel_map: ParallelMap = map) -> list[Piece]:
    """Return samples, shape (n, m), about their mean, in pieces; weights, shape (n,), are scaled to sum to one."""
    n, xp = Xt.shape[0], namespace(Xt)
    # Elsewhere all samples are worked on at once.
    edges = np.linspace(0, n, max(1, min(PIECES, n // PIECE) if is_here(Xt) else 1) + 1).astype(int)
    rows = [slice(i, j) for i, j in pairwise(edges.tolist())]
    dtype = np.dtype(np.float64) if sparse.issparse(Xt) or Xt.dtype != np.float32 else Xt.dtype
    own = xp.asarray(weights / weights.sum(), dtype)
    mean = _total(parallel_map(lambda part: own[part] @ Xt[part], rows))
    if sparse.issparse(Xt):
        return [Piece(Xt[part].astype(dtype), mean, own[part], mean) for part in rows]
    # In float32 the mean is not exact; what it lacks is found from the differences.
    about = mean.astype(dtype)
    less = [*parallel_map(lambda part: Xt[part] - about, rows)]
    lacking = _total(parallel_map(lambda part, each: own[part] @ each, rows, less)).astype(dtype)
    less = [*parallel_map(lambda each: np.subtract(each, lacking, out=each), less)]
    mean = np.asarray(to_host(about.astype(np.float64) + lacking))
    return [Piece(each, None, own[part], mean) for each, part in zip(less, rows, strict=True)]


def _total(arrays: Iterable[Any]) -> Any:
    """Return the sum of arrays of one kind in float64, in their order."""
    found = list(arrays)
    if len(found) == 1:
        return found[0].astype(np.float64)
    return np.asarray(np.sum(found, axis=0, dtype=np.float64))


def principal_directions(pieces: list[Piece], count: int, seed: int, parallel_map: ParallelMap = map) -> Any:
    """Return the leading principal directions, shape (m, count), orthonormal, by falling variance; where samples are.

    Nothing is brought here between two rounds: on a device a round would take as long as the way back and forth.
    """
    xp = namespace(pieces[0].Xt)
    directions = xp.asarray(np.random.default_rng(seed).standard_normal((len(pieces[0].mean), count)))
    some = _part_of(pieces, count, seed)
    for those in [some] * ROUNDS_OF_PART + [pieces] * ROUNDS if len(some) else [pieces] * (ROUNDS + 2):
        basis = xp.linalg.qr(directions)[0]
        directions = _total(parallel_map(lambda piece: piece.scattered(basis), those))  # noqa: B023
    basis, triangle = xp.linalg.qr(directions)
    return basis @ xp.asarray(np.linalg.svd(to_host(triangle))[0])


def _part_of(pieces: list[Piece], count: int, seed: int) -> list[Piece]:
    """Return a part of the samples that is enough for a rough estimate of directions; none if they are few."""
    n = sum(len(piece.weights) for piece in pieces)
    if n < ONE_IN * max(PART, EACH * count):
        return []
    rng = np.random.default_rng(seed + 1)
    return [piece.taken(np.flatnonzero(rng.random(len(piece.weights)) < 1.0 / ONE_IN)) for piece in pieces]


@dataclass(frozen=True)
class Piece:
    """Some samples about the mean of all. Sparse samples stay as they are, and the mean is subtracted from products.

    Attributes
    ----------
    Xt : array or CSR array of shape (n_i, m)
        The samples, less about the mean if they are dense.
    rest : array of shape (m,), optional
        What is still to be subtracted: the mean if they are sparse.
    weights : array of shape (n_i,), of the type of the samples, where they are
        Weight of each.
    mean : array of shape (m,)
        The mean of all samples.
    """

    Xt: Any
    rest: Float | None
    weights: NDArray[Any]
    mean: Float

    def taken(self, rows: NDArray[np.intp]) -> Piece:
        """Return some of the samples, by their positions."""
        rows = namespace(self.Xt).asarray(rows)
        return Piece(self.Xt[rows], self.rest, self.weights[rows], self.mean)

    def scores(self, basis: Any) -> NDArray[Any]:
        """Return the coordinates of the samples along the columns of a basis, shape (n_i, k)."""
        xp, dtype = namespace(self.Xt), self.weights.dtype
        with np.errstate(invalid="ignore"):  # see dbmd.engines._at_node
            found = self.Xt @ xp.asarray(basis, dtype)
        return xp.asarray(found if self.rest is None else found - (self.rest @ basis).astype(dtype))

    def scattered(self, basis: Any) -> NDArray[Any]:
        """Return the part of this piece in the covariance of all samples times a basis, shape (m, k)."""
        weighted = self.scores(basis) * self.weights[:, None]
        with np.errstate(invalid="ignore"):
            found = (weighted.T @ self.Xt).T
        return found if self.rest is None else found - np.outer(self.rest, weighted.sum(axis=0))

    def norms(self) -> NDArray[Any]:
        """Return the squared distances from the mean, shape (n_i,)."""
        found = squared_norms(self.Xt)
        if self.rest is not None:
            rest = self.rest.astype(self.weights.dtype)
            found = found - 2.0 * (self.Xt @ rest) + rest @ rest
        return namespace(self.Xt).asarray(found)
