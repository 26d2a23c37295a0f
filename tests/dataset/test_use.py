"""Datasets and models: what fits together, what is refused, what is recorded."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dbmd import DBMD
from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import PLAIN, as_csv, readers_at_work

from .common import STREAMED, fitted, mixed, opened


@pytest.mark.parametrize("variant", ["csv", "npy", "npz"])
def test_a_fitted_model_is_used_on_a_dataset_as_on_arrays(variant, memory, tmp_path):
    table = mixed()
    written = PLAIN[variant].write(table, tmp_path, "data")
    data = opened(written, memory=memory, dtype=np.float64)
    model = fitted(table.X, source=table.sources, inference="map", alpha=1.5)
    assert_allclose(model.transform(data), model.transform(table.X, source=table.sources), atol=1e-6)
    assert_array_equal(model.predict(data), model.predict(table.X, source=table.sources))
    assert_allclose(model.score(data), model.score(table.X, source=table.sources), rtol=1e-9)


def test_the_record_of_a_fit_says_what_was_fitted(memory, tmp_path):
    table = mixed()
    written = as_csv().write(table, tmp_path, "data")
    data = opened(written, memory=memory)
    model = fitted(data, inference="map")
    assert model.feature_names_in_.tolist() == written.features
    assert model.sources_.tolist() == [0, 1, 2]
    info = model.fit_info_
    assert info["n_samples"] == 400
    assert info["dtype"] == "float64"
    assert info["data"]["paths"] == [written.path]
    assert info["data"]["fingerprint"] == data.about["fingerprint"]
    residual = table.X - model.transform(data) @ model.components_
    centred = table.X - table.X.mean(axis=0)
    assert_allclose(info["explained"], 1.0 - (residual**2).sum() / (centred**2).sum(), rtol=1e-6)


def test_a_dataset_of_other_features_is_refused(tmp_path):
    model = fitted(mixed().X)
    data = open_data(as_csv().write(mixed(), tmp_path, "data").path, drop=["note"])
    with pytest.raises(ValueError, match=r"^The data have 7 features, the model has 5.$"):
        model.transform(data)


def test_a_dataset_of_the_features_in_another_order_is_refused(memory, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    model = fitted(open_data(written.path, columns=written.features, memory=memory))
    swapped = open_data(written.path, columns=["x0", "x2", "x1", "x3", "x4"], memory=memory)
    message = "in the same order. Got 'x2' where the model has 'x1': name them in open_data"
    with pytest.raises(ValueError, match=re.escape(message)):
        model.transform(swapped)
    np.save(tmp_path / "unnamed.npy", mixed().X)
    unnamed = open_data(tmp_path / "unnamed.npy")
    assert_allclose(model.transform(unnamed), model.transform(open_data(written.path, columns=written.features)))


def test_sources_of_a_dataset_are_its_own(tmp_path):
    data = opened(as_csv().write(mixed(), tmp_path, "data"))
    with pytest.raises(ValueError, match="A dataset has its own sources"):
        DBMD(3).fit(data, source=mixed().sources)


@pytest.mark.parametrize("keeps", [True, False])
def test_there_is_room_for_memberships_up_to_a_quarter_of_the_memory(keeps, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    needed = 4 * 400 * (3 * 8 + 8 + 4)
    data = opened(written, memory=needed if keeps else needed - 1)
    assert data.keeps_rows(3) == keeps
    assert not data.keeps_rows(300)
    assert {node.keeps_rows for node in data.nodes(2, 3)} == {keeps}


def test_a_fit_of_streamed_data_leaves_no_thread(tmp_path):
    fitted(opened(as_csv().write(mixed(), tmp_path, "data"), memory=STREAMED))
    assert readers_at_work() == []


@pytest.mark.parametrize("rows", [3, 399, 401])
def test_a_file_that_lost_or_got_rows_between_the_passes_does_not_go_unnoticed(rows, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    data = opened(written, memory=STREAMED)
    lines = Path(written.path).read_text().splitlines(keepends=True)
    Path(written.path).write_text("".join([*lines, lines[-1]][: 1 + rows]))
    with pytest.raises(DataError, match="has changed"):
        fitted(data)


def test_a_file_that_changes_between_the_passes_does_not_go_unnoticed(tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    data = opened(written, memory=STREAMED)
    text = Path(written.path).read_text()
    Path(written.path).write_text(text.replace("x4\n", "x4\n0,0,n0,many,1,1,1,1\n", 1))
    with pytest.raises(DataError, match="has changed since it was opened"):
        fitted(data)


def test_a_model_can_be_fitted_again_to_files_with_other_features(tmp_path):
    for name, columns in (("one", "ab"), ("other", "cde")):
        table = pa.table({column: np.arange(9.0) ** (i + 1) for i, column in enumerate(columns)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    model = DBMD(2, random_state=0).fit(open_data(tmp_path / "one.parquet"))
    model.fit(open_data(tmp_path / "other.parquet"))
    assert model.feature_names_in_.tolist() == ["c", "d", "e"]
    with pytest.raises(ValueError, match="has 3"):
        model.transform(open_data(tmp_path / "one.parquet"))
