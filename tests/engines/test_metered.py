from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.engines import Metered, Traffic
from dbmd.engines._metered import count_floats
from dbmd.engines.local import Engine
from dbmd.model.node import Node
from dbmd.model.statistics import PerSource, Quadratic, Statistics


def nodes(*blocks):
    return [Node(f"node {i}", block=block) for i, block in enumerate(blocks)]


def reply_of_size(node, *arrays, factor=1.0):
    return node, PerSource({0: factor, **{1 + i: 1.0 for i in range(node.block)}})


def doubled(node, array):
    return node, 2.0 * array


def fail(node):
    raise RuntimeError


@dataclass(frozen=True)
class Message:
    array: np.ndarray
    number: int
    text: str


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (np.zeros((3, 4)), 12),
        (np.zeros((0, 4)), 0),
        (np.zeros(5, np.float32), 5),
        (1.5, 1),
        (3, 1),
        (np.float32(2.0), 1),
        ("a name", 0),
        (None, 0),
        ((np.zeros(3), 1.0), 4),
        ([np.zeros(3), [np.zeros(2)]], 5),
        ({"a": np.zeros(3), "b": 2.0}, 4),
        (Message(np.zeros(6), 2, "text"), 7),
        (PerSource({4: Statistics(np.zeros((5, 2)), np.zeros((2, 2)), 1.0, 3, 0.5)}), 5 * 2 + 2 * 2 + 3),
        (Quadratic(np.zeros((2, 2)), np.zeros((5, 2))), 14),
    ],
    ids=repr,
)
def test_a_message_counts_as_many_numbers_as_it_carries(message, size):
    assert count_floats(message) == size


def test_down_are_the_numbers_broadcast_and_up_those_of_the_largest_reply():
    engine = Metered(Engine(nodes(2, 7, 0)))
    engine.ask(reply_of_size, np.zeros((3, 4)), 5.0)
    assert engine.last == Traffic(asks=1, floats_down=13, floats_up=8)


def test_what_travels_with_the_function_is_not_counted():
    engine = Metered(Engine(nodes(1)))
    engine.ask(partial(reply_of_size, factor=3.0))
    assert engine.last == Traffic(asks=1, floats_down=0, floats_up=2)


def test_traffic_adds_up_and_differences_tell_what_came_in_between():
    engine = Metered(Engine(nodes(1, 1)))
    engine.ask(doubled, np.zeros(4))
    so_far = engine.traffic
    engine.ask(doubled, np.zeros(6))
    engine.ask(doubled, np.zeros(1))
    assert engine.traffic == Traffic(asks=3, floats_down=11, floats_up=11)
    assert engine.traffic - so_far == Traffic(asks=2, floats_down=7, floats_up=7)
    assert so_far + (engine.traffic - so_far) == engine.traffic


def test_the_answer_is_that_of_the_engine(rng):
    array = rng.normal(size=(3, 2))
    plain, metered = Engine(nodes(0, 1, 2)), Metered(Engine(nodes(0, 1, 2)))
    assert metered.n_nodes == 3
    assert_array_equal(metered.ask(doubled, array), plain.ask(doubled, array))


def test_a_failed_question_is_passed_on_and_not_counted():
    engine = Metered(Engine(nodes(0, 1)))
    with pytest.raises(RuntimeError) as caught:
        engine.ask(fail)
    assert any("node 0" in note for note in caught.value.__notes__)
    assert engine.traffic == Traffic()


def test_engines_around_engines_count_the_same():
    inner = Metered(Engine(nodes(1, 3)))
    outer = Metered(inner)
    outer.ask(reply_of_size, np.zeros(5))
    assert outer.traffic == inner.traffic == Traffic(asks=1, floats_down=5, floats_up=4)
