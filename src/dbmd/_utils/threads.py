"""Holding the threads of BLAS and OpenMP: the nodes are the parallelism, and two levels of it would fight."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """Hold BLAS to one thread, as a context."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


def one_thread() -> Any:
    """Hold BLAS and, for whoever asks, OpenMP to one thread, as a context: several add in an order of their own."""
    return _controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds; a round of a solver may take microseconds. So it is done
    # again only when modules were imported: SciPy brings a BLAS of its own, often after the first question.
    return ThreadpoolController()
