"""What a run of the benchmark was asked for."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "benchmarks" / "README.md"
GPU_PAGE = ROOT / "docs" / "gpu.md"
RESULTS = ROOT / "benchmarks" / "results"
CACHE = Path(tempfile.gettempdir()) / "dbmd-benchmarks"

Task = dict[str, Any]
Record = dict[str, Any]


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes
    ----------
    data : tuple of str
        Names of the data sets, see :mod:`benchmarks.sets`.
    methods : tuple of str
        Names of the methods, see :mod:`benchmarks.methods`.
    repeats : int
        Repetitions; the number of a repetition is its seed.
    quick : bool
        Small parts of the data, to see whether all runs: what it measures means nothing.
    threads : int
        For everything that is measured.
    full : bool
        The largest data as well: 100 GB for the GPU.
    cache : Path
        Folder of the prepared data.
    """

    data: tuple[str, ...]
    methods: tuple[str, ...]
    repeats: int = 3
    quick: bool = False
    threads: int = field(default_factory=available_cores)
    cache: Path = CACHE
    full: bool = False
