"""Weights of samples: for how many samples each stands. They are finite, not negative, and not all zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbmd.data.row_labels import RowLabels
from dbmd.errors import DataError

ALL_ZERO = "All weights of samples are zero, so that no sample is left to fit."
NOTHING_LEFT = "No sample is left: each has a missing entry, and is left out, or a weight of zero."


def check_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """Return the weights of n samples in memory, shape (n,); None if none are given.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), optional
        For how many samples each stands.
    n : int
        Number of samples.

    Raises
    ------
    ValueError, TypeError
        If they are not n finite numbers >= 0, some of them > 0.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.array(sample_weight, np.float64)  # a copy: the caller may change theirs
    except (TypeError, ValueError):
        raise TypeError(f"sample_weight must be numbers. Got {type(sample_weight).__name__}.") from None
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have one number for each of the {n} samples, shape ({n},). Got shape {weights.shape}."
        )
    row = first_bad(weights)
    if row is not None:
        raise ValueError(f"sample_weight must be finite and not negative. Got {weights[row]} for sample {row}.")
    if n and not weights.any():
        raise ValueError(ALL_ZERO)
    return weights


def first_bad(weights: NDArray[np.float64]) -> int | None:
    """Return the number of the first weight of shape (n,) that is negative, NaN or infinite; None if there is none."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
    return int(bad[0]) if len(bad) else None


def weights_in(column: Any, labels: RowLabels, row: int, name: str) -> NDArray[np.float64]:
    """Return a column of Arrow as weights, shape (n,).

    Raises a DataError that names the first row that has none, or one that is negative or not finite.

    Parameters
    ----------
    column : pyarrow.Array of length n
        Numbers, or text that holds numbers, as csv files do.
    labels : RowLabels
        How error messages name the rows.
    row : int
        Number of the first row, for error messages.
    name : str
        Name of the column, for error messages.
    """
    weights, texts = _numbers(column, labels, name)
    bad = first_bad(weights)
    if bad is not None:
        got = "empty or NaN" if np.isnan(weights[bad]) else str(weights[bad])
        if texts is not None:
            got = repr(texts[bad]) if texts[bad] else "empty"
        raise DataError(
            f"{labels.location}: {labels.where(row + bad)}, column {name!r} is {got}. Weights of samples must be "
            "finite numbers that are not negative."
        )
    return weights


def _numbers(column: Any, labels: RowLabels, name: str) -> tuple[NDArray[np.float64], list[Any] | None]:
    """Return a column as numbers, NaN where there is none, and as text if it is text."""
    import pyarrow as pa

    from dbmd.data.formats._arrow import number_type, to_numbers

    if number_type(column.type) is not None:
        return np.asarray(to_numbers(column), np.float64), None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_null(column.type)):
        raise DataError(f"{labels.location}: column {name!r} does not hold weights of samples ({column.type}).")
    texts = column.to_pylist()
    return np.array([_number(text) for text in texts], np.float64), texts


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return np.nan


def weight_hashes(weights: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each weight, shape (n,), for the fingerprint of the data."""
    return (weights + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
