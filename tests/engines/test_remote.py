"""How engines over other processes ask and how nodes answer, in one process and with losses at will."""

import pickle
from dataclasses import replace
from functools import partial
from itertools import count as numbers

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dbmd.algorithm import fit
from dbmd.config import Config
from dbmd.data import partition
from dbmd.engines import local
from dbmd.engines._remote import LOOKS_BACK, Call, Failed, Lost, PartialSum, Remote, Sent, added
from dbmd.engines._spark_executor import Folder
from dbmd.engines.dask import _InMemory
from dbmd.model.node import Node, continues
from dbmd.registry import names

from .asked import Stubborn, count, fail_at_two, fail_everywhere, fail_stubbornly, name_of

PRIME = 10_007  # the memories of nodes are numbers below it


def begin(node, number, at):
    """Leave something that follows from the block alone."""
    if node.block not in at:
        return node, [node.block, number]
    return replace(node, scratch=(number + node.block) % PRIME), [node.block, number]


@continues
def go_on(node, number, at):
    """Go on from what was left, by a step whose order matters."""
    if node.scratch is None or node.block not in at:
        return node, [node.scratch]
    memory = (31 * node.scratch + number) % PRIME
    return replace(node, scratch=memory), [memory]


@continues
def look(node, number, at):
    return node, [node.scratch]


def fail(node, number, at):
    if node.block in at:
        raise ArithmeticError(f"{node.block} at {number}")
    return replace(node, scratch=number), []


@continues
def go_on_or_fail(node, number, at):
    if node.block in at:
        raise ArithmeticError(f"{node.block} at {number}")
    return replace(node, scratch=(node.scratch or 0) + number), []


class Fake(Remote):
    """Nodes in this process that answer as workers do, in groups, and can lose what they hold or answer twice.

    make_memory: for a node, where it keeps what it holds. Before the question of a number, the nodes in forget[number]
    lose that; those in twice[number] answer, and then answer again, as if the first reply had got lost.
    """

    name = "fake"

    def __init__(self, nodes, make_memory, *, group=2, forget=None, twice=None):
        super().__init__()
        self.nodes, self.make_memory, self.group = nodes, make_memory, group
        self.forget, self.twice = forget or {}, twice or {}
        self.n_nodes = len(nodes)
        self.memories = [make_memory() for _ in nodes]
        self.calls = []

    def _send(self, call, at):
        from dbmd.engines._remote import answer

        call = pickle.loads(pickle.dumps(call))
        self.calls.append((call, at))
        number = call.questions[-1].number
        for i in self.forget.get(number, ()) if at is None else ():
            self.memories[i] = self.make_memory()
        outcomes = []
        for i in range(self.n_nodes) if at is None else at:
            for _ in range(2 if i in self.twice.get(number, ()) else 1):
                outcome = answer(self.nodes[i], i, call, self.memories[i])
            outcomes.append(outcome)
        groups = [outcomes[i : i + self.group] for i in range(0, len(outcomes), self.group)]
        return [outcome for group in reversed(groups) for outcome in added(reversed(group))]

    def close(self):
        pass


@pytest.fixture(params=["memory", "folder"])
def make_memory(request, tmp_path_factory):
    """Return what makes the memory of a node, as the workers of Dask or of Spark have it."""
    if request.param == "memory":
        return _InMemory
    root, number = tmp_path_factory.mktemp("held"), numbers()
    return lambda: Folder(root / str(next(number)))


def told(engine, function, *broadcast):
    """Return what an engine replies, or the error, as text."""
    try:
        return engine.ask(function, *broadcast)
    except Exception as error:
        return type(error), str(error), [note.split(" of the ")[0] for note in error.__notes__]


@st.composite
def stories(draw):
    """Strategy: a number of nodes, what they are asked, and what befalls them before each question.

    Not more questions than engines look back.
    """
    n = draw(st.integers(1, 5))
    some = st.sets(st.integers(0, n - 1))
    step = st.tuples(st.sampled_from([begin, go_on, go_on, look, fail, go_on_or_fail]), some, some, some)
    return n, draw(st.integers(1, 3)), draw(st.lists(step, min_size=1, max_size=LOOKS_BACK))


def test_whatever_is_lost_the_replies_are_those_of_nodes_that_lose_nothing(make_memory):
    @given(stories())
    def check(story):
        n, group, steps = story
        nodes = [Node(f"node {i}", block=i) for i in range(n)]
        forget = {k + 1: step[2] for k, step in enumerate(steps)}
        twice = {k + 1: step[3] for k, step in enumerate(steps)}
        fake, plain = Fake(nodes, make_memory, group=group, forget=forget, twice=twice), local.Engine(nodes, 1)
        for k, (function, at, _, _) in enumerate(steps):
            assert told(fake, function, k + 1, at) == told(plain, function, k + 1, at)

    check()


