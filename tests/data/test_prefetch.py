import threading

import pytest

from dbmd.data.prefetch import prefetch
from tables import readers_at_work


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert readers_at_work() == []


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_items_come_in_order(n):
    assert list(prefetch(range(n))) == list(range(n))


def test_what_looks_like_an_end_is_an_item():
    assert list(prefetch([None, False, (), None])) == [None, False, (), None]


def test_the_items_are_made_in_another_thread():
    def items():
        yield threading.current_thread().name

    assert list(prefetch(items())) == ["dbmd-prefetch"]


def test_the_next_item_is_made_while_the_consumer_works():
    made = threading.Event()

    def items():
        yield 0
        made.set()
        yield 1

    iterator = prefetch(items())
    assert next(iterator) == 0
    assert made.wait(10.0)
    assert list(iterator) == [1]


def test_there_are_never_more_than_the_one_in_use_and_the_next():
    made, second = [], threading.Event()

    def items():
        for i in range(20):
            made.append(i)
            if i == 1:
                second.set()
            yield i

    iterator = prefetch(items())
    next(iterator)
    assert second.wait(10.0)
    assert made == [0, 1]
    iterator.close()
    assert made == [0, 1]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, StopAsyncIteration])
def test_an_exception_comes_after_the_items_before_it(kind):
    def items():
        yield 1
        yield 2
        raise kind("broken")

    iterator = prefetch(items())
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(kind, match="broken"):
        next(iterator)


def test_the_place_of_an_exception_is_not_lost():
    def items():
        raise OSError("here")
        yield

    with pytest.raises(OSError, match="here") as caught:
        list(prefetch(items()))
    assert "items" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_leaving_early_ends_the_thread(taken):
    iterator = prefetch(iter(range(10**9)))
    for _ in range(taken):
        next(iterator)
    assert len(readers_at_work()) == 1
    iterator.close()
    assert readers_at_work() == []


def test_a_consumer_that_fails_leaves_no_thread():
    def consume():
        for item in prefetch(range(100)):
            if item == 3:
                raise RuntimeError("consumer")

    with pytest.raises(RuntimeError, match="consumer"):
        consume()


def test_what_was_never_asked_for_starts_no_thread():
    iterator = prefetch(range(3))
    assert readers_at_work() == []
    del iterator


def test_leaving_early_closes_what_the_items_come_from():
    closed = threading.Event()

    def items():
        try:
            yield from range(100)
        finally:
            closed.set()

    iterator = prefetch(items())
    next(iterator)
    iterator.close()
    assert closed.wait(10.0)


def test_one_can_be_within_another():
    assert list(prefetch(prefetch(range(20)))) == list(range(20))
