"""``dbmd patterns``: all features of all patterns, exactly."""

import io
from functools import partial

import numpy as np
import pandas as pd
import pytest

from cli.running import refused, run
from dbmd import load
from dbmd.report.compute import describe
from report.models import made_up

NAMES = ["a,b", 'say "c"', "tab\there", "plain", "süß", "007"]


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A model of 6 features and 4 patterns, with standard deviations; what loading anything gives."""
    made = made_up(r=4, m=6, features=NAMES)
    type(made).components_std_, before = np.abs(made.components_) / 7, type(made).__dict__.get("components_std_")
    monkeypatch.setattr("dbmd.estimator.load", lambda path: made)
    yield made
    if before is None:
        del type(made).components_std_
    else:
        type(made).components_std_ = before


read_csv = partial(pd.read_csv, float_precision="round_trip", dtype={"feature": str})
READ = {
    ".csv": read_csv,
    ".tsv": partial(read_csv, sep="\t"),
    ".parquet": pd.read_parquet,
}


@pytest.mark.parametrize("suffix", READ)
def test_every_value_is_there_with_its_name_and_std(model, tmp_path, suffix):
    said = run("patterns", "m", "-o", tmp_path / f"p{suffix}").stdout
    assert "4 patterns of 6 features" in said
    table = READ[suffix](tmp_path / f"p{suffix}")
    assert list(table["feature"]) == NAMES
    assert list(table.columns) == ["feature", *(f"dbmd{k}{end}" for end in ("", "_std") for k in range(4))]
    np.testing.assert_array_equal(table.iloc[:, 1:5].to_numpy().T, model.components_)
    np.testing.assert_array_equal(table.iloc[:, 5:].to_numpy().T, model.components_std_)


@pytest.mark.parametrize("units", [1.0, 1000.0])
def test_rows_have_the_ranks_and_differences_of_the_page(model, units):
    model.components_[:, 0] *= units
    table = read_csv(io.BytesIO(run("patterns", "m", "--long").stdout_bytes))
    assert list(table.columns) == ["pattern", "feature", "value", "std", "difference", "rank"]
    mean = np.average(model.components_, axis=0, weights=model.cluster_sizes_)
    for name, own in table.groupby("pattern"):
        k, features = int(name.removeprefix("dbmd")), [NAMES.index(feature) for feature in own["feature"]]
        assert list(own["rank"]) == [1, 2, 3, 4, 5, 6]
        np.testing.assert_array_equal(own["value"], model.components_[k, features])
        np.testing.assert_allclose(own["difference"], (model.components_[k] - mean)[features], atol=1e-12)
    ranked = describe(model)["basis"]["ranked"]
    order = [cluster["name"] for cluster in describe(model)["clusters"]]
    for place, name in enumerate(order):
        listed = [ranked["names"][j] for j in ranked["lists"][place]]
        assert [f.replace("\t", " ") for f in table.loc[table["pattern"] == f"dbmd{name}", "feature"]] == listed
    top = read_csv(io.BytesIO(run("patterns", "m", "--top", "2", "-o", "-").stdout_bytes))
    pd.testing.assert_frame_equal(top, table[table["rank"] <= 2].reset_index(drop=True))


def test_features_without_names_have_numbers_and_patterns_theirs(model):
    del model.feature_names_in_, type(model).components_std_
    type(model).components_std_ = None
    model.component_names_ = np.array(["tree", "road", "pattern 1", "pattern 2"], object)
    lines = run("patterns", "m").stdout.splitlines()
    assert [name.strip('"') for name in lines[0].split(",")] == ["feature", "tree", "road", "pattern 1", "pattern 2"]
    assert [line.split(",")[0] for line in lines[1:]] == list("012345")


def test_what_cannot_be_written_is_refused_before_anything_is_read(model, tmp_path):
    there = tmp_path / "there.csv"
    there.write_text("mine")
    assert "must end in one of .csv, .tsv, .parquet, or be -" in run("patterns", "m", "-o", "p.xlsx", code=2).stderr
    assert "(--overwrite)" in refused("patterns", "m", "-o", there)
    assert "no such folder" in refused("patterns", "m", "-o", tmp_path / "no" / "p.csv")
    assert there.read_text() == "mine"
    run("patterns", "m", "-o", there, "--overwrite")
    assert there.read_text().startswith('"feature"')
    model.component_names_ = np.array(["feature", "b", "c", "d"], object)
    assert "two columns of the table would be called 'feature'" in refused("patterns", "m")


def test_a_saved_model_is_written_as_it_is(folder):
    table = read_csv(io.BytesIO(run("patterns", folder / "model").stdout_bytes))
    W = load(folder / "model").components_
    np.testing.assert_array_equal(table[[f"dbmd{k}" for k in range(3)]].to_numpy().T, W)
    assert "nowhere" in refused("patterns", folder / "nowhere")