def test_nodes_that_a_question_did_not_change_still_know_what_they_held_before(make_memory):
    fake = Fake([Node("a", 0), Node("b", 1)], make_memory, forget={3: {0, 1}})
    fake.ask(begin, 5, {0, 1})
    fake.ask(begin, 7, {1})
    assert fake.ask(look, 0, ()) == [5, 8]


def test_while_nothing_is_lost_every_question_is_sent_once(make_memory):
    fake = Fake([Node("a", 0), Node("b", 1)], make_memory)
    for k in range(5):
        fake.ask(begin if k % 3 == 0 else go_on, k, {0, 1})
        fake.ask(look, k, ())
    assert [(len(call.questions), at) for call, at in fake.calls] == [(1, None)] * 10


def test_only_those_that_lost_something_are_asked_again(make_memory):
    fake = Fake([Node("abc"[i], i) for i in range(3)], make_memory, forget={3: {1}})
    fake.ask(begin, 1, {0, 1, 2})
    fake.ask(go_on, 2, {0, 1, 2})
    fake.ask(go_on, 3, {0, 1, 2})
    (_, _, (_, everyone), (again, lost)) = fake.calls
    assert everyone is None
    assert lost == [1]
    assert [question.number for question in again.questions] == [1, 2, 3]
    fake.ask(go_on, 4, {0, 1, 2})
    assert len(fake.calls) == 5  # it has everything again


def test_a_question_that_needs_only_the_block_is_answered_after_a_loss_without_another(make_memory):
    fake = Fake([Node("a", 0)], make_memory, forget={2: {0}})
    fake.ask(begin, 1, {0})
    fake.ask(begin, 2, {0})
    assert len(fake.calls) == 2


def test_of_a_long_story_the_first_question_and_the_last_are_told_again(make_memory):
    fake = Fake([Node("a", 0)], make_memory, forget={100: {0}})
    fake.ask(begin, 1, {0})
    for k in range(2, 101):
        fake.ask(go_on, k, {0})
    again, at = fake.calls[-1]
    asked = [question.number for question in again.questions]
    assert at == [0]
    assert asked == [1, *range(100 - LOOKS_BACK, 101)]


def test_after_losses_here_and_there_replies_are_in_the_order_of_the_nodes(make_memory):
    fake = Fake([Node(f"node {i}", i) for i in range(5)], make_memory, group=5, forget={2: {0, 2, 4}})
    fake.ask(begin, 10, set(range(5)))
    assert fake.ask(look, 0, ()) == [10, 11, 12, 13, 14]


def test_the_nodes_keep_no_more_than_two_states_each(tmp_path):
    fake = Fake([Node("a", 0)], lambda: Folder(tmp_path))
    for k in range(10):
        fake.ask(count)
        assert {path.name for path in tmp_path.iterdir()} == {str(n) for n in (k, k + 1) if n}
    in_memory = Fake([Node("a", 0)], _InMemory)
    for _ in range(10):
        in_memory.ask(count)
    assert set(in_memory.memories[0].held[0]) == {9, 10}


def test_of_several_errors_that_of_the_first_node_is_raised(make_memory):
    for group in (1, 2, 3):
        with pytest.raises(KeyError, match="node 0"):
            Fake([Node(f"node {i}", i) for i in range(5)], make_memory, group=group).ask(fail_everywhere)


def test_an_error_keeps_its_type_and_its_node(make_memory):
    with pytest.raises(ZeroDivisionError) as caught:
        Fake([Node(f"node {i}", float(i)) for i in range(5)], make_memory).ask(fail_at_two, 1)
    assert caught.value.__notes__ == ["at node 'node 2' of the fake engine"]


def test_an_error_that_cannot_be_read_again_becomes_one_that_says_the_same(make_memory):
    # Where tblib is loaded, as Dask does, it can be read again after all.
    with pytest.raises((RuntimeError, Stubborn), match="no, because I say so") as caught:
        Fake([Node("a", 0)], make_memory).ask(fail_stubbornly)
    assert caught.value.__notes__ == ["at node 'a' of the fake engine"]


def test_nodes_that_are_lost_for_good_are_an_error():
    class Gone(Fake):
        def _send(self, call, at):
            return [Lost(0)]

    with pytest.raises(RuntimeError, match="lost again and again"):
        Gone([Node("a", 0)], _InMemory).ask(name_of)


