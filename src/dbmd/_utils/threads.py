"""How many threads to use, and limits on those of BLAS and OpenMP: nodes run in parallel already."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Return a context in which BLAS uses one thread, in all threads of this process."""
    _limit.begin()
    try:
        yield
    finally:
        _limit.end()


class _Limit:
    """The limit on BLAS, which is one for the whole process.

    It is set by the first context and lifted by the last one: contexts of several threads may overlap, and those within
    others cost next to nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._n_modules = 0, 0
        self._set: list[Any] = []

    def begin(self) -> None:
        """Set the limit, unless it is set already for all that is loaded."""
        with self._lock:
            self._users += 1
            if not self._set or self._n_modules != len(sys.modules):
                self._n_modules = len(sys.modules)
                self._set.append(_controller(self._n_modules).limit(limits=1, user_api="blas"))

    def end(self) -> None:
        """Lift the limit if nobody needs it any more."""
        with self._lock:
            self._users -= 1
            while self._set and not self._users:
                self._set.pop().restore_original_limits()


_limit = _Limit()


def one_thread() -> Any:
    """Return a context in which BLAS and OpenMP use one thread: with several, sums depend on their order."""
    return _controller(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, a round of a solver perhaps microseconds. So the search is
    # repeated only after further imports: SciPy has a BLAS of its own, which is often loaded later.
    return ThreadpoolController()
