"""A state in a file: it comes back to the bit, is written when it is time, and is refused when it does not belong."""

import json
import os

import numpy as np
import pytest

from dbmd import DBMD
from dbmd.algorithm import COLD_EVERY
from dbmd.dataset import in_memory
from dbmd.saved import checkpoint
from dbmd.saved.checkpoint import Checkpoint
from dbmd.storage import from_npz, signed, to_npz

IDENTITY = {
    "n_components": 3,
    "alpha": 1.0,
    "init": [[0.1, 1e-300]],
    "solver_options": {"tol": 1e-6},
    "data": ["ab", 7],
}
SHAPE = (4, 3, 2)


@pytest.fixture(scope="module")
def states():
    """All states of a fit with two starts."""
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.full(3, 0.5), 150) @ rng.normal(size=(3, 4)) * 4 + rng.normal(size=(150, 4))
    found = []
    data = in_memory(X, np.array(["a", "b"]), np.arange(150) % 2)
    DBMD(3, n_init=2, init="random", random_state=0, tol=1e-6).fit_data(data, on_iteration=found.append)
    assert {state.attempt for state in found} == {0, 1}
    return found


def assert_same_state(mine, other):
    for name in ("V", "sigma2", "origin"):
        assert getattr(mine, name).tobytes() == getattr(other, name).tobytes()
        assert getattr(mine, name).shape == getattr(other, name).shape
        assert getattr(mine, name).dtype == getattr(other, name).dtype
    for name in ("floor", "objective", "history", "converged", "attempt"):
        assert getattr(mine, name) == getattr(other, name)
    assert (mine.best is None) == (other.best is None)
    if mine.best is not None:
        assert_same_state(mine.best, other.best)


def test_every_state_comes_back_to_the_bit(states, tmp_path):
    for state in states:
        kept = Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)
        kept(state)
        assert_same_state(Checkpoint(tmp_path / "c", IDENTITY, SHAPE).read(), state)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_only_states_that_can_be_gone_on_from_exactly_are_kept(states, tmp_path):
    kept = Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0, period=COLD_EVERY)
    last = None
    for state in states:
        kept(state)
        last = state if len(state.history) % COLD_EVERY == 0 or state.converged else last
        assert kept.state is last
        assert (tmp_path / "c").exists() == (last is not None)
        if last is not None:
            assert_same_state(Checkpoint(tmp_path / "c", IDENTITY, SHAPE).read(), last)


def test_it_is_written_when_it_is_time_and_not_twice(states, tmp_path, monkeypatch):
    now, written = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoint, "write_file", lambda path, content: written.append(now[0]))
    kept = Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=60.0)
    for seconds in range(0, 200, 25):
        now[0] = float(seconds)
        kept(states[seconds // 25])
    assert written == [75.0, 150.0]
    assert kept.write()
    assert kept.write()
    assert written == [75.0, 150.0, 175.0]


def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(states, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    told = []
    kept = Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0, warn=told.append)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        kept(states[0])
        kept(states[1])
        with pytest.raises(OSError, match=r"No space left on device: .*/c'"):
            kept.write()
    assert [text.split(": ")[0] for text in told] == [str(tmp_path / "c")]
    assert "No space left" in told[0]
    assert not list(tmp_path.iterdir())
    kept(states[2])
    assert_same_state(Checkpoint(tmp_path / "c", IDENTITY, SHAPE).read(), states[2])


def test_without_a_state_nothing_is_written(tmp_path):
    kept = Checkpoint(tmp_path / "c", IDENTITY, SHAPE)
    assert not kept.write()
    kept.remove()
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        kept.read()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_components": 4}, "n_components was 3 and is 4"),
        ({"alpha": 1.0 + 1e-15}, "alpha was 1.0 and is 1.000000000000001"),
        ({"init": [[0.1, 2e-300]]}, "init is not the same"),
        ({"init": "random"}, "init is not the same"),
        ({"solver_options": None}, "solver_options was"),
        ({"data": ["ac", 7]}, "the data are not the same"),
        ({"new": 1}, "new was None and is 1"),
    ],
)
def test_another_fit_is_refused_with_what_differs(change, told, states, tmp_path):
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)(states[0])
    with pytest.raises(ValueError, match="cannot be resumed") as caught:
        Checkpoint(tmp_path / "c", IDENTITY | change, SHAPE).read()
    assert told in str(caught.value)


def test_numbers_of_numpy_make_the_same_identity(states, tmp_path):
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)(states[0])
    same = IDENTITY | {"n_components": np.int64(3), "init": np.array([[0.1, 1e-300]]), "data": ("ab", np.int32(7))}
    assert_same_state(Checkpoint(tmp_path / "c", same, SHAPE).read(), states[0])


