"""Checks of the columns of a DataFrame, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DoubleType, FloatType


def check_is_there(dataset: DataFrame, name: str, param: str) -> None:
    """Raise a ValueError if a DataFrame has no such column.

    Parameters
    ----------
    dataset : DataFrame
        The data.
    name : str
        Of the column.
    param : str
        The Param that names it.
    """
    if name not in dataset.columns:
        raise ValueError(f"There is no column {name!r} ({param}). The columns are: {', '.join(dataset.columns)}.")


def check_features(dataset: DataFrame, name: str) -> None:
    """Raise a ValueError if a DataFrame has no column of samples of this name."""
    check_is_there(dataset, name, "featuresCol")
    kind = dataset.schema[name].dataType
    is_array = isinstance(kind, ArrayType) and isinstance(kind.elementType, FloatType | DoubleType)
    if not is_array and not isinstance(kind, VectorUDT):
        raise ValueError(
            f"The column {name!r} (featuresCol) must hold vectors, array<float> or array<double>. "
            f"Got {kind.simpleString()}. To put columns of numbers together, use pyspark.ml.feature.VectorAssembler."
        )


def check_new(dataset: DataFrame, name: str, others: Sequence[str]) -> None:
    """Raise a ValueError if a column cannot be added because there is one of that name."""
    existing = [*dataset.columns, *others]
    if dataset.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        existing, found = [other.lower() for other in existing], name.lower()
    else:
        found = name
    if found in existing:
        raise ValueError(
            f"The DataFrame has a column {name!r} already. Drop it, or choose another name for what is added: "
            "setPredictionCol, setProbabilityCol ('' adds none)."
        )
