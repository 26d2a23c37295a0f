"""Reading in advance: an iterator that works in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """Yield items that a thread makes, each while the consumer works on the one before.

    At most two items exist at a time: the one in use, and the next.

    Parameters
    ----------
    items : iterable
        Iterated in the thread. What it raises is raised here.
    """
    ready: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    wanted = threading.Semaphore(1)
    abandoned = threading.Event()

    def work() -> None:
        source = iter(items)
        try:
            while True:
                wanted.acquire()
                if abandoned.is_set():
                    return
                ready.put((True, next(source)))
        except StopIteration:
            ready.put((False, None))
        except BaseException as error:
            ready.put((False, error))
        finally:
            if isinstance(source, Generator):
                source.close()

    thread = threading.Thread(target=work, name="dbmd-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            more, item = ready.get()
            if more:
                wanted.release()
                yield item
                del item  # the next one takes its place
            elif item is None:
                return
            else:
                raise item
    finally:
        abandoned.set()
        wanted.release()
        thread.join()
