"""Drawing samples at random, in a pass over the nodes.

Random numbers are keyed by the row number of a sample in the whole data. So one seed draws the same samples, however
the data are divided into nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import dense_here, is_here, is_sparse, namespace, to_host
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.model.statistics import Float, PerSource, squared_norms
from dbmd.registry import load_kernel

PIECE = 1 << 25  # entries of samples elsewhere whose distances are found at a time
JOINED = 100_000_000  # most entries of drawn samples that wait for others where they are
_Piece = tuple[Any, int, Any, Any]  # samples of one source, see DrawnSamples


@dataclass(frozen=True)
class Draw:
    """The samples with the smallest keys. Adding two draws keeps the smallest of both.

    If the key of sample i is an exponential variable divided by a weight w_i, the samples with the ``take`` smallest
    keys are a weighted sample without replacement (Efraimidis and Spirakis 2006). No node needs the sum of the weights.

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
        """Return a draw from no samples of m features."""
        return cls(np.zeros(0), np.zeros((0, m)), take)

    def among(self, Xt: Any, keys: Float) -> Draw:
        """Return the draw from these samples and more: Xt of shape (n, m), with their keys, shape (n,)."""
        first = np.argsort(keys, kind="stable")[: self.take]
        bound = self.keys[-1] if 0 < len(self.keys) == self.take else np.inf
        first = first[keys[first] < bound]
        if not len(first):
            return self
        return self + Draw(to_host(keys[first]), dense_here(Xt[first]), self.take)

    def __add__(self, other: Draw) -> Draw:
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[: self.take]
        return Draw(keys[first], np.concatenate([self.Xt, other.Xt])[first], self.take)


def draw_uniform(node: Node, *, seed: int, take: int) -> tuple[Node, Draw]:
    """Node: draw samples with equal probabilities, or in proportion to their weights."""
    block = node.samples
    drawn = Draw.nothing(block.shape[1], take)
    for chunk in block.chunks():
        keys = exponentials(seed, block.first_row + chunk.numbers)
        drawn = drawn.among(chunk.Xt, keys if chunk.weights is None else keys_by_weight(keys, chunk.weights))
    return node, drawn


def keys_by_weight(exponential: Float, weights: Float) -> Float:
    """Return the keys of samples for :class:`Draw`, shape (n,): infinite for a weight of zero, which is not drawn."""
    is_there = weights > 0.0
    return np.where(is_there, exponential / np.where(is_there, weights, 1.0), np.inf)


@dataclass(frozen=True)
class DrawnSamples:
    """Some of the samples, in pieces of one source each: adding does not copy them.

    Attributes
    ----------
    pieces : tuple of (numbers, source_code, Xt, weights)
        Row numbers in the whole data, shape (k,), the source of all, the samples, an array or CSR array of shape
        (k, m), and for how many samples each stands, shape (k,). Dense samples are where they were drawn.
    has_gaps : bool
        Whether an entry is missing.
    """

    pieces: tuple[_Piece, ...] = ()
    has_gaps: bool = False

    def __add__(self, other: DrawnSamples) -> DrawnSamples:
        if not self.pieces or not other.pieces:
            return self if self.pieces else other
        return DrawnSamples(self.pieces + other.pieces, self.has_gaps or other.has_gaps)

    def here(self) -> DrawnSamples:
        """Return the samples as arrays of NumPy or SciPy."""
        return replace(self, pieces=tuple((rows, code, to_host(Xt), w) for rows, code, Xt, w in self.pieces))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.here())

    def in_order(self, *, anywhere: bool = False) -> tuple[Any, NDArray[np.intp], Float]:
        """Return the samples in the order of their rows.

        Parameters
        ----------
        anywhere : bool
            Whether samples without gaps may stay where they were drawn, if they are of one piece; by default they are
            brought here.

        Returns
        -------
        Xt : array or CSR array of shape (n, m)
            The samples, at least one.
        source_codes : array of int of shape (n,)
            Their sources.
        weights : array of shape (n,)
            For how many samples each stands.
        """
        numbers, sources, parts, weights = zip(*self.pieces, strict=True)
        if not anywhere or len(parts) > 1 or self.has_gaps or (numbers[0][1:] < numbers[0][:-1]).any():
            parts = tuple(map(to_host, parts))
        is_sparse = any(map(sparse.issparse, parts))
        Xt: Any = (
            sparse.vstack(parts, format="csr") if is_sparse else parts[0] if len(parts) == 1 else np.concatenate(parts)
        )
        codes = np.repeat(sources, [len(part) for part in numbers])
        rows, of_each = np.concatenate(numbers), np.concatenate(weights)
        if (rows[1:] < rows[:-1]).any():  # else they are in order, and a copy would take as long as all the rest
            order = np.argsort(rows)
            Xt, codes, of_each = Xt[order], codes[order], of_each[order]
        if is_sparse:  # indices from files are of 64 bits, which scikit-learn refuses; drawn samples never need so many
            Xt.indices, Xt.indptr = Xt.indices.astype(np.int32), Xt.indptr.astype(np.int32)
        return Xt, codes, of_each


