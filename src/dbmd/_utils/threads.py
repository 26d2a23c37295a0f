"""Limits on the threads of BLAS and OpenMP: nodes run in parallel already, and two levels would compete."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


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
