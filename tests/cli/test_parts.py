"""Scaling, known patterns, brightness, offsets, weights and missing values on the command line."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dbmd
from cli.resuming import assert_same_model
from cli.running import names, refused, run, samples, write_csv, write_parquet
from dbmd import DBMD


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    X, lab = samples(150)
    X = (X - X.min() + 1.0) * np.array([0.01, 1.0, 100.0, 1.0])
    write_parquet(folder / "data.parquet", X, lab=lab, times=np.arange(150) % 3)
    pd.DataFrame(X[:2], columns=names(4)).assign(pattern=["clay", "sand"])[["x3", "pattern", "x1", "x0", "x2"]].to_csv(
        folder / "known.csv", index=False
    )
    return folder


def fitted(*arguments, out):
    run("fit", *arguments, "-o", out / "model", "--overwrite", "-q", "--no-report")
    return dbmd.load(out / "model")


OPTIONS = {
    "scaled": (["--scaling", "standard"], {"scaling": "standard"}),
    "log": (["--log", "--scaling", "minmax", "--nonnegative"], {"log": True, "scaling": "minmax", "nonnegative": True}),
    "brightness": (["--brightness", "--shares", "energy"], {"brightness": True, "shares": "energy"}),
    "offsets": (["--offsets", "--scaling", "standard"], {"offsets": True, "scaling": "standard"}),
    "missing": (["--missing", "drop", "--no-offsets"], {"missing": "drop"}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_model_is_that_of_python_with_the_same_parameters(name, folder, tmp_path):
    options, params = OPTIONS[name]
    path = folder / "data.parquet"
    mine = fitted(path, "-k", "3", "--source", "lab", "--drop", "times", *options, out=tmp_path)
    other = DBMD(3, random_state=0, **params).fit(dbmd.open_data(path, source="lab", drop=["times"]))
    np.testing.assert_array_equal(mine.components_, other.components_)
    assert mine.get_params() == other.get_params()
    assert mine.fit_info_["noise_unit"] == other.fit_info_["noise_unit"]


def test_rows_count_as_often_as_a_column_says(folder, tmp_path):
    path = folder / "data.parquet"
    mine = fitted(path, "-k", "3", "--drop", "lab", "--sample-weight", "times", out=tmp_path)
    other = DBMD(3, random_state=0).fit(dbmd.open_data(path, drop=["lab"], sample_weight="times"))
    np.testing.assert_array_equal(mine.components_, other.components_)
    assert mine.n_features_in_ == 4


def test_known_patterns_are_read_from_a_table_and_name_the_output(folder, tmp_path):
    path, model = folder / "data.parquet", tmp_path / "model"
    how = ("--drop", "lab", "--drop", "times", "--known", folder / "known.csv", "--scaling", "standard")
    told = run("fit", path, "-k", "3", *how, "-o", model).stdout
    assert "pattern 1: " in told  # not "pattern 1 17", which reads as a number
    mine = dbmd.load(model)
    table = pd.read_parquet(path)[names(4)]
    np.testing.assert_array_equal(mine.components_[:2], table.to_numpy()[:2])
    assert mine.component_names_.tolist() == ["clay", "sand", "pattern 1"]
    run("transform", model, path, "-o", tmp_path / "H.parquet")
    H = pq.read_table(tmp_path / "H.parquet").to_pandas()
    assert list(H.columns) == ["cluster", "clay", "sand", "pattern 1"]
    np.testing.assert_array_equal(H.iloc[:, 1:], mine.transform(table))


def test_all_patterns_known_take_no_iterations(folder, tmp_path):
    path, model = folder / "data.parquet", tmp_path / "model"
    known = ("--known", folder / "known.csv", "--max-iter", "0", "--brightness")
    told = json.loads(run("fit", path, "--drop", "lab", "--drop", "times", *known, "-o", model, "--json").stdout)
    assert told["n_iter"] == 0
    mine = dbmd.load(model)
    assert mine.components_.shape == (2, 4)
    run("transform", model, path, "-o", tmp_path / "H.csv")
    H = pd.read_csv(tmp_path / "H.csv")
    assert list(H.columns) == ["cluster", "clay", "sand", "brightness"]
    expected, brightness = mine.transform(pd.read_parquet(path)[names(4)], return_brightness=True)
    np.testing.assert_allclose(H[["clay", "sand"]], expected, atol=1e-12)
    np.testing.assert_allclose(H["brightness"], brightness, atol=1e-12)
    run("report", model)


def test_rows_with_missing_values(folder, tmp_path):
    X = pd.read_parquet(folder / "data.parquet")[names(4)]
    X.iloc[[3, 77], [1, 2]] = np.nan
    X.to_csv(tmp_path / "gaps.csv", index=False)
    out = ("-o", tmp_path / "model")
    assert "--missing allow" in refused("fit", tmp_path / "gaps.csv", "-k", "2", *out)
    told = run("fit", tmp_path / "gaps.csv", "-k", "2", "--missing", "drop", *out).stdout
    assert "2 of 150 rows were left out, because values are missing" in told
    told = run("transform", tmp_path / "model", tmp_path / "gaps.csv", "-o", tmp_path / "H.csv").stdout
    assert "2 of them have no memberships" in told
    H = pd.read_csv(tmp_path / "H.csv")
    assert H.index[H["cluster"] == -1].tolist() == [3, 77]
    assert H.index[H["dbmd0"].isna()].tolist() == [3, 77]


@pytest.mark.parametrize("how", [["--scaling", "standard", "--log"], ["--offsets", "--brightness"], ["--known"]])
def test_a_fit_that_was_stopped_goes_on_to_the_same_end(how, folder, tmp_path, kill_after):
    how = [*how, folder / "known.csv"] if how == ["--known"] else how
    fit = ("fit", folder / "data.parquet", "-k", "4", "--source", "lab", "--drop", "times", *how)
    fit += ("--tol", "0", "--max-iter", "25", "-q", "--no-report")
    run(*fit, "-o", tmp_path / "whole")
    kill_after(14)
    run(*fit, "-o", tmp_path / "model", "--checkpoint", "0", code=1)
    kill_after(10**6)
    run(*fit, "-o", tmp_path / "model", "--resume")
    assert_same_model(tmp_path / "model", tmp_path / "whole")


def test_another_fit_is_not_resumed(folder, tmp_path, kill_after):
    fit = ("fit", folder / "data.parquet", "-k", "3", "--source", "lab", "--drop", "times", "-o", tmp_path / "model")
    fit += ("--tol", "0", "--max-iter", "30", "-q", "--no-report", "--known")
    kill_after(14)
    run(*fit, folder / "known.csv", "--checkpoint", "0", code=1)
    kill_after(10**6)
    other = tmp_path / "other.csv"
    other.write_text((folder / "known.csv").read_text().replace("clay", "silt"))
    assert "--known is not the same" in refused(*fit, other, "--resume")
    assert "--scaling was None and is l2" in refused(*fit, folder / "known.csv", "--scaling", "l2", "--resume")
    run(*fit, folder / "known.csv", "--resume")
    assert "another --known" in refused(*fit, other, "--resume")


def test_what_makes_no_sense_gets_one_sentence_with_the_options(folder, tmp_path):
    fit = ("fit", folder / "data.parquet", "--drop", "times", "-o", tmp_path / "model", "-q")
    table = tmp_path / "table.csv"
    assert "Missing option '-k'" in run(*fit, code=2).stderr
    assert refused(*fit, "-k", "2", "--drop", "lab", "--offsets").startswith("--offsets must be")
    assert refused(*fit, "-k", "2", "--max-iter", "0").startswith("--max-iter must be an int >= 1")
    table.write_text("name,x0,x1,x2\na,1,2,3\n")
    assert "--known must have the features" in refused(*fit, "--drop", "lab", "--known", table)
    table.write_text("name,kind,x0\na,b,1\n")
    assert "'name' and 'kind' hold text" in refused(*fit, "--known", table)
    table.write_text("name\na\n")
    assert "no columns of numbers" in refused(*fit, "--known", table)
    assert "nowhere.csv" in refused(*fit, "--known", tmp_path / "nowhere.csv")
    write_csv(table, samples(9)[0])
    assert "must not have more components than -k" in refused(*fit, "-k", "2", "--drop", "lab", "--known", table)
    table.write_text("name,x0,x1,x2,x3\na,1,2,3,4\n,1,2,3,5\n")
    assert "the component in row 2 has no name in column 'name'" in refused(*fit, "--drop", "lab", "--known", table)
    assert "must be 'simplex' without brightness" in refused(*fit, "-k", "2", "--drop", "lab", "--shares", "energy")
