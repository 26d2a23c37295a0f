"""Threads for many small pieces of work: handing one over takes a few microseconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock, Thread, get_ident, local
from time import sleep
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dbmd._utils.threads import available_threads

T = TypeVar("T")


class Dropped(Exception):
    """Raised within work that nobody waits for any more."""


class Job(Generic[T]):
    """Work that was handed to threads, as a context: at its end it is dropped if nobody has begun it, or waited for.

    Its result, or its error, has to be asked for within the context.

    Parameters
    ----------
    function : callable
        What to do.
    on_end : callable
        Called when it is over: done or dropped.
    """

    def __init__(self, function: Callable[[], T], on_end: Callable[[], None]) -> None:
        self._function: Callable[[], T] | None = function
        self._on_end = on_end
        self._begun, self._over = Lock(), Lock()
        self._over.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_dropped = False

    def run(self) -> None:
        """Do it, if nobody has begun it."""
        if not self._begun.acquire(blocking=False):
            return
        assert self._function is not None
        outer, _current.job = _current.job, self
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error
        finally:  # an interruption may come here, too
            _current.job = outer
            try:
                self._end()
            finally:
                self._over.release()

    def result(self) -> T:
        """Return what the function returned, or raise its error. If nobody has begun it, this thread does it."""
        self.run()
        with self._over:
            pass
        if self._error is not None:
            raise self._error
        found: T = self._value
        return found

    def _end(self) -> None:
        self._function = None  # what it worked on may be large
        self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_dropped = True
        if self._begun.acquire(blocking=False):
            self._end()
        else:
            with self._over:
                pass
        self._value = self._error = None  # a traceback refers to this, and to the samples


class _Current(local):
    """What a thread works on."""

    job: Job[Any] | None = None


_current = _Current()


class Threads:
    """Threads that wait for work, as many as there is work for. The thread that asks for it takes part.

    An executor of the standard library makes a future with a lock for each piece, and its threads need Python for each
    of them while they should compute.

    Work may ask for more, and wait for it: who waits for what nobody has begun does it.

    Parameters
    ----------
    count : int
        How many work at a time, at most, the one that asks included.
    """

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = Lock()
        self._most, self._threads = count - 1, list[Thread]()
        self._n_submitted = 0  # that have not ended

    def map(self, function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
        """Return the results of a function, in order, as ``list(map(function, *arguments))``."""
        pieces = list(zip(*arguments, strict=False))
        if not pieces:
            return []
        # The GIL sees to it that each thread gets other numbers, and that one of them gets the last.
        numbers, left = iter(range(len(pieces))), iter(range(len(pieces) - 1, -1, -1))
        found, errors, all_done = dict[int, Any](), list[BaseException](), Lock()
        all_done.acquire()  # to wait for each piece would be to wake up, and to ask for the GIL, as often
        job, busy = _current.job, set[int]()

        def help_out() -> None:
            me = get_ident()
            for number in numbers:
                busy.add(me)  # before looking for errors
                try:
                    if job is not None and job.is_dropped:
                        raise Dropped
                    if not errors:
                        found[number] = function(*pieces[number])
                except BaseException as error:
                    errors.append(error)
                finally:
                    busy.discard(me)
                    if not next(left):
                        all_done.release()

        n_helpers = min(self._started(len(pieces) - 1), len(pieces) - 1)
        for _ in range(n_helpers):
            self._tasks.put(help_out)
        try:
            help_out()
            all_done.acquire()
        except BaseException as error:  # an interruption: no more is begun, and what others have begun is waited for
            errors.append(error)
            while busy - {get_ident()}:
                sleep(1e-3)  # the lock may have been acquired before the interruption, or never be released after it
        if errors:
            try:
                raise min(errors, key=lambda error: isinstance(error, Exception))  # an interruption before all else
            finally:
                errors.clear()  # a traceback refers to them, and to the pieces
        return [found[number] for number in range(len(pieces))]

    def submit(self, function: Callable[..., T], *arguments: Any) -> Job[T]:
        """Hand a function over to a thread, or, where no other thread may work, do it."""
        job = Job(partial(function, *arguments), partial(self._count, -1))
        is_started = self._started(1) > 0
        self._count(1)
        if is_started:
            self._tasks.put(job.run)
        else:
            job.run()
        return job

    def _count(self, change: int) -> None:
        with self._lock:
            self._n_submitted += change

    def _started(self, count: int) -> int:
        """Return the number of threads, after more were started if there are not so many without work."""
        with self._lock:  # work may ask for work
            while len(self._threads) < min(count + self._n_submitted, self._most):
                self._threads.append(Thread(target=self._work, name=f"dbmd_{len(self._threads)}", daemon=True))
                self._threads[-1].start()
            return len(self._threads)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # what it worked on may be large, and the next one may be long in coming

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


def kept_threads() -> Threads:
    """Return threads that are kept for the next time: starting a dozen takes as long as some of what they are for."""
    return _kept_threads(os.getpid(), available_threads())


@cache
def _kept_threads(process: int, count: int) -> Threads:
    return Threads(count)  # threads do not survive a fork: each process has its own
