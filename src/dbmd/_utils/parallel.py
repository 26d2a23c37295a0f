"""Threads for many small pieces of work: handing one over takes a few microseconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dbmd._utils.threads import available_threads

T = TypeVar("T")


class Task(Generic[T]):
    """Something that a thread does; as a context, it is dropped at the end if it was not begun, or else waited for.

    Parameters
    ----------
    function : callable
        What to do.
    on_end : callable
        Called when it was done, or was dropped.
    """

    def __init__(self, function: Callable[[], T], on_end: Callable[[], None]) -> None:
        self._function: Callable[[], T] | None = function
        self._on_end = on_end
        self._begun, self._over = Lock(), Lock()
        self._over.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, if nobody has begun to."""
        if not self._begun.acquire(blocking=False):
            return
        assert self._function is not None
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error
        self._end()

    def result(self) -> T:
        """Return what the function returned, or raise its error. If no thread has begun with it, this one does it."""
        self.run()
        with self._over:
            pass
        error, self._error = self._error, None
        if error is None:
            found: T = self._value
            return found
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    def _end(self) -> None:
        self._function = None  # what it worked on may be large
        self._on_end()
        self._over.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun.acquire(blocking=False):
            self._end()
        with self._over:
            pass


class Threads:
    """Threads that wait for work, as many as there is work for. The thread that asks for it takes part.

    An executor of the standard library makes a future with a lock for each piece, and its threads need Python for each
    of them while they should compute.

    Work may ask for more, and wait for it: who waits for what no thread has begun with does it.

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

        def help_out() -> None:
            for number in numbers:
                try:
                    if not errors:
                        found[number] = function(*pieces[number])
                except BaseException as error:
                    errors.append(error)
                if not next(left):
                    all_done.release()

        n_helpers = min(self._started(len(pieces) - 1), len(pieces) - 1)
        for _ in range(n_helpers):
            self._tasks.put(help_out)
        help_out()
        all_done.acquire()
        if errors:
            try:
                raise min(errors, key=lambda error: isinstance(error, Exception))  # an interruption before all else
            finally:
                errors.clear()  # a traceback refers to them, and to the pieces
        return [found[number] for number in range(len(pieces))]

    def submit(self, function: Callable[..., T], *arguments: Any) -> Task[T]:
        """Hand a function over to a thread; where there is none, it is done when its result is asked for."""
        task = Task(partial(function, *arguments), partial(self._count, -1))
        is_started = self._started(1) > 0
        self._count(1)
        if is_started:
            self._tasks.put(task.run)
        return task

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
