"""Tests of Parquet alone."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.formats import _reader, open_reader, parquet
from dbmd.data.location import locate
from dbmd.dataset import open_data


def opened(folder, columns, **options):
    pq.write_table(pa.table(columns), folder / "data.parquet", **options)
    return open_reader(*locate(folder / "data.parquet"))


def numbers(reader, features=None):
    features = list(reader.columns) if features is None else features
    return np.concatenate([batch.Xt for batch in reader.read(0, None, features)])


COLUMNS = {
    "bool": pa.array([True, False, True]),
    "int8": pa.array([1, -2, 3], pa.int8()),
    "uint8": pa.array([1, 2, 255], pa.uint8()),
    "int64": pa.array([1, -2, 2**40]),
    "uint64": pa.array([1, 2, 2**40], pa.uint64()),
    "float16": pa.array(np.array([1, 2.5, 3], np.float16)),
    "float32": pa.array([1, 2.5, 3], pa.float32()),
    "float64": pa.array([1, 2.5, 1e300]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_have_the_type_of_numpy_of_the_same_name(kind, tmp_path):
    reader = opened(tmp_path, {"x": COLUMNS[kind]})
    assert reader.columns == {"x": np.dtype(kind)}
    found = numbers(reader)
    assert found.dtype == kind
    assert_array_equal(found[:, 0], COLUMNS[kind].to_numpy(zero_copy_only=False))


def test_columns_of_several_types_are_read_in_one_that_holds_them(tmp_path):
    reader = opened(tmp_path, {"x": COLUMNS["int8"], "y": COLUMNS["uint8"], "z": COLUMNS["bool"]})
    found = numbers(reader)
    assert found.dtype == np.int16
    assert_array_equal(found, [[1, 1, 1], [-2, 2, 0], [3, 255, 1]])
    assert numbers(reader, ["y"]).dtype == np.uint8


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "c"]),
        pa.array([[1.0], [2.0], []]),
        pa.array([{"u": 1}, {"u": 2}, {"u": 3}]),
        pa.array([1, 2, 3], pa.timestamp("s")),
        pa.array([1, 2, 3], pa.duration("s")),
        pa.array([b"a", b"b", b"c"]),
        pa.array([None, None, None]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
    ],
    ids=["text", "lists", "structs", "times", "durations", "bytes", "nothing", "categories"],
)
def test_what_is_not_a_number_has_no_type_and_leaves_the_rest_alone(column, tmp_path):
    reader = opened(tmp_path, {"no": column, "x": COLUMNS["float64"]})
    assert reader.columns["no"] is None
    assert_array_equal(numbers(reader, ["x"])[:, 0], [1, 2.5, 1e300])


def test_reading_starts_at_row_groups(tmp_path):
    reader = opened(tmp_path, {"x": np.arange(100.0)}, row_group_size=30)
    assert list(reader.seekable_rows) == [0, 30, 60, 90]
    assert reader.n_rows == 100
    found = [batch.Xt[:, 0] for batch in reader.read(30, 90, ["x"])]
    assert_array_equal(np.concatenate(found), np.arange(30, 90))


def test_a_row_group_is_one_batch_unless_it_is_large(tmp_path, monkeypatch):
    reader = opened(tmp_path, {"x": np.arange(2000.0)}, row_group_size=1000)
    assert [len(batch.Xt) for batch in reader.read(0, None, ["x"])] == [1000, 1000]
    monkeypatch.setattr(parquet, "GROUP_BYTES", 7999)
    monkeypatch.setattr(_reader, "BATCH_BYTES", 3200)
    found = [batch.Xt[:, 0] for batch in reader.read(0, None, ["x"])]
    assert max(map(len, found)) <= 400
    assert_array_equal(np.concatenate(found), np.arange(2000))


def test_a_row_group_that_is_large_only_when_decoded_is_read_in_pieces(tmp_path, monkeypatch):
    reader = opened(tmp_path, {f"x{i}": np.ones(20_000) for i in range(10)})
    size = (tmp_path / "data.parquet").stat().st_size
    assert size < 20_000
    monkeypatch.setattr(parquet, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(_reader, "BATCH_BYTES", 80_000)
    sizes = [batch.Xt.nbytes for batch in reader.read(0, None, list(reader.columns))]
    assert max(sizes) <= 80_000
    assert sum(sizes) == 1_600_000


def test_names_with_dots_are_names(tmp_path):
    reader = opened(tmp_path, {"a.b": [1.0, 2.0], "a": [3.0, 4.0], "a.b.c": [5.0, 6.0]})
    assert_array_equal(numbers(reader, ["a", "a.b.c"]), [[3, 5], [4, 6]])


@pytest.mark.parametrize(
    ("folder", "value", "kind"),
    [
        *[("k=3", "3", "int64"), ("k=2.5", "2.5", "float64"), ("k=b", "b", None), ("k=a%2Fb", "a/b", None)],
        *[(f"k={text}", text, None) for text in ("01", "1_0", "1e3", "nan", "inf")],
    ],
)
def test_a_folder_is_a_column_with_the_value_in_all_rows(folder, value, kind, tmp_path):
    (tmp_path / folder).mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / folder / "data.parquet")
    reader = open_reader(*locate(tmp_path))
    assert reader.columns["k"] == kind if kind else reader.columns["k"] is None
    (batch,) = reader.read(0, None, ["x"], ["k"])
    assert batch.others["k"].to_pylist() == [value, value]


def test_a_folder_stands_above_a_column_of_the_same_name(tmp_path):
    (tmp_path / "k=3").mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0], "k": [7.0, 8.0]}), tmp_path / "k=3" / "data.parquet")
    assert_array_equal(numbers(open_reader(*locate(tmp_path)), ["k", "x"]), [[3, 1], [3, 2]])


def test_folders_with_numbers_and_with_text_are_sources_together(tmp_path):
    for name in ("lab=1", "lab=01", "lab=b"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / name / "data.parquet")
    data = open_data(tmp_path, source="lab")
    assert data.source_names.tolist() == ["01", "1", "b"]
    assert data.shape == (6, 1)


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 7.0]})[1:]
    frame.iloc[[0, 1, 0]].to_parquet(tmp_path / "data.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "data.parquet").names
    assert open_data(tmp_path / "data.parquet").feature_names == ["a", "b"]
    assert open_data(tmp_path / "data.parquet", columns=["__index_level_0__"]).shape == (3, 1)
