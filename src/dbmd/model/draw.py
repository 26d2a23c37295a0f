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

from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, squared_norms


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
    block = node.samples
    drawn = Draw.nothing(block.shape[1], take)
    for chunk in block.chunks():
        drawn = drawn.among(chunk.Xt, exponentials(seed, block.first_row + chunk.numbers))
    return node, drawn


@dataclass(frozen=True)
class Share:
    """A share of the samples, in pieces: adding does not copy them.

    Attributes
    ----------
    pieces : tuple of (numbers, source, Xt, weights)
        Numbers of some samples in the whole data, shape (k,), the source of them all, the samples, an array or CSR
        array of shape (k, m), and for how many each stands, shape (k,).
    """

    pieces: tuple[tuple[NDArray[np.intp], int, Any, Float], ...] = ()

    def __add__(self, other: Share) -> Share:
        return Share(self.pieces + other.pieces)

    def in_order(self) -> tuple[Any, NDArray[np.intp], Float]:
        """Return the samples, an array or CSR array of shape (n, m), n > 0, their sources and weights, shape (n,)."""
        numbers, sources, parts, weights = zip(*self.pieces, strict=True)
        order = np.argsort(np.concatenate(numbers))
        if any(map(sparse.issparse, parts)):
            Xt = sparse.vstack(parts, format="csr")[order]
            # From files they are wider, which scikit-learn does not take; of a share they are never so many.
            Xt.indices, Xt.indptr = Xt.indices.astype(np.int32), Xt.indptr.astype(np.int32)
        else:
            Xt = np.concatenate(parts)[order]
        return Xt, np.repeat(sources, [len(part) for part in numbers])[order], np.concatenate(weights)[order]


@dataclass(frozen=True)
class Moments:
    """How many samples a source has, where they are and how far apart. It adds.

    Attributes
    ----------
    n : int
        Number of samples.
    total : array of shape (m,)
        Their sum.
    squares : float
        Sum of ||x||^2.
    stored : int
        Numbers that are stored for them: of sparse ones, those that are not zero.
    largest : float
        The largest absolute value.
    """

    n: int
    total: Float
    squares: float
    stored: int
    largest: float

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            self.stored + other.stored,
            max(self.largest, other.largest),
        )

    def spread(self, about: Float) -> float:
        """Return the mean of ||x - about||^2; never less than rounding explains, far from zero."""
        squares = self.squares - 2.0 * float(about @ self.total) + self.n * float(about @ about)
        return max(squares, 1e-12 * self.squares) / self.n


def moments(node: Node) -> tuple[Node, PerSource[Moments]]:
    """Node: send the moments of each source."""
    found: PerSource[Moments] = PerSource()
    for chunk in node.samples.chunks():
        values = chunk.Xt.data if sparse.issparse(chunk.Xt) else chunk.Xt
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        with np.errstate(over="ignore", under="ignore"):  # the largest value tells
            total = np.asarray(chunk.Xt.sum(axis=0, dtype=np.float64)).ravel()
            squares = float(squared_norms(chunk.Xt).sum(dtype=np.float64))
        found += PerSource({chunk.source_code: Moments(chunk.Xt.shape[0], total, squares, int(values.size), largest)})
    return node, found


def check_magnitude(known: PerSource[Moments], dtype: np.dtype[Any]) -> None:
    """Raise a DataError if the squares of the numbers leave the range of a type, or come near to its ends."""
    largest = max(each.largest for each in known.values())
    limits = np.finfo(dtype)
    least, most = np.sqrt(float(limits.tiny) / float(limits.eps)), np.sqrt(float(limits.max) * float(limits.eps))
    if not largest or least <= largest <= most:
        return
    what = "small" if largest < least else "large"
    wider = ", or give them as float64" if dtype == np.float32 else ""
    raise DataError(
        f"The numbers of the data are too {what} for {dtype.name}: the largest absolute value must be 0 or between "
        f"{least:.0e} and {most:.0e}. Got {largest:.1e}. Multiply all by a constant{wider}."
    )


@dataclass(frozen=True)
class Chances:
    """How likely a sample is to be drawn: one half alike for all, one half by its squared distance from the mean.

    So the few samples far out, which decide where a simplex ends, are there too, and none stands for more than twice as
    many as in a plain draw (Bachem, Lucic and Krause 2018, lightweight coresets). A source gets its share of the draws,
    however far its noise spreads it.

    Attributes
    ----------
    share : float
        Part of the samples that is drawn, on average.
    mean : array of shape (m,)
        Of all samples.
    spread : dict of int to float
        The mean squared distance from there, for each source.
    """

    share: float
    mean: Float
    spread: dict[int, float]

    @classmethod
    def of(cls, known: PerSource[Moments], share: float) -> Chances:
        """Return the chances for data with given moments."""
        mean = np.sum([each.total for each in known.values()], axis=0) / sum(each.n for each in known.values())
        # A sum over nodes depends on their number in the last digits; who is drawn must not.
        mean = _to_four_digits(mean)
        return cls(share, mean, {c: float(_to_four_digits(each.spread(mean))) for c, each in known.items()})

    def at(self, Xt: Any, source: int) -> Float:
        """Return the probability of each of some samples of a source, shape (n,)."""
        if self.share >= 1.0:
            return np.ones(Xt.shape[0])
        if sparse.issparse(Xt):
            d2 = squared_norms(Xt) - 2.0 * (Xt @ self.mean) + self.mean @ self.mean
        else:
            d2 = squared_norms(Xt - self.mean.astype(Xt.dtype))
        far = d2 / self.spread[source] if self.spread[source] > 0.0 else np.ones(len(d2))
        return np.asarray(np.minimum(1.0, 0.5 * self.share * (1.0 + np.maximum(far, 0.0))), np.float64)


def draw_share(node: Node, *, seed: int, chances: Chances) -> tuple[Node, Share]:
    """Node: send each sample with its probability, whatever other nodes do."""
    drawn = Share()
    for chunk in node.samples.chunks():
        numbers = node.samples.first_row + chunk.numbers
        p = chances.at(chunk.Xt, chunk.source_code)
        own = np.flatnonzero(-np.expm1(-exponentials(seed, numbers)) < p)
        if len(own):
            drawn += Share(((numbers[own], chunk.source_code, chunk.Xt[own], 1.0 / p[own]),))
    return node, drawn


def _to_four_digits(x: Any) -> Any:
    digits, exponent = np.frexp(x)
    return np.ldexp(np.round(digits, 4), exponent)


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
