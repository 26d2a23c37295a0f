"""Sources of samples in memory: labels of any kind, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbmd.data.recipe import as_array


def number_sources(source: ArrayLike | None, n: int) -> tuple[NDArray[Any], NDArray[np.intp] | int]:
    """Return the source names, sorted, and the source codes of the samples (one int if there is only one source)."""
    if source is None:
        return np.array([0]), 0
    values = as_array(source) if isinstance(source, list | tuple) else np.asarray(source)
    if isinstance(source, list | tuple) and len({type(label) for label in source}) > 1:
        values = np.array(source, dtype=object)  # else NumPy would convert all of them to text
    if values.shape != (n,):
        raise ValueError(
            f"source must have one label for each of the {n} samples, shape ({n},). Got shape {values.shape}."
        )
    if values.dtype.kind == "O":
        missing = [i for i, label in enumerate(values) if _is_missing(label)]
    else:
        missing = np.flatnonzero(values != values).tolist()
    if missing:
        raise ValueError(
            f"source must have no missing labels. Got {values[missing[0]]} for sample {missing[0]} "
            f"and {len(missing) - 1} more."
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise TypeError(
            "source must have labels of one kind that can be sorted. "
            f"Got {', '.join(sorted({type(v).__name__ for v in values.tolist()}))}."
        ) from None
    return labels, codes.astype(np.intp) if len(labels) > 1 else 0


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA has no truth value
        return True
