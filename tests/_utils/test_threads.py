"""The limit on the threads of BLAS."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from threadpoolctl import threadpool_info, threadpool_limits

from dbmd._utils.threads import one_blas_thread


def n_threads():
    """Return the numbers of threads of all BLAS that are loaded."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_a_limit_within_another_one_is_lifted_with_the_last():
    with threadpool_limits(2, user_api="blas"):
        before = n_threads()
        with one_blas_thread():
            with one_blas_thread():
                assert set(n_threads()) == {1}
            assert set(n_threads()) == {1}
        assert n_threads() == before


def test_limits_of_several_threads_may_overlap():
    first_is_in, second_is_in = Barrier(2), Barrier(2)

    def first():
        with one_blas_thread():
            first_is_in.wait()
            second_is_in.wait()

    def second():
        first_is_in.wait()
        with one_blas_thread():
            second_is_in.wait()
            waiting[0].result()
            return n_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(2) as pool:
        before = n_threads()
        waiting = [pool.submit(first)]
        assert set(pool.submit(second).result()) == {1}
        assert n_threads() == before
