"""Tables in memory, of pandas, polars, pyarrow and others: columns that are named as source or weight are no features.

Libraries of tables are recognised by what their tables can do, and never imported here: a table that is passed has
loaded its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.columns import check_known

TABLE = "The table"  # in messages


@dataclass(frozen=True)
class Given:
    """Samples as they were given, with sources and weights as arrays.

    Attributes
    ----------
    X : array-like or table of shape (n, m)
        The features.
    source, sample_weight : array-like of shape (n,), optional
        Sources and weights.
    about : dict, optional
        The names of the columns that they come from.
    """

    X: Any
    source: Any
    sample_weight: Any
    about: dict[str, Any] | None = None


def split_columns(X: Any, source: Any, sample_weight: Any, as_in_fit: dict[str, Any] | None = None) -> Given:
    """Take the columns that are named as source and weight out of a table.

    Parameters
    ----------
    X : array-like or table of shape (n, m)
        The samples.
    source, sample_weight : array-like of shape (n,) or str, optional
        Sources and weights, or the columns that have them.
    as_in_fit : dict, optional
        The names of the columns of the fit: where the table has them they are taken, unless something else is given,
        and are no features in any case.

    Raises
    ------
    ValueError
        If a column is named that is not there.
    """
    names, asked = column_names(X), {"source": source, "sample_weight": sample_weight}
    about = {role: name for role, name in asked.items() if isinstance(name, str)}
    if names is None:
        for role, name in about.items():
            raise ValueError(
                f"{role}={name!r} is the name of a column, and {type(X).__name__} has no columns with names: pass a "
                "DataFrame, or a value for each sample."
            )
        return Given(X, source, sample_weight)
    for name in about.values():
        check_known(name, names, TABLE)
    before = {role: name for role, name in (as_in_fit or {}).items() if role in asked and name in names}
    for role, name in (before | about).items():
        if asked[role] is None or role in about:
            asked[role] = column(X, name)
    left_out = {*before.values(), *about.values()}
    return Given(
        _without(X, left_out) if left_out else X, asked["source"], asked["sample_weight"], (before | about) or None
    )


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns of a table; None if it is not one, or its columns have no names."""
    names = getattr(X, "column_names", None)  # pyarrow
    if names is None or callable(names):
        names = getattr(X, "columns", None)  # pandas, polars, and what is like them
    if names is None or callable(names) or not hasattr(X, "__getitem__"):
        return None
    found = list(names)
    return found if any(isinstance(name, str) for name in found) else None


def column(X: Any, name: str) -> NDArray[Any]:
    """Return a column of a table, shape (n,)."""
    values = X[name]
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def text_column(X: Any) -> tuple[str, Any] | None:
    """Return the first column of a table that does not hold numbers, and its first value that is none."""
    for name in column_names(X) or ():
        values = column(X, name)
        if values.dtype.kind not in "biuf":
            for value in values.tolist():
                try:
                    float(value)
                except (TypeError, ValueError):
                    if value is not None:
                        return name, value
    return None


def _without(X: Any, names: set[str]) -> Any:
    if hasattr(X, "drop_columns"):  # pyarrow
        return X.drop_columns(sorted(names))
    if hasattr(X, "loc"):  # pandas, and Dask's like it; its drop takes rows unless it is told otherwise
        return X.drop(columns=sorted(names))
    return X.drop(sorted(names))