WRONG = (None, [], "text", [1], {"a": 1})


def without(name):
    return lambda arrays, record: arrays.pop(name)


def array(name, values):
    return lambda arrays, record: arrays.update({name: np.array(values)})


def entry(name, value, *inside):
    def change(arrays, record):
        place = record
        for key in inside:
            place = place[key]
        place[name] = value

    return change


# As if whoever changed them had made the checksum anew: fields must hold nevertheless.
CHANGES = [
    entry("seconds", -0.5, "state", "history", 0),
    lambda arrays, record: arrays["state_V"].__imul__(1e160),
    lambda arrays, record: arrays["state_origin"].__iadd__(1e160),
    *(without(name) for name in ("state_V", "state_sigma2", "state_origin", "best_V")),
    *(entry(name, value) for name in ("format", "identity", "state") for value in WRONG[:4]),
    *(entry(name, value, "state") for name in ("objective", "history") for value in (None, "text", [1], {"a": 1})),
    *(entry("objective", value, "best") for value in WRONG),
    *(entry("value", value, "state", "objective") for value in (None, "text", 10**400)),
    *(entry("converged", value, "state") for value in (None, 1, "yes")),
    *(entry("attempt", value, "state") for value in (None, -1, 0.5)),
    *(entry("floor", value, "state") for value in (None, -1.0, "low")),
    *(
        entry("evidence", value, "state")
        for value in (3, {"excess": [1.0], "one_in": 1}, {"excess": [1, 1], "one_in": 0})
    ),
    entry("excess", [1.0, -1.0], "state", "evidence"),
    entry("iteration", 7, "state", "history", 0),
    entry("objective", "low", "state", "history", 0),
    entry("w_converged", None, "state", "history", 0),
    entry("colour", "red", "state", "history", 0),
    array("state_V", np.zeros((4, 2))),
    array("state_V", np.zeros((5, 3))),
    array("state_V", np.full((4, 3), np.nan)),
    array("best_V", np.zeros((4, 3), complex)),
    array("state_sigma2", [1.0, -1.0]),
    array("state_sigma2", [1.0]),
    array("state_origin", [0.0]),
    array("path_point", np.zeros((4, 2))),
    array("path_steps", np.zeros((1, 3, 4))),
    array("path_residual", np.nan),
    array("path_residual", "far"),
    array("path_stuck", 0.5),
]


def rewrite(path, change, *, sign=True):
    arrays = from_npz(path)
    record = json.loads(str(arrays.pop("record")))
    change(arrays, record)
    if sign:
        record = signed({name: value for name, value in record.items() if name != "checksum"}, arrays)
    path.write_bytes(to_npz(arrays | {"record": np.array(json.dumps(record))}))


def refusal(path):
    with pytest.raises(ValueError, match=r"is not a checkpoint|cannot be resumed") as caught:
        Checkpoint(path, IDENTITY, SHAPE).read()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_whatever_is_wrong_with_a_file_is_a_value_error_with_its_name(change, states, tmp_path):
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)(states[-1])
    rewrite(tmp_path / "c", change)
    assert "checksum" not in refusal(tmp_path / "c")


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "1", '"text"', "{}", "[" * 100_000])
def test_a_record_that_is_none_is_no_checkpoint(text, states, tmp_path):
    (tmp_path / "c").write_bytes(to_npz({"record": np.array(text)}))
    assert "is not a checkpoint" in refusal(tmp_path / "c")
    (tmp_path / "c").write_bytes(to_npz({}))
    assert "is not a checkpoint" in refusal(tmp_path / "c")


@pytest.mark.parametrize(
    "change",
    [
        entry("converged", False, "state"),
        entry("attempt", 0, "state"),
        entry("objective", 0.5, "state", "history", 0),
        entry("checksum", None),
        lambda arrays, record: arrays["state_V"].__iadd__(1e-12),
        array("more", 0.0),
    ],
)
def test_what_was_changed_is_told_by_its_checksum(change, states, tmp_path):
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)(states[-1])
    rewrite(tmp_path / "c", lambda arrays, record: None, sign=False)
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE).read()  # laid out in another way
    rewrite(tmp_path / "c", change, sign=False)
    assert "its checksum does not match" in refusal(tmp_path / "c")


def test_a_checkpoint_of_other_sizes_is_refused(states, tmp_path):
    Checkpoint(tmp_path / "c", IDENTITY, SHAPE, every=0)(states[-1])
    for shape in ((5, 3, 2), (4, 4, 2), (4, 3, 1)):
        with pytest.raises(ValueError, match="must have shape"):
            Checkpoint(tmp_path / "c", IDENTITY, shape).read()
