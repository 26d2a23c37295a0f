"""What holds for every engine: a new module in dbmd.engines is tried without a change here."""

import os
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from dbmd.model.node import Node
from dbmd.registry import load, names
from engine_params import FIXTURES, on_every_engine

from .asked import (
    blas_threads,
    blas_threads_here,
    change_broadcast_copy,
    chaotic_sum,
    count,
    fail_at_two,
    fail_everywhere,
    fail_stubbornly,
    name_of,
    process_of,
    weighted,
)

# An engine whose nodes are threads of this process can be asked closures, and shares BLAS with its caller.
in_process = pytest.mark.parametrize("engine", [name for name in names("engines") if name not in FIXTURES])
threads = pytest.mark.parametrize("n_threads", [1, 3])


@pytest.fixture
def make(engine, cluster, monkeypatch):
    """Return a function that makes an engine with a number of nodes and threads; all are closed in the end."""
    cluster(engine)
    made = []

    def make(n_nodes=5, n_threads=3, memory=None):
        monkeypatch.setenv("DBMD_NUM_THREADS", str(n_threads))
        nodes = [Node(f"node {i}", block=float(i), scratch=memory) for i in range(n_nodes)]
        made.append(load("engines", engine).Engine(nodes))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@on_every_engine
@pytest.mark.parametrize("n_nodes", [1, 2, 20])
def test_replies_of_all_nodes_are_added_in_their_order(make, n_nodes):
    engine = make(n_nodes)
    assert engine.n_nodes == n_nodes
    for _ in range(3):
        assert engine.ask(name_of) == tuple(f"node {i}" for i in range(n_nodes))


@on_every_engine
def test_the_state_of_a_node_is_kept_between_questions(make):
    engine = make(4)
    assert [engine.ask(count) for _ in range(4)] == [4, 8, 12, 16]


@on_every_engine
def test_a_node_begins_with_what_it_was_given(make):
    engine = make(3, memory=10)
    assert [engine.ask(count) for _ in range(2)] == [33, 36]


@on_every_engine
def test_the_nodes_that_were_given_are_not_changed(engine, cluster):
    cluster(engine)
    nodes = [Node("a"), Node("b")]
    with load("engines", engine).Engine(nodes) as running:
        running.ask(count)
    assert [node.scratch for node in nodes] == [None, None]


@on_every_engine
def test_what_is_broadcast_arrives_at_every_node_and_stays_unchanged(make, rng):
    array, mapping = rng.normal(size=(3, 2)), {"shift": 7.0}
    copy = array.copy()
    engine = make(3)
    reply = engine.ask(weighted, array, 2.0, mapping)
    np.testing.assert_allclose(reply, 2.0 * (1.0 + 2.0 + 3.0) * copy + 3 * 7.0)
    engine.ask(change_broadcast_copy, array)
    assert_array_equal(array, copy)
    assert mapping == {"shift": 7.0}


@on_every_engine
def test_an_exception_carries_the_name_of_its_node(make):
    with pytest.raises(ZeroDivisionError) as caught:
        make().ask(fail_at_two, 1)
    assert str(caught.value) == "division by nothing"
    assert any("node 2" in note for note in caught.value.__notes__)


@on_every_engine
def test_after_a_failure_the_engine_answers_and_its_nodes_are_as_before(make):
    engine = make()
    engine.ask(count)
    with pytest.raises(ZeroDivisionError):
        engine.ask(fail_at_two, 100)
    assert engine.ask(count) == 5 * 2


@on_every_engine
def test_all_nodes_may_fail(make):
    engine = make()
    with pytest.raises(KeyError) as caught:
        engine.ask(fail_everywhere)
    assert any("node 0" in note for note in caught.value.__notes__)
    assert len(engine.ask(name_of)) == 5


@on_every_engine
def test_an_error_that_cannot_be_sent_is_told_all_the_same(make):
    with pytest.raises(Exception, match="no, because I say so") as caught:
        make(2).ask(fail_stubbornly)
    assert any("node 0" in note for note in caught.value.__notes__)


@on_every_engine
def test_the_order_of_adding_is_always_the_same(make):
    engine = make(20)
    expected = engine.ask(chaotic_sum)
    for _ in range(2):
        assert_array_equal(engine.ask(chaotic_sum), expected)


@on_every_engine
def test_blas_is_held_to_one_thread_in_the_nodes(make):
    found = make(3).ask(blas_threads_here)
    assert len(found) == 3
    for in_node in found:
        assert set(in_node.values()) == {1}


@on_every_engine
def test_is_a_context_manager(engine, cluster):
    cluster(engine)
    with load("engines", engine).Engine([Node("a"), Node("b")]) as running:
        assert running.ask(name_of) == ("a", "b")


@on_every_engine
def test_only_an_engine_without_a_cluster_runs_in_this_process(make, engine):
    assert (os.getpid() in make(2).ask(process_of)) == (engine not in FIXTURES)


# -- engines whose nodes are threads of this process ---------------------------------------------------------------


@in_process
def test_the_number_of_threads_does_not_change_a_bit(make):
    expected = make(7, 1).ask(chaotic_sum)
    for n_threads in (2, 3, 16):
        for _ in range(3):
            assert_array_equal(make(7, n_threads).ask(chaotic_sum), expected)


@in_process
def test_with_one_thread_all_is_the_same(make):
    engine = make(5, 1)
    assert engine.ask(name_of) == tuple(f"node {i}" for i in range(5))
    assert [engine.ask(count) for _ in range(2)] == [5, 10]
    with pytest.raises(ZeroDivisionError) as caught:
        engine.ask(fail_at_two, 1)
    assert any("node 2" in note for note in caught.value.__notes__)
    with pytest.raises(KeyError):
        engine.ask(fail_everywhere)
    assert engine.ask(count) == 15


@pytest.fixture
def two_blas_threads():
    """Allow BLAS two threads; return what every library made of it."""
    with threadpool_limits(2, user_api="blas"):
        allowed = blas_threads()
        assert 2 in allowed.values()  # else the test would say nothing
        yield allowed


@in_process
@threads
def test_blas_is_let_go_after_a_question(make, n_threads, two_blas_threads):
    for in_node in make(3, n_threads).ask(blas_threads_here):
        assert set(in_node.values()) == {1}
    assert blas_threads() == two_blas_threads


@in_process
def test_blas_is_let_go_after_a_failure(make, two_blas_threads):
    with pytest.raises(KeyError):
        make(2).ask(fail_everywhere)
    assert blas_threads() == two_blas_threads


@in_process
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


@in_process
def test_closing_ends_the_threads_that_it_began(make):
    before = set(threading.enumerate())
    engine = make(3, 3)
    engine.ask(name_of)
    engine.close()
    assert set(threading.enumerate()) <= before
