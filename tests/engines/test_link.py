import pickle
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dbmd.engines import Link, Linked, Traffic
from dbmd.engines.local import Engine
from dbmd.model.node import Node, continues, does_continue

from .data import model, samples

latencies = st.floats(0.0, 10.0)
bandwidths = st.floats(1e3, 1e12)
links = st.builds(Link, latencies, bandwidths)
counts = st.integers(0, 10**9)
traffics = st.builds(Traffic, counts, counts, counts)


def nodes(*sizes):
    return [Node(f"node {i}", block=size) for i, size in enumerate(sizes)]


def reply_of_size(node, array, factor=1.0):
    """Reply with as many numbers as the node says, padded so that replies add."""
    return node, Padded(np.full(node.block, factor * array.sum()))


@continues
def doubled(node, array):
    return node, 2.0 * array


class Padded(tuple):
    """Arrays of different sizes that add to the tuple of them."""

    def __new__(cls, *arrays):
        return super().__new__(cls, arrays)

    def __add__(self, other):
        return Padded(*self, *other)


@given(links, traffics, traffics)
def test_seconds_add_over_questions(link, one, other):
    assert link.seconds(one + other) == pytest.approx(link.seconds(one) + link.seconds(other))


@given(links, counts, counts)
def test_a_question_is_a_message_down_and_one_up(link, down, up):
    assert link.seconds(Traffic(1, down, up)) == pytest.approx(link.message(down) + link.message(up))


@given(links, traffics, st.floats(1.0, 100.0))
def test_seconds_grow_with_latency_and_fall_with_bandwidth(link, traffic, factor):
    seconds = link.seconds(traffic)
    assert Link(link.latency * factor, link.bandwidth).seconds(traffic) >= seconds
    assert Link(link.latency, link.bandwidth * factor).seconds(traffic) <= seconds


@given(bandwidths, traffics, st.floats(1.0, 100.0))
def test_without_latency_seconds_are_inverse_to_bandwidth(bandwidth, traffic, factor):
    seconds = Link(0.0, bandwidth).seconds(traffic)
    assert Link(0.0, bandwidth * factor).seconds(traffic) * factor == pytest.approx(seconds)


@pytest.mark.parametrize(("latency", "bandwidth"), [(-1e-3, 1e9), (1e-3, 0.0), (1e-3, -1.0), (float("nan"), 1e9)])
def test_a_link_that_cannot_be_is_refused(latency, bandwidth):
    with pytest.raises(ValueError, match=r"latency >= 0 .* bandwidth > 0 .* Got latency="):
        Link(latency, bandwidth)


@pytest.mark.parametrize("wait", [False, True])
def test_the_answer_is_that_of_the_engine(wait, rng):
    array = rng.normal(size=(3, 2))
    plain, linked = Engine(nodes(0, 1, 2)), Linked(Engine(nodes(0, 1, 2)), Link(1e-4, 1e9), wait=wait)
    assert linked.n_nodes == 3
    assert_array_equal(linked.ask(doubled, array), plain.ask(doubled, array))
    assert linked.traffic == linked.last == Traffic(asks=1, floats_down=6, floats_up=6)


def test_the_slowest_reply_is_what_a_question_takes():
    link = Link(0.5, 6400.0)
    engine = Linked(Engine(nodes(10, 200, 30)), link)
    engine.ask(reply_of_size, np.ones(100))
    assert engine.seconds == pytest.approx(link.message(100) + link.message(200)) == 0.5 + 1.0 + 0.5 + 2.0
    engine.ask(partial(reply_of_size, factor=2.0), np.ones(100))
    assert engine.seconds == pytest.approx(8.0)


def test_nodes_that_wait_do_so_at_the_same_time_and_as_long_as_the_model_says():
    with Linked(Engine(nodes(10, 200, 30, 4), n_threads=4), Link(0.05, 1e6), wait=True) as engine:
        clock = time.perf_counter()
        engine.ask(reply_of_size, np.ones(100))
        engine.ask(reply_of_size, np.ones(300))
        real = time.perf_counter() - clock
    assert engine.seconds == pytest.approx(4 * 0.05 + 64e-6 * (100 + 200 + 300 + 200))
    # One after the other, the four nodes would take almost four times as long; a busy machine may be late.
    assert engine.seconds <= real <= 2.5 * engine.seconds


def test_without_wait_nobody_waits():
    engine = Linked(Engine(nodes(1)), Link(3600.0, 1e9))
    clock = time.perf_counter()
    engine.ask(doubled, np.ones(3))
    assert time.perf_counter() - clock < 60.0
    assert engine.seconds >= 7200.0


def test_a_node_function_that_waits_still_continues_and_travels():
    asked = []

    class Noting(Engine):
        def ask(self, node_function, *broadcast):
            asked.append(node_function)
            return super().ask(node_function, *broadcast)

    Linked(Noting(nodes(1)), Link(0.0, 1e9), wait=True).ask(doubled, np.ones(3))
    assert does_continue(asked[0])
    assert does_continue(pickle.loads(pickle.dumps(asked[0])))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_over_links_is_the_same_fit_and_takes_the_seconds_of_its_traffic():
    Xt, labs, _ = samples()
    made = []

    def over_links(given_nodes):
        made.append(Linked(Engine(given_nodes), Link(0.05, 1e8)))
        return made[-1]

    fitted = model(over_links, solver="admm", n_nodes=3, solver_options={"max_rounds": 2}).fit(Xt, source=labs)
    plain = model(solver="admm", n_nodes=3, solver_options={"max_rounds": 2}).fit(Xt, source=labs)
    assert_array_equal(fitted.components_, plain.components_)
    (engine,) = made
    # Of the iterations; a start before them and a last pass are asked besides.
    down = sum(record.total_floats_down for record in fitted.history_)
    assert engine.traffic.floats_down == down + 2 * fitted.components_.size
    assert engine.seconds == pytest.approx(2 * 0.05 * engine.traffic.asks, rel=0.01)


def test_closing_closes_the_engine_that_does_the_work():
    inner = Engine(nodes(1, 2), n_threads=2)
    with Linked(inner, Link(0.0, 1e9)):
        pass
    with pytest.raises(RuntimeError, match="shutdown"):
        inner.ask(doubled, np.ones(3))
