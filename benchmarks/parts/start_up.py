"""Imports and the first fit, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.plan import Plan, Record, Task

TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
CODE = {
    "import dbmd": TIMED.format("import dbmd"),
    "from dbmd import DBMD": TIMED.format("from dbmd import DBMD"),
    "first fit of a process, kernels in the disk cache": (
        "import numpy as np, time; from dbmd import DBMD; X = np.random.default_rng(0).random((100, 5));"
        "t = time.perf_counter(); DBMD(2, max_iter=5, tol=1.0).fit(X); print(time.perf_counter() - t)"
    ),
}


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each repetition and thing to start."""
    return [{"what": what, "seed": seed} for seed in range(plan.repeats) for what in CODE]


def run(task: Task) -> Record:
    """Return its seconds."""
    command = [sys.executable, "-c", CODE[task["what"]]]
    subprocess.run(command, check=True, capture_output=True)  # brings the files into the page cache
    return {"seconds": float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)}