@given(st.permutations(range(6)), *[st.sets(st.integers(0, 5))] * 3)
def test_adding_keeps_the_order_and_adds_only_neighbours(order, absent, lost, failed):
    lost, failed = lost - absent, failed - absent

    def outcome(i):
        if i in lost:
            return Lost(i)
        return Failed(i, b"") if i in failed else PartialSum(i, i + 1, pickle.dumps((i,)), i, (i,))

    joined = added(outcome(i) for i in order if i not in absent)
    assert added(joined) == joined
    assert [o.first for o in joined] == sorted(o.first for o in joined)
    sound = [i for i in range(6) if i not in absent | lost | failed]
    runs = [o for o in joined if isinstance(o, PartialSum)]
    assert [i for run in runs for i in pickle.loads(run.reply)] == sound
    assert [i for run in runs for i in run.changed] == sound
    assert [o for o in joined if not isinstance(o, PartialSum)] == [outcome(i) for i in sorted(lost | failed)]
    for run in runs:
        members = pickle.loads(run.reply)
        assert members == tuple(range(run.first, run.stop))
        assert run.largest == max(members)


def test_what_was_sent_is_counted_and_adds_up(make_memory):
    fake = Fake([Node("a", 0), Node("b", 1)], make_memory)
    array = np.zeros(1000)
    fake.ask(echo, array)
    first = fake.sent
    assert first.asks == 1
    for size in (first.down, first.up):
        assert array.nbytes < size < array.nbytes + 300
    assert 0 < first.functions < 100
    fake.ask(echo, array)
    assert fake.sent == first + first
    assert fake.sent - first == first
    assert Sent() + first == first


def test_a_question_that_failed_is_not_counted(make_memory):
    fake = Fake([Node("a", 2.0)], make_memory)
    with pytest.raises(ZeroDivisionError):
        fake.ask(fail_at_two, 1)
    assert fake.sent == Sent()


def echo(node, array):
    return node, array


def test_is_a_context_manager_that_closes():
    closed = []

    class Closing(Fake):
        def close(self):
            closed.append(True)

    with Closing([Node("a", 0)], _InMemory) as fake:
        assert fake.ask(name_of) == ("a",)
    assert closed == [True]


# -- fits ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_sources():
    rng = np.random.default_rng(42)
    W = rng.normal(size=(5, 3)) * 4.0
    source = rng.integers(0, 3, 120)
    Xt = rng.dirichlet(np.ones(3), 120) @ W.T + rng.normal(size=(120, 5)) * np.array([0.1, 0.5, 1.0])[source, None]
    return Xt, source


def fitted(engine, solver):
    config = Config(n_components=3, solver=solver, max_iter=2, tol=0.0, init="random", inference="map", alpha=1.1)
    return fit(engine, config, n_sources=3, n_features=5, dtype=np.dtype(float), seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("solver", names("solvers"))
def test_a_fit_that_loses_everything_at_any_time_ends_where_it_would_have(solver, three_sources):
    Xt, source = three_sources
    nodes = partition(Xt, source, 3)
    calm = Fake(nodes, _InMemory)
    expected = fitted(calm, solver)
    n = calm.sent.asks
    assert solver == "exact" or n > 2 * LOOKS_BACK + 8  # so that not all questions of a W-step are kept
    asked_again = 0
    for k in range(2, n + 1, 1 + n // 20):
        # At one question, and soon again, as if a worker came and went.
        disturbed = Fake(nodes, _InMemory, forget={k: {1}, k + 1: {0, 1, 2}, k + 8: {0, 2}})
        assert_allclose(fitted(disturbed, solver).W, expected.W, rtol=1e-6, atol=1e-6 * np.abs(expected.W).max())
        asked_again += len(disturbed.calls) - disturbed.sent.asks
    assert asked_again > 0 or solver == "exact"  # whose questions need no more than the block


def test_a_call_can_be_pickled():
    call = Call((), {1: 2}, "fake")
    assert pickle.loads(pickle.dumps(call)) == call
    assert pickle.loads(pickle.dumps(partial(begin, at=()))).func is begin


def test_a_task_that_is_late_does_not_bring_back_what_was_removed(tmp_path):
    """It was cancelled while it worked, and the folder of its block is gone."""
    folder = Folder(tmp_path / "gone" / "held")
    folder.keep(0, 1, Node("a", 0))
    assert folder.recall(0, 1) is None
    assert list(tmp_path.iterdir()) == []
