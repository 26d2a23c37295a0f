"""What holds for every engine."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from dbmd.model.node import Node
from dbmd.registry import load, names


@pytest.fixture(params=names("engines"))
def make(request, monkeypatch):
    """Return a function that makes an engine with a number of nodes and threads; all are closed in the end."""
    made = []

    def make(n_nodes=5, n_threads=3, memory=None):
        monkeypatch.setenv("DBMD_NUM_THREADS", str(n_threads))
        nodes = [Node(f"node {i}", block=float(i), memory=memory) for i in range(n_nodes)]
        made.append(load("engines", request.param).Engine(nodes))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def name_of(node):
    return node, (node.name,)


def count(node):
    asked = (node.memory or 0) + 1
    return replace(node, memory=asked), asked


def weighted(node, array, factor, mapping):
    return node, factor * (node.block + 1.0) * array + mapping["shift"]


def change_broadcast_copy(node, array):
    array = array + 1.0
    return node, array


def fail_at_two(node, asked):
    if node.block == 2.0:
        raise ZeroDivisionError("division by nothing")
    return replace(node, memory=asked), (node.name,)


def fail_everywhere(node):
    raise KeyError(node.name)


def chaotic_sum(node):
    """Return numbers of very different sizes, whose sum depends on the order of adding."""
    return node, np.random.default_rng(int(node.block)).normal(size=50) * 10.0 ** (3 * node.block)


def blas_threads():
    """Return the number of threads of every BLAS library that is loaded, by its file."""
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def blas_threads_here(node):
    return node, (blas_threads(),)


@pytest.mark.parametrize("n_nodes", [1, 2, 5])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_replies_of_all_nodes_are_added_in_their_order(make, n_nodes, n_threads):
    engine = make(n_nodes, n_threads)
    assert engine.n_nodes == n_nodes
    for _ in range(5):
        assert engine.ask(name_of) == tuple(f"node {i}" for i in range(n_nodes))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_state_of_a_node_is_kept_between_questions(make, n_threads):
    engine = make(4, n_threads)
    assert [engine.ask(count) for _ in range(3)] == [4, 8, 12]


def test_the_nodes_that_were_given_are_not_changed():
    for name in names("engines"):
        nodes = [Node("a"), Node("b")]
        with load("engines", name).Engine(nodes) as engine:
            engine.ask(count)
        assert [node.memory for node in nodes] == [None, None]


def test_what_is_broadcast_arrives_at_every_node_and_stays_unchanged(make, rng):
    array, mapping = rng.normal(size=(3, 2)), {"shift": 7.0}
    copy = array.copy()
    reply = make(3).ask(weighted, array, 2.0, mapping)
    np.testing.assert_allclose(reply, 2.0 * (1.0 + 2.0 + 3.0) * copy + 3 * 7.0)
    make(3).ask(change_broadcast_copy, array)
    assert_array_equal(array, copy)
    assert mapping == {"shift": 7.0}


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_exception_carries_the_name_of_its_node(make, n_threads):
    with pytest.raises(ZeroDivisionError, match="division by nothing") as caught:
        make(5, n_threads).ask(fail_at_two, 1)
    assert any("node 2" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_after_a_failure_the_engine_answers_and_its_nodes_are_as_before(make, n_threads):
    engine = make(5, n_threads)
    engine.ask(count)
    with pytest.raises(ZeroDivisionError):
        engine.ask(fail_at_two, 100)
    assert engine.ask(count) == 5 * 2


@pytest.mark.parametrize("n_threads", [1, 3])
def test_all_nodes_may_fail(make, n_threads):
    engine = make(5, n_threads)
    with pytest.raises(KeyError):
        engine.ask(fail_everywhere)
    assert len(engine.ask(name_of)) == 5


def test_the_number_of_threads_does_not_change_a_bit(make):
    expected = make(7, 1).ask(chaotic_sum)
    for n_threads in (2, 3, 16):
        for _ in range(3):
            assert_array_equal(make(7, n_threads).ask(chaotic_sum), expected)


@pytest.fixture
def two_blas_threads():
    """Allow BLAS two threads; return what every library made of it."""
    with threadpool_limits(2, user_api="blas"):
        allowed = blas_threads()
        assert 2 in allowed.values()  # else the test would say nothing
        yield allowed


@pytest.mark.parametrize("n_threads", [1, 3])
def test_blas_is_held_to_one_thread_in_the_nodes_and_let_go_after(make, n_threads, two_blas_threads):
    for in_node in make(3, n_threads).ask(blas_threads_here):
        assert set(in_node.values()) == {1}
    assert blas_threads() == two_blas_threads


def test_blas_is_let_go_after_a_failure(make, two_blas_threads):
    with pytest.raises(KeyError):
        make(2).ask(fail_everywhere)
    assert blas_threads() == two_blas_threads


def test_blas_is_let_go_when_the_questions_of_two_engines_overlap(make, two_blas_threads):
    # As in a grid search with threads: the second begins before, and ends after the end of the first.
    first, second = make(1, 1), make(1, 1)
    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()

    def wait_for_second(node):
        first_began.set()
        return node, second_began.wait(timeout=30)

    def wait_for_end_of_first(node):
        second_began.set()
        return node, first_ended.wait(timeout=30)

    def ask_second():
        first_began.wait(timeout=30)
        second.ask(wait_for_end_of_first)

    thread = threading.Thread(target=ask_second)
    thread.start()
    assert first.ask(wait_for_second)
    first_ended.set()
    thread.join()
    assert blas_threads() == two_blas_threads


def test_closing_ends_the_threads_that_it_began(make):
    before = set(threading.enumerate())
    engine = make(3, 3)
    engine.ask(name_of)
    engine.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("name", names("engines"))
def test_is_a_context_manager(name):
    before = set(threading.enumerate())
    with load("engines", name).Engine([Node("a"), Node("b")]) as engine:
        assert engine.ask(name_of) == ("a", "b")
    assert set(threading.enumerate()) <= before
