import re
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.data.location import Location, locate
from dbmd.errors import DataError
from tables import Apart


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def shown(locations):
    return [str(location) for location in locations]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_itself(kind, tmp_path):
    put(tmp_path, "a.csv")
    (location,) = locate(kind(tmp_path / "a.csv"))
    assert str(location) == str(tmp_path / "a.csv")
    assert location.local == tmp_path / "a.csv"
    assert location.name == "a.csv"
    assert location.size == 1
    assert location.constants == {}
    with location.open() as file:
        assert file.read() == b"x"


def test_a_path_is_relative_to_where_one_is_and_is_called_as_it_was_given(tmp_path, monkeypatch):
    put(tmp_path, "data/a.csv")
    monkeypatch.chdir(tmp_path)
    (location,) = locate("data/a.csv")
    assert str(location) == "data/a.csv"
    assert location.local == tmp_path / "data/a.csv"


def test_the_home_folder_may_be_written_short(tmp_path, monkeypatch):
    put(tmp_path, "a.csv")
    monkeypatch.setenv("HOME", str(tmp_path))
    (location,) = locate("~/a.csv")
    assert location.local == tmp_path / "a.csv"


def test_a_folder_is_all_files_in_and_below_it_in_natural_order(tmp_path):
    put(tmp_path, "part-10.csv", "part-2.csv", "part-1.csv", "b/part-3.csv", "b/part-03.csv")
    names = [name.removeprefix(f"{tmp_path}/") for name in shown(locate(tmp_path))]
    assert names[:2] == ["b/part-3.csv", "b/part-03.csv"] or names[:2] == ["b/part-03.csv", "b/part-3.csv"]
    assert names[2:] == ["part-1.csv", "part-2.csv", "part-10.csv"]
    assert shown(locate(f"{tmp_path}/")) == shown(locate(tmp_path))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8, unique=True))
def test_numbered_parts_come_in_the_order_of_their_numbers(numbers):
    filesystem = fsspec.filesystem("memory")
    filesystem.rm("/numbered", recursive=True) if filesystem.exists("/numbered") else None
    for number in numbers:
        filesystem.pipe_file(f"/numbered/part-{number}.csv", b"x")
    found = [int(re.search(r"part-(\d+)", str(location))[1]) for location in locate("memory://numbered")]
    assert found == sorted(numbers)


def test_signs_that_are_digits_but_no_numbers_can_be_in_a_name(tmp_path):
    put(tmp_path, "a1²2.csv", "a1²1.csv")
    assert len(locate(tmp_path)) == 2


def test_what_tools_put_beside_their_data_is_passed_over(tmp_path):
    put(tmp_path, "_SUCCESS", ".part-1.csv.crc", "_delta_log/1.json", ".hidden/a.csv", "a.csv", "b/_metadata")
    assert shown(locate(tmp_path)) == [f"{tmp_path}/a.csv"]


def test_folders_may_stand_for_columns(tmp_path):
    put(tmp_path, "year=2020/lab=b%20c/part.parquet", "year=2021/part.parquet", "plain/x=y=z/part.parquet")
    found = {location.path.removeprefix(f"{tmp_path}/"): dict(location.constants) for location in locate(tmp_path)}
    assert found == {
        "year=2020/lab=b%20c/part.parquet": {"year": "2020", "lab": "b c"},
        "year=2021/part.parquet": {"year": "2021"},
        "plain/x=y=z/part.parquet": {"x": "y=z"},
    }


def test_only_folders_below_the_one_that_is_given_are_columns(tmp_path):
    put(tmp_path, "year=2020/lab=b/part.parquet")
    (location,) = locate(tmp_path / "year=2020")
    assert location.constants == {"lab": "b"}


def test_an_address_is_opened_by_fsspec():
    fsspec.filesystem("memory").pipe_file("/far/data.csv", b"abc")
    (location,) = locate("memory://far/data.csv")
    assert str(location) == "memory://far/data.csv"
    assert location.local is None
    assert location.name == "data.csv"
    assert location.size == 3
    with location.open() as file:
        file.seek(1)
        assert file.read() == b"bc"


def test_an_address_of_a_file_on_this_machine_is_local(tmp_path):
    put(tmp_path, "a.csv")
    (location,) = locate((tmp_path / "a.csv").as_uri())
    assert location.local == tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nothing/here.csv", "nothing/here.csv: no such file or folder."),
        ("memory://nothing/here.csv", "memory://nothing/here.csv: no such file or folder."),
        ("nosuch://x/y.csv", "nosuch://x/y.csv: cannot be reached (Protocol not known: nosuch)."),
    ],
)
def test_what_is_not_there_is_said_by_its_name(address, message):
    with pytest.raises(DataError) as caught:
        locate(address)
    assert str(caught.value) == message


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=re.escape(f"{tmp_path}: the folder is empty.")):
        locate(tmp_path)


def test_a_file_that_has_gone_is_said_by_its_name(tmp_path):
    put(tmp_path, "a.csv")
    (location,) = locate(tmp_path / "a.csv")
    (tmp_path / "a.csv").unlink()
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'a.csv'}: cannot be read (")):
        location.open()


def test_a_file_is_called_as_it_is_shown():
    assert str(Location(None, "/data/x.csv", "s3://bucket/x.csv")) == "s3://bucket/x.csv"


def test_a_model_beside_the_data_it_was_made_from_is_no_data(tmp_path):
    (tmp_path / "model").mkdir()
    for name in ("model/model.json", "model/arrays.npz", "a.csv"):
        (tmp_path / name).write_text("x\n1\n")
    assert [location.name for location in locate(tmp_path)] == ["a.csv"]


@pytest.mark.parametrize("tag", ["ETag", "LastModified", "generation"])
def test_a_tag_of_a_store_tells_whether_a_file_has_changed(tag, monkeypatch):
    with fsspec.open("apart://stamp/x.csv", "wb") as file:
        file.write(b"x\n1\n")
    (location,) = locate("apart://stamp/x.csv")
    known = {"name": "/stamp/x.csv", "size": 4, "type": "file", "accessed": "today"}
    stamps = []
    for value, accessed in (("a", "today"), ("a", "tomorrow"), ("b", "tomorrow")):
        told = known | {tag: value, "accessed": accessed}
        monkeypatch.setattr(Apart, "info", lambda self, path, told=told, **options: told)
        stamps.append(location.stamp())
    first, same, other = stamps
    assert same.is_of(first)
    assert not other.is_of(first)


def test_a_store_that_cannot_be_reached_any_more_is_said(monkeypatch):
    with fsspec.open("apart://stamp/x.csv", "wb") as file:
        file.write(b"x\n1\n")
    (location,) = locate("apart://stamp/x.csv")

    def fail(self, path, **options):
        raise RuntimeError("key=SECRET was refused")

    monkeypatch.setattr(Apart, "info", fail)
    with pytest.raises(DataError, match=r"apart://stamp/x\.csv: cannot be reached any more \(RuntimeError\)\."):
        location.stamp()
