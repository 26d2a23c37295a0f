"""The names of the files of a saved model. What each of them holds stands in :mod:`dbmd.saved`."""

from __future__ import annotations

from pathlib import Path

MODEL = "model.json"
ARRAYS = "arrays.npz"
REPORT = "report.html"
MAP = "map.npz"
SPARK_METADATA = "metadata/part-00000"  # where pyspark.ml looks for it

# All that may be in a model directory. One that holds anything else is not overwritten.
OWNED = frozenset({MODEL, ARRAYS, REPORT, MAP, SPARK_METADATA})


def checkpoint_path(directory: Path) -> Path:
    """Return the file beside a model directory that has the state of a fit."""
    return directory.with_name(f"{directory.name}.checkpoint")


def lock_path(directory: Path) -> Path:
    """Return the file beside a model directory that says which process writes it."""
    target = directory.resolve()  # the same by whatever link it is reached
    return target.with_name(f"{target.name}.lock")
