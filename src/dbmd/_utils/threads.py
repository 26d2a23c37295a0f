"""How many threads to use, and limits on those of BLAS and OpenMP: nodes run in parallel already."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def available_threads() -> int:
    """Return the number of threads to use: DBMD_NUM_THREADS, else the CPUs that this process may run on."""
    asked = os.environ.get("DBMD_NUM_THREADS")
    if asked:
        return max(1, int(asked))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


def one_thread() -> Any:
    """Return a context in which BLAS and OpenMP use one thread: with several, sums depend on their order."""
    return _controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, a round of a solver perhaps microseconds. So the search is
    # repeated only after further imports: SciPy has a BLAS of its own, which is often loaded later.
    return ThreadpoolController()
