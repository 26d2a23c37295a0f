"""How many threads to use, and limits on those of BLAS and OpenMP: nodes run in parallel already."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


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
    """Limit BLAS to one thread; where contexts are nested, or those of several threads overlap, until the last ends."""
    _blas.begin(_controller(len(sys.modules)).lib_controllers)
    try:
        yield
    finally:
        _blas.end()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread: with several, sums depend on their order."""
    with one_blas_thread(), _controller(len(sys.modules)).limit(limits=1, user_api="openmp"):
        yield


class _OfThread(threading.local):
    """What one thread has begun: how often, and which libraries have numbers of threads for each thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.seen: list[Any] | None = None  # libraries that are limited already
        self.changed: dict[Any, int] = {}


class _BlasLimit:
    """The limit on BLAS, which all threads of this process share.

    The number of threads of most libraries is that of the whole process. So it is set by the first context, and set
    back by the last: if each set back what it had found, a context that began within another one and ended after it
    would leave it at one for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_threads = 0  # that are in a context
        self._before: dict[Any, int] = {}
        self._own = _OfThread()

    def begin(self, libraries: list[Any]) -> None:
        """Begin a context."""
        own = self._own
        if own.depth and own.seen is libraries:
            own.depth += 1
            return
        with self._lock:
            self._n_threads += own.depth == 0
            own.depth += 1
            own.seen = libraries
            for library in libraries:
                if library.user_api == "blas" and (before := library.get_num_threads()) not in (None, 1):
                    (own.changed if _is_of_thread(library) else self._before).setdefault(library, before)
                    library.set_num_threads(1)
            _let_go()

    def end(self) -> None:
        """End a context."""
        own = self._own
        own.depth -= 1
        if own.depth:
            return
        with self._lock:
            self._n_threads -= 1
            for changed, is_last in ((own.changed, True), (self._before, self._n_threads == 0)):
                while is_last and changed:
                    library, before = changed.popitem()
                    library.set_num_threads(before)
            _let_go()


def _is_of_thread(library: Any) -> bool:
    """Return whether each thread has a number of its own, as with OpenMP."""
    return getattr(library, "threading_layer", None) == "openmp"


def _let_go() -> None:
    """Let other threads set numbers: threadpoolctl, from 3.7 on, heeds the thread that was first only."""
    release = getattr(OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release()


_blas = _BlasLimit()


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, a round of a solver perhaps microseconds. So the search is
    # repeated only after further imports: SciPy has a BLAS of its own, which is often loaded later.
    return ThreadpoolController()
