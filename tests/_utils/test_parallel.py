"""Work in threads gives what the same work gives one after the other."""

import threading
import time

import pytest

from dbmd._utils.parallel import Threads


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_results_are_in_the_order_of_the_arguments(count, n):
    with Threads(count) as threads:
        assert threads.map(pow, range(n), range(n)) == list(map(pow, range(n), range(n)))
        assert threads.map(str, range(n)) == list(map(str, range(n)))


def test_pieces_are_worked_on_at_the_same_time():
    meeting = threading.Barrier(3, timeout=30.0)
    with Threads(3) as threads:
        threads.map(lambda _: meeting.wait(), range(3))


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_is_raised_where_the_work_was_asked_for_and_later_work_is_done(count):
    def inverse(x):
        return 1 / x

    with Threads(count) as threads:
        with pytest.raises(ZeroDivisionError):
            threads.map(inverse, [1, 0, 2, 0])
        assert threads.map(inverse, [1, 2]) == [1.0, 0.5]
        with pytest.raises(ZeroDivisionError):
            threads.submit(inverse, 0).result()
        assert threads.submit(inverse, 2).result() == 0.5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_may_ask_for_work(count):
    with Threads(count) as threads:
        assert threads.map(lambda i: threads.map(lambda j: i * j, range(4)), range(4))[3] == [0, 3, 6, 9]


def test_threads_end_when_they_are_not_needed_any_more():
    before = threading.active_count()
    with Threads(4) as threads:
        late = [threads.submit(time.sleep, 0.01) for _ in range(5)]
    assert threading.active_count() == before
    assert all(each.done() for each in late)


def test_no_more_threads_are_started_than_there_is_work_for():
    before = threading.active_count()
    with Threads(50) as threads:
        assert threading.active_count() == before
        threads.map(str, range(3))
        assert threading.active_count() == before + 2
        end = threading.Event()
        waiting = [threads.submit(end.wait) for _ in range(4)]
        threads.map(str, range(3))
        assert threading.active_count() == before + 6
        end.set()
        assert all(each.result() for each in waiting)
