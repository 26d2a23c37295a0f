"""Work in threads gives what the same work gives one after the other."""

import gc
import os
import signal
import threading
import time
import weakref

import pytest

from dbmd._utils.parallel import Threads, kept_threads


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
        failing = threads.submit(inverse, 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                failing.result()
        assert threads.submit(inverse, 2).result() == 0.5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_may_ask_for_work(count):
    with Threads(count) as threads:
        assert threads.map(lambda i: threads.map(lambda j: i * j, range(4)), range(4))[3] == [0, 3, 6, 9]


def test_threads_end_when_they_are_not_needed_any_more():
    before, done = threading.active_count(), []
    with Threads(4) as threads:
        for number in range(5):
            threads.submit(lambda number: (time.sleep(0.01), done.append(number)), number)
    assert threading.active_count() == before
    assert sorted(done) == list(range(5))


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


def test_kept_threads_are_those_of_this_process(monkeypatch):
    monkeypatch.setenv("DBMD_NUM_THREADS", "3")
    threads = kept_threads()
    assert kept_threads() is threads
    assert threads.map(abs, [-1, 2]) == [1, 2]
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as after a fork
    assert kept_threads() is not threads


def test_nothing_is_kept_of_work_that_has_ended():
    class Result:
        pass

    with Threads(3) as threads:
        given, found = [Result() for _ in range(5)], [threads.submit(Result).result() for _ in range(5)]
        found += threads.map(lambda each: [each, Result()], given)
        seen = [*map(weakref.ref, given), *map(weakref.ref, found[:5]), weakref.ref(found[5][1])]
        del given, found
        deadline = time.monotonic() + 30.0  # a thread may not have ended its part yet
        while any(each() is not None for each in seen) and time.monotonic() < deadline:
            gc.collect()
        assert all(each() is None for each in seen)


def test_an_interruption_is_raised_before_other_errors():
    meeting = threading.Barrier(3, timeout=30.0)

    def fail(error):
        meeting.wait()
        raise error

    with Threads(3) as threads, pytest.raises(KeyboardInterrupt):
        threads.map(fail, [ValueError(), KeyboardInterrupt(), ValueError()])


def test_after_an_error_no_further_pieces_are_begun():
    begun = []

    def fail(number):
        begun.append(number)
        raise LookupError

    with Threads(1) as threads, pytest.raises(LookupError):
        threads.map(fail, range(100))
    assert begun == [0]


def test_who_waits_for_what_nobody_has_begun_does_it():
    end, done_by = threading.Event(), []
    with Threads(2) as threads:
        with threads.submit(end.wait) as first, threads.submit(lambda: done_by.append(threading.get_ident())) as job:
            job.result()
            assert done_by == [threading.get_ident()]
            end.set()
            assert first.result()
            assert first.result()  # once more
        assert threads.map(lambda i: threads.submit(pow, i, 2).result(), range(5)) == [0, 1, 4, 9, 16]
    assert len(done_by) == 1


def test_work_of_a_context_that_ends_early_is_dropped_or_waited_for():
    begun, end, done = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        end.wait()
        done.append("first")

    with Threads(2) as threads:
        with threads.submit(first), threads.submit(done.append, "second"):
            begun.wait()
            threading.Timer(0.05, end.set).start()
        assert done == ["first"]
        assert threads.map(abs, [-1, 2]) == [1, 2]
    assert done == ["first"]


def test_what_a_job_asks_for_is_not_begun_when_it_is_dropped():
    begun, end, numbers = threading.Event(), threading.Event(), []

    def piece(number):
        numbers.append(number)
        begun.set()
        end.wait()

    with Threads(2) as threads:
        with threads.submit(lambda: threads.map(piece, range(100))) as job:
            begun.wait()
            threading.Timer(0.1, end.set).start()
        assert job.is_dropped
        assert numbers == [0]
        assert threads.map(abs, [-1, 2]) == [1, 2]


@pytest.mark.parametrize("n", [2, 100])
def test_an_interruption_waits_for_what_others_have_begun_and_begins_no_more(n):
    both, numbers, done = threading.Barrier(2, timeout=30.0), [], []

    def piece(number):
        numbers.append(number)
        if number < 2:
            both.wait()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.1)  # the main thread works on another piece, or waits for this one
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            done.append(number)
        elif number > 1:
            time.sleep(30.0)

    with Threads(2) as threads:
        with pytest.raises(KeyboardInterrupt):
            threads.map(piece, range(n))
        assert len(done) == 1
        time.sleep(0.05)
        assert sorted(numbers) == list(range(min(n, 3)))
        assert threads.map(abs, [-1, 2]) == [1, 2]


class Given:
    """Something that can be referred to weakly."""


def fail(given):
    raise LookupError


def leave_to_others(threads, given):
    """Map, and wait until the error of a thread is known."""
    with pytest.raises(LookupError):
        threads.map(fail, [given])


def fail_unheard(threads, given):
    """Submit, and ask for nothing."""
    with threads.submit(fail, given):
        time.sleep(0.05)


def fail_heard(threads, given):
    """Submit, and ask for the result."""
    with threads.submit(fail, given) as job, pytest.raises(LookupError):
        job.result()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("work", [leave_to_others, fail_unheard, fail_heard])
def test_an_error_keeps_nothing_when_it_is_gone(work, count):
    given = Given()
    seen = weakref.ref(given)
    gc.collect()
    gc.disable()
    try:
        with Threads(count) as threads:
            work(threads, given)
            del given
            deadline = time.monotonic() + 30.0  # a thread may not have ended its part yet
            while seen() is not None and time.monotonic() < deadline:
                time.sleep(0.001)
            assert seen() is None
    finally:
        gc.enable()
