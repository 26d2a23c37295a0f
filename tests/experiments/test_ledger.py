"""The records of tasks: what is read back is what was noted, and a kill costs one task at most."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.errors import DataError
from dbmd.experiments.ledger import Ledger
from dbmd.storage import plain

HEADING = {"setting": {"n": 3, "sigma": [1.0, 2.5]}, "dbmd": "1.2.3"}

values = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.none())
names = st.text(min_size=1, max_size=5)
done = st.lists(
    st.tuples(st.dictionaries(names, values, max_size=3), st.lists(st.dictionaries(names, values), max_size=3)),
    max_size=5,
    unique_by=lambda entry: json.dumps(entry[0], sort_keys=True),
)


@given(done=done)
def test_what_was_noted_is_there_when_it_is_opened_again(tmp_path_factory, done):
    path = tmp_path_factory.mktemp("ledger") / "deep" / "records.jsonl"
    ledger = Ledger(path, HEADING)
    for task, records in done:
        assert not ledger.has(task)
        ledger.add(task, 1.5, records)
    again = Ledger(path, HEADING)
    assert again.records == ledger.records == [task | record for task, records in done for record in records]
    assert all(again.has(task) for task, _ in done)
    assert list(again.seconds.values()) == [1.5] * len(done)


def test_arrays_and_numbers_of_numpy_become_plain_ones(tmp_path):
    path = tmp_path / "records.jsonl"
    Ledger(path, HEADING).add({"k": np.int64(1)}, 0.0, [{"x": np.arange(2.0), "no": np.nan}])
    again = Ledger(path, HEADING)
    assert again.records == [{"k": 1, "x": [0.0, 1.0], "no": None}]
    assert again.has({"k": 1})


def test_a_line_that_a_kill_left_unfinished_is_dropped_wherever_it_ends(tmp_path):
    path = tmp_path / "records.jsonl"
    ledger = Ledger(path, HEADING)
    ledger.add({"k": 1}, 0.0, [{"x": 1}])
    whole = path.read_bytes()
    ledger.add({"k": 2}, 0.0, [{"x": 2}])
    last = path.read_bytes()[len(whole) :]
    for length in range(len(last)):
        path.write_bytes(whole + last[:length])
        again = Ledger(path, HEADING)
        assert again.has({"k": 1})
        assert not again.has({"k": 2})
        assert path.read_bytes() == whole  # so that the next line does not go on where this one broke off
        again.add({"k": 2}, 0.0, [{"x": 2}])
        assert path.read_bytes() == whole + last


def test_a_heading_that_a_kill_left_unfinished_is_written_again(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"setting":{"n"')
    assert Ledger(path, HEADING).records == []
    assert json.loads(path.read_bytes()) == plain(HEADING)


def test_records_of_another_setting_are_refused_and_kept(tmp_path):
    path = tmp_path / "records.jsonl"
    Ledger(path, HEADING).add({"k": 1}, 0.0, [])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"records of another setting \(dbmd 1\.2\.3\).*-o.*--fresh"):
        Ledger(path, HEADING | {"setting": {"n": 4}})
    assert path.read_bytes() == before


def test_the_heading_is_that_of_the_run_that_began(tmp_path):
    """Another machine may go on; the records do not say which did what, so the heading stays as it was."""
    path = tmp_path / "records.jsonl"
    Ledger(path, HEADING | {"machine": "first"})
    assert Ledger(path, HEADING | {"machine": "second"}).heading["machine"] == "first"


@pytest.mark.parametrize(
    "content",
    [b"no json\n", b"[]\n", b'{"other":1}\n', b'{"setting":{}}\n{"records":[]}\n', b'{"setting":{}}\nbroken\n{}\n'],
)
def test_a_file_of_something_else_is_refused_with_what_to_do(tmp_path, content):
    path = tmp_path / "records.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"records\.jsonl is not a file of records .*Move it away, or run with --fresh"):
        Ledger(path, HEADING)
    assert path.read_bytes() == content
