"""Drawing samples at random, in a pass over the nodes.

Randomness is keyed by the number of the sample in the whole data, so one seed draws the same samples, however they are
cut into nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.model.node import Node
from dbmd.model.statistics import Float


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
class Share:
    """A share of the samples, in pieces: adding does not copy them.

    Attributes
    ----------
    pieces : tuple of (numbers, source, Xt)
        Numbers of some samples in the whole data, shape (k,), the source of them all, and the samples, an array or CSR
        array of shape (k, m).
    """

    pieces: tuple[tuple[NDArray[np.intp], int, Any], ...] = ()

    def __add__(self, other: Share) -> Share:
        return Share(self.pieces + other.pieces)

    def in_order(self) -> tuple[Any, NDArray[np.intp]]:
        """Return the samples, float64 or CSR of shape (n, m), n > 0, and their sources, shape (n,), by their number."""
        numbers, sources, parts = zip(*self.pieces, strict=True)
        order = np.argsort(np.concatenate(numbers))
        if any(map(sparse.issparse, parts)):
            Xt = sparse.vstack(parts, format="csr")[order]
            # From files they are wider, which scikit-learn does not take; of a share they are never so many.
            Xt.indices, Xt.indptr = Xt.indices.astype(np.int32), Xt.indptr.astype(np.int32)
        else:
            Xt = np.concatenate(parts)[order]
        return Xt.astype(np.float64, copy=False), np.repeat(sources, [len(part) for part in numbers])[order]


def draw_share(node: Node, *, seed: int, share: float) -> tuple[Node, Share]:
    """Node: send each sample with a probability, so that a node sends its share, whatever the others have."""
    drawn, bound = Share(), -np.log1p(-share) if share < 1.0 else np.inf
    for chunk in node.block.chunks():
        numbers = node.block.first_row + chunk.numbers
        own = np.flatnonzero(exponentials(seed, numbers) < bound)
        if len(own):
            drawn += Share(((numbers[own], chunk.source, chunk.Xt[own]),))
    return node, drawn


@dataclass(frozen=True)
class Size:
    """How much data there is: n samples of m features. It adds."""

    n: int
    m: int

    def __add__(self, other: Size) -> Size:
        return Size(self.n + other.n, self.m)


def count(node: Node) -> tuple[Node, Size]:
    """Node: send the shape of its block."""
    return node, Size(*node.block.shape)


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
