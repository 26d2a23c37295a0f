"""``dbmd transform``: the same numbers as the model gives, for every row, in order, in every format."""

import os
import signal
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dbmd
import tables
from cli.running import names, process, refused, run, samples, wait_for, write_csv, write_parquet

M = 4


def read(path):
    """Return memberships and all else of an output."""
    if path.suffix == ".npy":
        return np.load(path), {}
    frame = (
        pd.read_csv(path, keep_default_na=False, float_precision="round_trip")
        if path.suffix == ".csv"
        else pq.read_table(path).to_pandas()
    )
    parts = [name for name in frame if name.startswith("dbmd")]
    return frame[parts].to_numpy(), {name: frame[name].tolist() for name in frame if name not in parts}


def transform(model, *data, out, options=(), ending="parquet"):
    path = out / f"out.{ending}"
    run("transform", model, *data, "-o", path, "--overwrite", *options)
    return read(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of the same data, with and without names and a prior."""
    folder = tmp_path_factory.mktemp("transform")
    X, source = samples(200)
    write_parquet(folder / "train.parquet", X, lab=source)
    np.save(folder / "train.npy", X)
    fit = ("fit", folder / "train.parquet", "-k", "3", "--no-report", "-q")
    run(*fit, "--drop", "lab", "-o", folder / "plain")
    run(*fit, "--source", "lab", "--inference", "map", "--alpha", "1.5", "-o", folder / "prior")
    run("fit", folder / "train.npy", "-k", "3", "--no-report", "-q", "-o", folder / "nameless")
    return folder


@pytest.fixture(scope="module")
def new():
    return samples(150, seed=1)


# -- formats -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv", "npy"])
@pytest.mark.parametrize("variant", tables.PLAIN)
def test_every_format_gives_what_the_model_gives(variant, ending, tmp_path, rng):
    table = tables.table(rng, 700, 5)
    written = tables.PLAIN[variant].write(table, tmp_path, "data")
    fit = (
        "fit",
        written.path,
        "-k",
        "3",
        "--source",
        written.source,
        "--label",
        written.label,
        "--inference",
        "map",
        "--alpha",
        "1.5",
    )
    drop = ("--drop", written.note) if written.note and "h5ad" not in variant else ()
    run(*fit, *drop, "-o", tmp_path / "model", "--no-report", "-q", "--dtype", "float64", "--tol", "1e-2")
    keep = ("--keep", written.note) if written.note and ending != "npy" else ()
    options = ("--dtype", "float64", *keep)
    H, others = transform(tmp_path / "model", written.path, out=tmp_path, ending=ending, options=options)
    model = dbmd.load(tmp_path / "model")
    X = pd.DataFrame(table.X, columns=written.features)
    np.testing.assert_allclose(H, model.transform(X, source=table.sources), rtol=1e-12, atol=1e-15)
    if ending != "npy":
        np.testing.assert_array_equal(others["cluster"], H.argmax(axis=1))
        if keep:
            assert others[written.note] == list(table.notes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_numbers_are_those_of_the_model_to_the_bit(dtype, folder, new, tmp_path):
    X = new[0].astype(dtype)
    write_parquet(tmp_path / "new.parquet", X)
    expected = dbmd.load(folder / "plain").transform(pd.DataFrame(X, columns=names(M)))
    for ending in ("parquet", "npy", "csv"):
        H, _ = transform(folder / "plain", tmp_path / "new.parquet", out=tmp_path, ending=ending)
        np.testing.assert_array_equal(H.astype(dtype), expected)
        assert ending == "csv" or H.dtype == dtype


def test_columns_of_the_output_are_the_cluster_and_the_memberships(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0], id=np.arange(150) * 7)
    run("transform", folder / "plain", tmp_path / "new.parquet", "--keep", "id", "-o", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["id", "cluster", "dbmd0", "dbmd1", "dbmd2"]
    assert table.schema.field("id").type == pa.int64()
    assert table.schema.field("cluster").type == pa.int32()
    assert table["id"].to_pylist() == (np.arange(150) * 7).tolist()
    np.testing.assert_allclose(sum(table[f"dbmd{k}"].to_numpy() for k in range(3)), 1.0)


def test_rows_of_several_files_come_in_order(folder, new, tmp_path):
    X, _ = new
    for i in range(3):
        write_parquet(tmp_path / f"part-{i}.parquet", X[50 * i : 50 * i + 50], id=np.arange(50) + 50 * i)
    files = [tmp_path / f"part-{i}.parquet" for i in (0, 1, 2)]
    H, others = transform(folder / "plain", *files, out=tmp_path, options=("--keep", "id"))
    assert others["id"] == list(range(150))
    np.testing.assert_array_equal(H, dbmd.load(folder / "plain").transform(pd.DataFrame(X, columns=names(M))))


def test_data_larger_than_a_piece_come_in_order(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("dbmd.memberships.MAX_ROWS", 64)
    X, _ = samples(5000, seed=2)
    pq.write_table(
        pa.table({"id": np.arange(5000), **dict(zip(names(M), X.T, strict=True))}),
        tmp_path / "new.parquet",
        row_group_size=777,
    )
    H, others = transform(folder / "plain", tmp_path / "new.parquet", out=tmp_path, options=("--keep", "id"))
    assert others["id"] == list(range(5000))
    np.testing.assert_array_equal(H, dbmd.load(folder / "plain").transform(pd.DataFrame(X, columns=names(M))))


# -- columns -------------------------------------------------------------------------------------------------------


def test_features_are_found_by_name_wherever_they_stand(folder, new, tmp_path):
    X, source = new
    columns = {"x3": X[:, 3], "note": source, "x1": X[:, 1], "x0": X[:, 0], "other": X[:, 0] * 9, "x2": X[:, 2]}
    pq.write_table(pa.table(columns), tmp_path / "new.parquet")
    H, _ = transform(folder / "plain", tmp_path / "new.parquet", out=tmp_path)
    np.testing.assert_array_equal(H, dbmd.load(folder / "plain").transform(pd.DataFrame(X, columns=names(M))))


def test_a_feature_that_is_missing_is_named(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0][:, :3], y=new[0][:, 3])
    assert "no column 'x3'" in refused(
        "transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "o.csv"
    )
    write_parquet(tmp_path / "few.parquet", new[0][:, :2])
    said = refused("transform", folder / "plain", tmp_path / "few.parquet", "-o", tmp_path / "o.csv")
    assert said.endswith("few.parquet: has no columns 'x2', 'x3'.")


@pytest.mark.parametrize("kind", ["npy", "npz", "csv"])
@pytest.mark.parametrize("model", ["plain", "nameless"])
def test_data_without_names_are_taken_by_place(kind, model, folder, new, tmp_path):
    X, _ = new
    if kind == "npy":
        np.save(tmp_path / "new.npy", X)
    elif kind == "npz":
        sparse.save_npz(tmp_path / "new.npz", sparse.csr_matrix(X))
    else:
        np.savetxt(tmp_path / "new.csv", X, delimiter=",", fmt="%.17g")
    H, _ = transform(folder / model, tmp_path / f"new.{kind}", out=tmp_path)
    loaded = dbmd.load(folder / model)
    expected = loaded.transform(pd.DataFrame(X, columns=loaded.feature_names_in_))
    np.testing.assert_allclose(H, expected, rtol=1e-12, atol=1e-15)


def test_encoded_columns_are_encoded_as_in_the_fit_and_unknown_categories_are_none(tmp_path):
    X, _ = samples(90, m=2)
    colour = np.array(["blue", "green", "red"])[np.arange(90) % 3]
    write_csv(tmp_path / "train.csv", X, colour=colour)
    fit = ("fit", tmp_path / "train.csv", "-k", "3", "--encode", "colour", "--no-report", "-q")
    run(*fit, "-o", tmp_path / "model")
    model = dbmd.load(tmp_path / "model")
    assert model.feature_names_in_.tolist() == ["x0", "x1", "colour=blue", "colour=green", "colour=red"]
    write_csv(tmp_path / "new.csv", X[:3], colour=["red", "pink", "green"])
    H, _ = transform(tmp_path / "model", tmp_path / "new.csv", out=tmp_path)
    hot = np.array([[0.0, 0, 1], [0, 0, 0], [0, 1, 0]])
    expected = model.transform(pd.DataFrame(np.hstack([X[:3], hot]), columns=model.feature_names_in_))
    np.testing.assert_allclose(H, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("options", [(), ("--source", "lab")])
def test_sources_that_are_known_have_their_noise(options, folder, new, tmp_path):
    X, source = new
    write_parquet(tmp_path / "new.parquet", X, lab=source)
    H, _ = transform(folder / "prior", tmp_path / "new.parquet", out=tmp_path, options=options)
    model, frame = dbmd.load(folder / "prior"), pd.DataFrame(X, columns=names(M))
    np.testing.assert_array_equal(H, model.transform(frame, source=source))
    assert abs(H - model.transform(frame)).max() > 1e-3  # it does matter


def test_the_noise_of_an_unknown_source_is_estimated(folder, new, tmp_path):
    X, source = new
    moved = np.where(source == "oslo", "rome", source)
    write_parquet(tmp_path / "new.parquet", X, town=moved)
    H, _ = transform(folder / "prior", tmp_path / "new.parquet", out=tmp_path, options=("--source", "town"))
    model, frame = dbmd.load(folder / "prior"), pd.DataFrame(X, columns=names(M))
    np.testing.assert_array_equal(H, model.transform(frame, source=moved))


def test_without_sources_all_rows_are_of_one_unknown_source(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    H, _ = transform(folder / "prior", tmp_path / "new.parquet", out=tmp_path)
    expected = dbmd.load(folder / "prior").transform(pd.DataFrame(new[0], columns=names(M)))
    np.testing.assert_allclose(H, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_keep_takes_features_sources_and_text_as_they_are(write, ending, folder, new, tmp_path):
    X, source = new
    data = write(tmp_path / "new.csv" if write is write_csv else tmp_path / "new.parquet", X, lab=source)
    options = ("--keep", "lab", "--keep", "x1")
    H, others = transform(folder / "prior", data, out=tmp_path, options=options, ending=ending)
    assert others["lab"] == source.tolist()
    assert others["x1"] == X[:, 1].tolist()
    assert H.shape == (150, 3)


@pytest.mark.parametrize("name", ["cluster", "dbmd1"])
def test_a_column_that_would_be_lost_is_not_kept(name, folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0], **{name: np.arange(150)})
    arguments = ("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "out.csv", "--keep", name)
    result = run(*arguments, code=2)
    assert f"{name!r} of its own" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out.csv").exists()


def test_keep_needs_a_table_and_a_column_that_is_there(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    arguments = ("transform", folder / "plain", tmp_path / "new.parquet", "-o")
    assert "npy" in run(*arguments, tmp_path / "out.npy", "--keep", "x0", code=2).stderr
    assert "'id'" in refused(*arguments, tmp_path / "out.csv", "--keep", "id")
    write_parquet(tmp_path / "new.parquet", new[0], list=[[1, 2]] * 150)
    assert "'list'" in refused(*arguments, tmp_path / "out.csv", "--keep", "list")


def test_csv_files_are_read_as_in_the_fit(tmp_path):
    X, _ = samples(90)
    text = (
        "0;1;2;3\n" + "\n".join(";".join(map(repr, row)) for row in X.tolist()) + "\n"
    )  # names that look like numbers
    (tmp_path / "data.csv").write_text(text)
    fit = ("fit", tmp_path / "data.csv", "-k", "3", "--header", "--delimiter", ";", "--no-report", "-q")
    run(*fit, "-o", tmp_path / "model")
    H, _ = transform(tmp_path / "model", tmp_path / "data.csv", out=tmp_path)
    expected = dbmd.load(tmp_path / "model").transform(pd.DataFrame(X, columns=["0", "1", "2", "3"]))
    np.testing.assert_allclose(H, expected, rtol=1e-12, atol=1e-15)


def test_a_model_made_in_python_can_be_used(new, tmp_path):
    X, source = samples(200)
    dbmd.DBMD(3, inference="map", alpha=1.5, random_state=0).fit(X, source=source).save(tmp_path / "model")
    write_parquet(tmp_path / "new.parquet", new[0], lab=new[1])
    H, _ = transform(tmp_path / "model", tmp_path / "new.parquet", out=tmp_path, options=("--source", "lab"))
    np.testing.assert_array_equal(H, dbmd.load(tmp_path / "model").transform(new[0], source=new[1]))


# -- cells ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """An h5ad file with a layer, highly variable genes and names of cells, and a model of the layer and these genes."""
    folder = tmp_path_factory.mktemp("cells")
    X, source = samples(150, m=5, seed=3)
    obs = pd.DataFrame({"lab": source, "depth": np.arange(150)}, index=[f"ACGT-{i}" for i in range(150)])
    obs["kind"] = pd.Categorical(np.where(np.arange(150) % 7, "T", None))
    adata = anndata.AnnData(np.zeros_like(X), obs=obs, var=pd.DataFrame(index=[f"gene{i}" for i in range(5)]))
    adata.layers["logged"] = X
    adata.obsm["X_pca"] = X[:, :3]
    adata.var["highly_variable"] = np.arange(5) != 2
    adata.write_h5ad(folder / "cells.h5ad")
    fit = ("fit", folder / "cells.h5ad", "-k", "3", "--source", "lab", "--offsets", "--max-iter", "300", "--no-report")
    run(*fit, "--layer", "logged", "--hvg", "-q", "-o", folder / "model")
    run("fit", folder / "cells.h5ad", "-k", "3", "--obsm", "X_pca", "--no-report", "-q", "-o", folder / "pca")
    return folder, adata


def test_a_layer_and_highly_variable_genes_are_fitted_and_the_layer_is_taken_as_in_the_fit(cells, tmp_path):
    folder, adata = cells
    model = dbmd.load(folder / "model")
    assert model.feature_names_in_.tolist() == ["gene0", "gene1", "gene3", "gene4"]
    expected = model.transform(dbmd.open_data(adata, source="lab", layer="logged", hvg=True))
    assert expected.std() > 0.1
    for options in ((), ("--layer", "logged")):
        H, others = transform(folder / "model", folder / "cells.h5ad", out=tmp_path, options=options)
        np.testing.assert_allclose(H, expected, atol=1e-12)
        assert list(others) == ["obs_names", "cluster"]
        assert others["obs_names"] == adata.obs_names.tolist()
    H, _ = transform(folder / "model", folder / "cells.h5ad", out=tmp_path, options=("--layer", "X"), ending="npy")
    assert abs(H - expected).max() > 0.1
    H, others = transform(folder / "pca", folder / "cells.h5ad", out=tmp_path, ending="csv", options=("--keep", "lab"))
    np.testing.assert_allclose(H, dbmd.load(folder / "pca").transform(dbmd.open_data(adata, obsm="X_pca")), atol=1e-12)
    assert list(others) == ["obs_names", "lab", "cluster"]


def test_a_source_that_is_not_there_is_told_with_the_columns_of_obs(cells, tmp_path):
    said = refused("fit", cells[0] / "cells.h5ad", "-k", "2", "--source", "batch", "-o", tmp_path / "model")
    assert said.endswith("cells.h5ad: has no column 'batch'. obs has 'lab', 'depth', 'kind'.")
    said = refused("fit", cells[0] / "cells.h5ad", "-k", "2", "--layer", "counts", "-o", tmp_path / "model")
    assert said.endswith("cells.h5ad: has no layer 'counts'. layers has 'logged'.")


def test_h5ad_has_what_tl_stores(cells, tmp_path, monkeypatch):
    folder, adata = cells
    monkeypatch.setattr("dbmd.memberships.MAX_ROWS", 64)
    out = tmp_path / "out.h5ad"
    keep = ("--keep", "kind", "--keep", "depth", "--keep", "gene2")
    run("transform", folder / "model", folder / "cells.h5ad", *keep, "-o", out)
    found, model = anndata.read_h5ad(out), dbmd.load(folder / "model")
    expected = adata.copy()
    dbmd.tl.transform(expected, model)
    assert found.X is None
    assert found.obs_names.tolist() == adata.obs_names.tolist()
    np.testing.assert_allclose(found.obsm["X_dbmd"], expected.obsm["X_dbmd"], atol=1e-12)
    assert found.obs["dbmd"].tolist() == expected.obs["dbmd"].tolist()
    assert found.obs["dbmd"].cat.categories.tolist() == ["0", "1", "2"]
    assert list(found.obs) == ["kind", "depth", "gene2", "dbmd"]
    assert found.obs["kind"].astype(object).equals(adata.obs["kind"].astype(object))
    assert found.obs["depth"].tolist() == list(range(150))
    np.testing.assert_array_equal(found.varm["dbmd"], model.components_.T)
    assert found.var_names.tolist() == model.feature_names_in_.tolist()
    np.testing.assert_array_equal(dbmd.tl.model(found).components_, model.components_)
    found.write_h5ad(tmp_path / "again.h5ad")  # it is as anndata would have written it
    assert anndata.read_h5ad(tmp_path / "again.h5ad").obs["dbmd"].tolist() == found.obs["dbmd"].tolist()
    refused("transform", folder / "model", folder / "cells.h5ad", "-o", out)
    result = run(
        "transform", folder / "model", folder / "cells.h5ad", "--keep", "dbmd", "-o", tmp_path / "n.h5ad", code=2
    )
    assert "'dbmd' of its own" in result.stderr


def test_rows_of_other_files_are_numbered_in_h5ad(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0], lab=new[1], many=[[1, 2]] * 150)
    transform_it = ("transform", folder / "plain", tmp_path / "new.parquet")
    run(*transform_it, "--keep", "lab", "-o", tmp_path / "out.h5ad")
    found = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert found.obs_names.tolist() == [str(i) for i in range(150)]
    assert found.obs["lab"].tolist() == new[1].tolist()
    H, _ = transform(folder / "plain", tmp_path / "new.parquet", out=tmp_path)
    np.testing.assert_array_equal(found.obsm["X_dbmd"], H)
    said = refused(*transform_it, "--keep", "many", "-o", tmp_path / "no.h5ad")
    assert "'many' to keep cannot be a column of obs" in said
    assert not (tmp_path / "no.h5ad").exists()


def test_a_model_of_tl_is_applied_by_the_command_line(cells, tmp_path):
    folder, adata = cells
    own = dbmd.tl.dbmd(adata, 3, batch_key="lab", layer="logged", offsets=True, random_state=0, max_iter=300, copy=True)
    dbmd.tl.model(own).save(tmp_path / "model")
    H, others = transform(tmp_path / "model", folder / "cells.h5ad", out=tmp_path)
    np.testing.assert_allclose(H, own.obsm["X_dbmd"], atol=1e-9)
    assert others["cluster"] == own.obs["dbmd"].astype(int).tolist()


# -- what is left behind -------------------------------------------------------------------------------------------


def test_nothing_is_left_when_it_fails_in_the_middle(folder, new, tmp_path, monkeypatch):
    write_parquet(tmp_path / "new.parquet", new[0])
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("dbmd.memberships.MAX_ROWS", 50)
    replace = os.replace

    def full(source, target):
        assert os.path.getsize(source) > 0
        raise OSError(28, "No space left on device", str(target))

    for ending in ("parquet", "csv", "npy"):
        monkeypatch.setattr(os, "replace", full)
        arguments = ("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / f"out.{ending}")
        assert f"out.{ending}: No space left" in refused(*arguments)
        assert sorted(tmp_path.iterdir()) == before
    monkeypatch.setattr(os, "replace", replace)


def test_an_output_that_is_there_is_replaced_on_demand_only_when_all_is_done(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    (tmp_path / "out.npy").write_bytes(b"old")
    bad = new[0].copy()
    bad[-1, 0] = np.nan
    write_parquet(tmp_path / "bad.parquet", bad)
    refused("transform", folder / "plain", tmp_path / "bad.parquet", "-o", tmp_path / "out.npy", "--overwrite")
    assert (tmp_path / "out.npy").read_bytes() == b"old"
    run("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "out.npy", "--overwrite")
    assert np.load(tmp_path / "out.npy").shape == (150, 3)


SLOW = """
import sys, time, dbmd.memberships
project = dbmd.memberships.iter_memberships
def slow(*arguments, **options):
    for piece in project(*arguments, **options):
        yield piece
        time.sleep(60)
dbmd.memberships.iter_memberships = slow
dbmd.memberships.MAX_ROWS = 50
from dbmd.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_leaves_nothing_and_what_a_kill_leaves_is_removed_by_the_next(number, folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    arguments = ("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "out.npy")
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert wait_for(lambda: len(list(tmp_path.iterdir())) > 1, running)
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert out == ""
    assert not (tmp_path / "out.npy").exists()
    if number == signal.SIGKILL:
        assert running.returncode == -number
        run(*arguments)
        assert {path.name for path in tmp_path.iterdir()} == {"new.parquet", "out.npy"}
    else:
        assert running.returncode == 128 + number
        assert err == "\nStopped.\n"
        assert [path.name for path in tmp_path.iterdir()] == ["new.parquet"]


# -- what is printed -----------------------------------------------------------------------------------------------


def test_it_says_how_many_rows_and_where(folder, new, tmp_path):
    import json

    write_parquet(tmp_path / "new.parquet", new[0])
    arguments = ("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "out.csv", "--overwrite")
    result = run(*arguments)
    assert result.stdout.startswith("150 rows in ")
    assert str(tmp_path / "out.csv") in result.stdout
    assert result.stderr == ""
    assert run(*arguments, "-q").output == ""
    for options in (["--json"], ["--json", "-q"]):
        told = json.loads(run(*arguments, *options).stdout)
        assert told.pop("seconds") >= 0
        assert told == {"output": str(tmp_path / "out.csv"), "n_samples": 150, "left_out": 0}


@pytest.mark.slow
def test_a_process_reads_and_writes(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    running = process("transform", folder / "plain", tmp_path / "new.parquet", "-o", tmp_path / "out.npy", "-q")
    assert running.communicate(timeout=60) == ("", "")
    assert running.returncode == 0
    assert np.load(tmp_path / "out.npy").shape == (150, 3)


def test_standard_deviations_and_means_stand_in_columns_of_their_own(folder, new, tmp_path):
    write_parquet(tmp_path / "new.parquet", new[0])
    options = ("--std", "--kind", "mean", "--dtype", "float64")
    found, others = transform(folder / "plain", tmp_path / "new.parquet", out=tmp_path, options=options)
    model = dbmd.load(folder / "plain")
    H, std = model.transform(pd.DataFrame(new[0], columns=names(M)), return_std=True, kind="mean")
    np.testing.assert_allclose(found, np.hstack([H, std]), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(others["cluster"], H.argmax(axis=1))
    columns = pq.read_schema(tmp_path / "out.parquet").names
    assert columns == ["cluster", *(f"dbmd{k}" for k in range(3)), *(f"dbmd{k}_std" for k in range(3))]
    for ending in ("npy", "h5ad"):
        output = ("-o", tmp_path / f"H.{ending}", "--std")
        said = run("transform", folder / "plain", tmp_path / "new.parquet", *output, code=2).stderr
        assert f"--std: {ending} files have no place for standard deviations: write parquet or csv." in said
