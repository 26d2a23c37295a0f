"""Limits on the threads of BLAS."""

import threading

import pytest
from threadpoolctl import OpenBLASController, ThreadpoolController, threadpool_limits

from dbmd._utils import threads
from dbmd._utils.threads import one_blas_thread, one_thread


@pytest.fixture
def n_threads():
    """Return a function for the numbers of threads of the BLAS libraries, which are two at first."""
    # Whoever set the number before, in a thread that still runs, would go on to have the say.
    getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)(force=True)
    before = {library: library.get_num_threads() for library in ThreadpoolController().lib_controllers}
    before = {library: number for library, number in before.items() if library.user_api == "blas"}
    for library in before:
        library.set_num_threads(2)
    able = [library for library in before if library.get_num_threads() == 2]  # some are built without threads
    threads._let_go()
    assert able
    yield lambda: {library.get_num_threads() for library in able}
    for library, number in before.items():
        library.set_num_threads(number)
    threads._let_go()


def in_threads(*works):
    """Run functions side by side; raise what one of them raises."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("limit", [one_blas_thread, one_thread])
def test_it_ends_with_the_outermost_context(n_threads, limit):
    with limit():
        with limit():
            assert n_threads() == {1}
        assert n_threads() == {1}
    assert n_threads() == {2}


def test_it_ends_with_the_last_of_contexts_that_overlap(n_threads):
    """As where fits run in threads: one begins within another one, and ends after it."""
    steps = [threading.Event() for _ in range(3)]

    def first():
        with one_blas_thread():
            steps[0].set()
            assert steps[1].wait(30)
        steps[2].set()

    def second():
        assert steps[0].wait(30)
        with one_blas_thread():
            steps[1].set()
            assert steps[2].wait(30)
            assert n_threads() == {1}

    in_threads(first, second)
    assert n_threads() == {2}


def test_it_ends_with_an_error(n_threads):
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert n_threads() == {2}


def test_another_thread_may_set_the_number_afterwards(n_threads):
    with one_blas_thread():
        pass

    def limited():
        with threadpool_limits(1, user_api="blas"):
            assert n_threads() == {1}

    in_threads(limited)
    assert n_threads() == {2}