@dataclass(frozen=True)
class Moments:
    """Number, sum and squares of the samples of a source. It adds.

    Attributes
    ----------
    n : int or float
        Number of samples; where they are weighted, the sum of the weights.
    total : array of shape (m,)
        Their sum, each times its weight.
    squares : float
        Sum of ||x||^2, each times its weight.
    stored : int
        Number of entries that are stored for them; zeros of sparse samples are not.
    largest : float
        The largest absolute value.
    rows : int
        Number of samples whose weight is not zero.
    """

    n: float
    total: Float
    squares: float
    stored: int
    largest: float
    rows: int

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            self.stored + other.stored,
            max(self.largest, other.largest),
            self.rows + other.rows,
        )

    def mean_square(self, about: Float) -> float:
        """Return the mean of ||x - about||^2 over the samples, at least 1e-12 of that about zero (rounding)."""
        squares = self.squares - 2.0 * float(about @ self.total) + self.n * float(about @ about)
        return max(squares, 1e-12 * self.squares) / self.n


def moments(node: Node) -> tuple[Node, PerSource[Moments]]:
    """Node: send the moments of each source."""
    found: PerSource[Moments] = PerSource()
    kernel = load_kernel(node.samples.kernel)
    for chunk in node.samples.chunks():
        Xt, weights = chunk.Xt, chunk.weights
        if weights is not None and not weights.all():  # a sample without weight is as if it were not there
            counted = np.flatnonzero(weights > 0.0)
            Xt, weights = Xt[counted], weights[counted]
        rows = Xt.shape[0]
        if not rows:
            continue
        values = Xt.data if is_sparse(Xt) else Xt
        largest = max(float(values.max()), -float(values.min()), 0.0) if values.size else 0.0
        with np.errstate(over="ignore", under="ignore"):  # the largest value shows it
            sums = kernel.Sums(Xt.shape[1], 1, Xt.dtype)
            sums.add(Xt, namespace(Xt).ones((rows, 1), Xt.dtype), weights, norms=True)
            total = sums.total()
            squares = float(total.squares.sum())
        own = Moments(total.n, total.totals, squares, int(values.size), largest, rows)
        found += PerSource({chunk.source_code: own})
    return node, found


def check_magnitude(known: PerSource[Moments], dtype: np.dtype[Any]) -> None:
    """Raise a DataError if the squares of the data leave the range of a type, or come near to its ends."""
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
    """The probability of each sample to be drawn: one half uniform, one half by its squared distance from the mean.

    So the few samples far out, which decide where a simplex ends, are drawn too, and no sample stands for more than
    twice as many as in a uniform draw (Bachem, Lucic and Krause 2018, lightweight coresets). Distances are relative to
    the mean of the source: the same fraction of each source is drawn, whatever its noise. Where samples have weights,
    the probability is in proportion to them.

    Attributes
    ----------
    fraction : float
        Fraction of the samples that is drawn, on average.
    mean : array of shape (m,)
        Of all samples.
    mean_squares : dict of int to float
        For each source the mean squared distance from there.
    mean_weight : float
        Mean weight of the samples.
    """

    fraction: float
    mean: Float
    mean_squares: dict[int, float]
    mean_weight: float = 1.0

    @classmethod
    def of(cls, known: PerSource[Moments], fraction: float) -> Chances:
        """Return the probabilities for data with given moments."""
        n = sum(each.n for each in known.values())
        mean = np.sum([each.total for each in known.values()], axis=0) / n
        mean_squares = {c: float(each.mean_square(mean)) for c, each in known.items()}
        rows = sum(each.rows for each in known.values())
        return cls(fraction, mean, mean_squares, n / rows)

    def at(self, Xt: Any, source_code: int, weights: Float | None = None) -> Float:
        """Return the probabilities of samples of one source, with weights of shape (n,) or none; shape (n,)."""
        xp = namespace(Xt)
        if self.fraction >= 1.0:
            return xp.ones(Xt.shape[0]) if weights is None else np.sign(weights)
        if is_sparse(Xt):
            d2 = squared_norms(Xt) - 2.0 * (Xt @ xp.asarray(self.mean)) + self.mean @ self.mean
        else:
            d2 = _squared_distances(Xt, xp.asarray(self.mean, Xt.dtype))
        mean_square = self.mean_squares.get(source_code, 0.0)  # a source without weight has none
        far = d2 / mean_square if mean_square > 0.0 else np.ones_like(d2)
        chance = 0.5 * self.fraction * (1.0 + np.maximum(far, 0.0))
        if weights is not None:
            chance = chance * weights / self.mean_weight
        return np.minimum(1.0, chance).astype(np.float64, copy=False)


