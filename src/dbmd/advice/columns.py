"""What is odd about the columns of a sample: one that outweighs all others, and identifiers.

A fit draws a sample anyway, so looking at it takes no pass over the data. Its samples far from the mean are drawn with
certainty, so it shows which feature has the variance; it is in the order of the rows, so it shows what rises from row
to row; and values that are all different in it are so, with few exceptions, in all data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import dense_here, is_here, namespace, to_host
from dbmd.model.statistics import Float

ENOUGH = 50  # samples: among fewer, values may all differ or rise by chance
GLANCE = 64  # samples: the first so many rule out almost all columns
COINCIDENCES = 5.0  # expected ones: where there is none, whole numbers in a range differ on purpose
WIDER = 10.0  # by how much the range of an identifier exceeds that of other whole numbers, if few would coincide
AT_ONCE, PIECE = 1 << 20, 1 << 17  # entries that are looked at together, of few columns and of all

AsGiven = Callable[[Float, NDArray[np.intp]], Float]


@dataclass(frozen=True)
class Columns:
    """What was found in the columns of a sample.

    Attributes
    ----------
    leading : int
        The feature with the largest variance.
    fraction : float
        Its fraction of the variance of all features.
    is_alone : bool
        Whether all other features are constant.
    rising : tuple of int
        Features whose values rise, or fall, from row to row.
    distinct : tuple of int
        Further features of whole numbers that all differ.
    """

    leading: int
    fraction: float
    is_alone: bool
    rising: tuple[int, ...] = ()
    distinct: tuple[int, ...] = ()


def look_at(
    Xt: Any,
    source_codes: NDArray[np.intp],
    weights: Float,
    as_given: AsGiven = lambda values, columns: values,
) -> Columns:
    """Return what is odd about the columns of a sample.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples as they are fitted, in the order of their rows. Dense ones may be of another kind than NumPy's.
    source_codes : array of int of shape (n,)
        Their sources.
    weights : array of shape (n,)
        For how many samples each stands.
    as_given : callable
        Returns values of some columns, shape (n, k), in the units of the data; the columns come second.
    """
    spread = variances(Xt, weights)
    leading, total = int(np.argmax(spread)), float(spread.sum())
    fraction = float(spread[leading]) / total if total > 0.0 else 0.0
    rising, distinct = _identifiers(Xt, source_codes, as_given)
    return Columns(leading, fraction, int((spread > 0.0).sum()) <= 1, rising, distinct)


def _identifiers(Xt: Any, source_codes: NDArray[np.intp], as_given: AsGiven) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the features that rise from row to row, and further ones of whole numbers that differ on purpose."""
    order = np.argsort(source_codes, kind="stable")
    is_next = np.diff(source_codes[order]) == 0  # pairs of rows of one source
    if is_next.sum() < ENOUGH - 1:
        return (), ()
    everything = np.arange(Xt.shape[1])
    first = as_given(dense_here(Xt[namespace(Xt).asarray(order[:GLANCE])]), everything)
    rising = _confirmed(
        everything[_is_rising(first, is_next[: GLANCE - 1])], Xt, lambda values, _: _is_rising(values[order], is_next)
    )
    whole = np.setdiff1d(everything[_is_whole(first)], rising)
    found = whole[_differ(first[:, whole])]
    found = _confirmed(found, Xt, lambda values, columns: _is_whole(as_given(values, columns)) & _differ(values))
    # Counts that go into the thousands may all differ by chance. They are told from identifiers by the number of
    # coincidences to expect in their range, or else by the other features, which are then counts of the same kind.
    n = Xt.shape[0]
    ranges = {j: float(np.ptp(as_given(_columns(Xt, np.array([j])), np.array([j])))) for j in found.tolist()}
    dense = [j for j in ranges if n**2 / (2.0 * (ranges[j] + 1.0)) >= COINCIDENCES]
    if not dense and len(found) == 1:
        others = np.ptp(first[:, np.setdiff1d(whole, found)], axis=0).max(initial=0.0)
        dense = [j for j in ranges if ranges[j] > WIDER * others]
    return tuple(rising.tolist()), tuple(dense)


def variances(Xt: Any, weights: Float) -> Float:
    """Return the variance of each feature, shape (m,); 0 where it is rounding.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        Samples. Dense ones may be of another kind than NumPy's.
    weights : array of shape (n,)
        For how many samples each stands.
    """
    fractions = weights / weights.sum()
    if sparse.issparse(Xt):
        mean = np.asarray(Xt.T @ fractions)
        return np.maximum(np.asarray(Xt.multiply(Xt).T @ fractions) - mean**2, 0.0)
    if is_here(Xt):
        mean, squares = _moments_by_piece(Xt, fractions)
    else:
        wide, own = Xt.astype(np.float64), namespace(Xt).asarray(fractions)
        about = own @ wide
        mean, squares = to_host(about), to_host(own @ np.square(wide - about))
    rounding = np.square(10.0 * float(np.finfo(Xt.dtype).eps) * mean)
    return np.where(squares > rounding, squares, 0.0)


def _moments_by_piece(Xt: Any, fractions: Float) -> tuple[Float, Float]:
    """Return mean and variance of each feature, shape (m,), of dense samples here.

    Piece by piece in the type of the samples: copies of all of them would take longer than the sums.
    """
    (n, m), dtype = Xt.shape, Xt.dtype
    size = max(1, PIECE // m)
    pieces = [slice(i, i + size) for i in range(0, n, size)]
    own = fractions.astype(dtype)
    mean, squares = np.zeros((2, m))
    for rows in pieces:
        mean += own[rows] @ Xt[rows]
    for rows in pieces:
        squares += own[rows] @ np.square(Xt[rows] - mean.astype(dtype))
    return mean, squares


def _confirmed(columns: NDArray[np.intp], Xt: Any, holds: Callable[[Float, Any], Any]) -> NDArray[np.intp]:
    """Return those of some columns of which a condition holds; it gets their values, and which columns they are."""
    size = max(1, AT_ONCE // Xt.shape[0])
    some = [columns[i : i + size] for i in range(0, len(columns), size)]
    return np.concatenate([columns[:0], *(part[holds(_columns(Xt, part), part)] for part in some)])


def _is_rising(values: Float, is_next: NDArray[np.bool_]) -> NDArray[np.bool_]:
    steps = np.diff(values, axis=0)[is_next]
    return np.asarray((steps > 0.0).all(axis=0) | (steps < 0.0).all(axis=0))


def _is_whole(values: Float) -> NDArray[np.bool_]:
    return np.asarray((values == np.rint(values)).all(axis=0))


def _differ(values: Float) -> NDArray[np.bool_]:
    return np.asarray((np.diff(np.sort(values, axis=0), axis=0) > 0.0).all(axis=0))


def _columns(Xt: Any, columns: NDArray[np.intp]) -> Float:
    return dense_here(Xt[:, namespace(Xt).asarray(columns)])
