"""Samples in the memory of a GPU: checked there, and left there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import DTypeLike

from dbmd.data.columns import computing_type
from dbmd.data.finite import Missing
from dbmd.data.source_labels import number_sources
from dbmd.dataset._arrays import InMemory, in_memory
from dbmd.dataset._finite import check_finite
from dbmd.engines._device_arrays import as_device_array, brought_here, device_of


def open_on_device(
    X: Any,
    *,
    source: Any = None,
    sample_weight: Any = None,
    dtype: DTypeLike | None = None,
    missing: Missing = "error",
    about: Mapping[str, Any] | None = None,
) -> InMemory:
    """Return arrays in the memory of a GPU as a dataset. Only sources and weights leave it.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (n, m), in the memory of a GPU
        The samples.
    source, sample_weight : array-like of shape (n,), optional
        The source of each sample, and how often it counts: arrays here or there.
    dtype : dtype, optional
        Type to compute with, float32 or float64; by default the narrowest that holds the numbers.
    missing : {"error", "allow", "drop"}
        What to do with missing values.
    about : dict, optional
        The columns that sources and weights come from.

    Raises
    ------
    ValueError, TypeError
        If X has no two dimensions, no samples, no features, or entries that are no finite numbers.
    """
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    Xt = as_device_array(X)
    if Xt.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {Xt.ndim}D array instead, of shape {tuple(Xt.shape)}. Samples are rows, features "
            "are columns: X.reshape(n_samples, -1)."
        )
    if not (Xt.shape[0] and Xt.shape[1]):
        what = "sample(s)" if Xt.shape[1] else "feature(s)"
        raise ValueError(f"Found array with 0 {what} (shape={tuple(Xt.shape)}) while a minimum of 1 is required.")
    n = Xt.shape[0]
    source_names, source_codes = (None, 0) if source is None else number_sources(brought_here(source), n)
    with device_of(Xt):
        if Xt.dtype.kind == "f":
            check_finite(Xt, missing)
        return in_memory(
            Xt,
            source_names,
            source_codes,
            names,
            brought_here(sample_weight),
            missing,
            about,
            dtype=None if dtype is None else computing_type([Xt.dtype], dtype),
        )