def _squared_distances(Xt: Any, point: Any) -> Any:
    """Return the squared distances of dense samples, shape (n, m), from a point, shape (m,); shape (n,)."""
    if is_here(Xt):  # a chunk that fits into cache
        return squared_norms(Xt - point)
    # In pieces: the differences of all would take as much memory as the samples.
    step = max(1, PIECE // max(1, Xt.shape[1]))
    pieces = [squared_norms(Xt[i : i + step] - point) for i in range(0, Xt.shape[0], step)]
    return namespace(Xt).concatenate(pieces) if pieces else squared_norms(Xt)


@dataclass(frozen=True)
class EvenChances:
    """The probability of each sample to be drawn: the same for all of a source, or in proportion to their weights.

    Attributes
    ----------
    fractions : dict of int to float
        For each source the fraction of its samples that is drawn, on average.
    mean_weights : dict of int to float
        For each source the mean weight of its samples.
    """

    fractions: dict[int, float]
    mean_weights: dict[int, float]

    @classmethod
    def of(cls, known: PerSource[Moments], fraction: float, least: int) -> EvenChances:
        """Return the probabilities for a fraction of the samples, but at least so many of each source."""
        fractions = {c: min(1.0, max(fraction, least / each.rows)) for c, each in known.items()}
        return cls(fractions, {c: each.n / each.rows for c, each in known.items()})

    def at(self, Xt: Any, source_code: int, weights: Float | None = None) -> Float:
        """Return the probabilities of samples of one source, with weights of shape (n,) or none; shape (n,)."""
        fraction = self.fractions.get(source_code, 0.0)  # a source without weight has none
        if weights is None:
            return namespace(Xt).full(Xt.shape[0], fraction)
        if fraction >= 1.0:
            return np.sign(weights)
        return np.minimum(1.0, fraction * weights / self.mean_weights.get(source_code, 1.0))


def draw_fraction(node: Node, *, seed: int, chances: Chances | EvenChances) -> tuple[Node, DrawnSamples]:
    """Node: draw each sample with its probability, independently of all others. Missing entries are NaN again.

    A drawn sample stands for its weight over its probability.
    """
    drawn = DrawnSamples()
    for each in _in_few(_drawn(node, seed, chances)):
        # Only samples of one piece may stay elsewhere: others would take memory there until they are put in order here.
        if len(drawn.pieces) == 1:
            drawn = drawn.here()
        drawn += each.here() if drawn.pieces else each
    return node, drawn


def _drawn(node: Node, seed: int, chances: Chances | EvenChances) -> Iterator[_Piece]:
    """Yield the samples that are drawn, chunk by chunk, as arrays of the kind of the chunks."""
    for chunk in node.samples.chunks():
        numbers = node.samples.first_row + chunk.numbers
        p = chances.at(chunk.Xt, chunk.source_code, chunk.weights)
        own = np.flatnonzero(uniforms(seed, numbers) < p)
        if len(own):
            Xt = chunk.Xt[own]
            if chunk.gaps is not None:
                Xt[chunk.gaps[own]] = np.nan
            yield numbers[own], chunk.source_code, Xt, (1.0 if chunk.weights is None else chunk.weights[own]) / p[own]


def _in_few(pieces: Iterable[_Piece]) -> Iterator[DrawnSamples]:
    """Yield the same samples in fewer pieces: those elsewhere are joined there, where that takes no time."""
    waiting: list[_Piece] = []
    for piece in pieces:
        _, source_code, Xt, _ = piece
        size = sum(other.size for _, _, other, _ in waiting) + Xt.size
        is_apart = any(is_here(each) or is_sparse(each) for each in (Xt, *(other for _, _, other, _ in waiting)))
        if waiting and (is_apart or source_code != waiting[0][1] or size > JOINED):
            yield _joined(waiting)
            waiting = []
        waiting.append(piece)
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[_Piece]) -> DrawnSamples:
    """Return samples of one source as one piece."""
    numbers, sources, Xt, weights = zip(*pieces, strict=True)
    concatenate = namespace(Xt[0]).concatenate
    numbers, Xt, weights = (each[0] if len(each) == 1 else concatenate(each) for each in (numbers, Xt, weights))
    has_gaps = not is_sparse(Xt) and bool(np.isnan(Xt.sum()))
    Xt = to_host(Xt) if is_sparse(Xt) else Xt
    return DrawnSamples(((to_host(numbers), sources[0], Xt, to_host(weights)),), has_gaps)


def exponentials(seed: int, rows: NDArray[np.integer]) -> Float:
    """Return a standard exponential variable for each row number, which depends on the seed and the number only."""
    return -np.log1p(-uniforms(seed, rows))


def uniforms(seed: int, rows: NDArray[np.integer]) -> Float:
    """Return a number from [0, 1) for each row number, which depends on the seed and the number only.

    SplitMix64 (Steele, Lea and Flood 2014) of the row number, with another stream for each seed.
    """
    with np.errstate(over="ignore"):
        z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + _mixed(np.uint64(seed))
        raw = _mixed(z)
    return (raw >> np.uint64(11)) * 2.0**-53


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
