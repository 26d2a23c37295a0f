"""``dbmd fit``: the same model as Python's, with its page and its summary."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dbmd
import tables
from cli.running import names, run, samples, write_csv, write_parquet
from dbmd import DBMD


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    X, source = samples(150)
    write_parquet(folder / "data.parquet", X, lab=source, kind=np.arange(150) % 3, id=np.arange(150))
    for i in range(3):
        write_csv(folder / f"part-{i}.csv", X[50 * i : 50 * i + 50])
    np.save(folder / "start.npy", X[:3])
    return folder


def fitted(*arguments, out):
    run("fit", *arguments, "-o", out / "model", "--overwrite", "-q", "--no-report")
    return dbmd.load(out / "model")


def assert_same_fit(mine, other):
    np.testing.assert_array_equal(mine.components_, other.components_)
    np.testing.assert_array_equal(mine.noise_variance_, other.noise_variance_)
    assert mine.sources_.tolist() == other.sources_.tolist()
    assert mine.objective_ == other.objective_


OPTIONS = {
    "defaults": ([], {}),
    "prior": (["--inference", "map", "--alpha", "1.5"], {"inference": "map", "alpha": 1.5}),
    "noise": (["--noise", "shared"], {"noise": "shared"}),
    "fixed noise": (["--noise", "0.5"], {"noise": 0.5}),
    "starts": (
        ["--n-init", "3", "--seed", "4", "--init", "random"],
        {"n_init": 3, "random_state": 4, "init": "random"},
    ),
    "ends": (["--tol", "0.01", "--max-iter", "300"], {"tol": 0.01, "max_iter": 300}),
    "solver": (
        ["--solver", "admm", "--solver-option", "rho=2.5", "--solver-option", "max_rounds=2000", "--nodes", "2"],
        {"solver": "admm", "solver_options": {"rho": 2.5, "max_rounds": 2000}, "n_nodes": 2},
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_model_is_that_of_python_with_the_same_parameters(name, folder, tmp_path):
    options, params = OPTIONS[name]
    path = folder / "data.parquet"
    mine = fitted(path, "-k", "3", "--source", "lab", "--drop", "id", "--drop", "kind", *options, out=tmp_path)
    data = dbmd.open_data(path, source="lab", drop=["id", "kind"])
    other = DBMD(3, **{"random_state": 0} | params).fit(data)
    assert_same_fit(mine, other)
    assert mine.get_params() == other.get_params()
    X, source = samples(150)
    in_memory = DBMD(3, **{"random_state": 0} | params).fit(pd.DataFrame(X, columns=names(4)), source=source)
    np.testing.assert_allclose(mine.components_, in_memory.components_, rtol=1e-7, atol=1e-9)


def test_a_start_can_be_given_as_a_file(folder, tmp_path):
    path = folder / "data.parquet"
    options = ("--columns", "x0,x1,x2,x3", "--init", folder / "start.npy")
    mine = fitted(path, "-k", "3", *options, out=tmp_path)
    X, _ = samples(150)
    assert_same_fit(mine, DBMD(3, init=X[:3]).fit(dbmd.open_data(path, columns=names(4))))


@pytest.mark.parametrize("variant", tables.PLAIN)
def test_every_format_gives_the_same_fit(variant, tmp_path, rng):
    table = tables.table(rng, 300, 5)
    written = tables.PLAIN[variant].write(table, tmp_path, "data")
    drop = ("--drop", written.note) if written.note and "h5ad" not in variant else ()
    options = ("-k", "3", "--source", written.source, "--label", written.label, "--dtype", "float64", "--tol", "1e-2")
    mine = fitted(written.path, *options, *drop, out=tmp_path)
    X = sparse.csr_array(table.X) if tables.PLAIN[variant].sparse else table.X
    other = DBMD(3, random_state=0, tol=1e-2).fit(X, source=table.sources)
    np.testing.assert_allclose(mine.components_, other.components_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(mine.objective_, other.objective_, rtol=1e-10)
    assert mine.feature_names_in_.tolist() == written.features


def test_each_file_can_be_a_source(folder, tmp_path):
    mine = fitted(*(folder / f"part-{i}.csv" for i in range(3)), "-k", "3", "--source", "@file", out=tmp_path)
    assert mine.sources_.tolist() == ["part-0.csv", "part-1.csv", "part-2.csv"]
    X, _ = samples(150)
    other = DBMD(3, random_state=0).fit(X, source=np.repeat(np.arange(3), 50))
    np.testing.assert_allclose(mine.components_, other.components_, rtol=1e-7, atol=1e-9)


def test_a_folder_is_all_its_files_and_streaming_changes_nothing(folder, tmp_path):
    (tmp_path / "parts").mkdir()
    for i in range(3):
        (tmp_path / "parts" / f"part-{i}.csv").write_bytes((folder / f"part-{i}.csv").read_bytes())
    mine = fitted(tmp_path / "parts", "-k", "3", out=tmp_path)
    streamed = fitted(tmp_path / "parts", "-k", "3", "--memory", "0", out=tmp_path)
    X, _ = samples(150)
    for model in (mine, streamed):
        np.testing.assert_allclose(model.components_, DBMD(3, random_state=0).fit(X).components_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_type_to_compute_with_can_be_chosen(dtype, folder, tmp_path):
    assert fitted(folder / "part-0.csv", "-k", "2", "--dtype", dtype, out=tmp_path).components_.dtype == dtype


# -- the directory and the summary ---------------------------------------------------------------------------------


def test_the_directory_gets_the_model_and_a_page_and_remembers_the_command(folder, tmp_path, monkeypatch):
    arguments = ["fit", folder / "data.parquet", "-k", "3", "--drop", "lab", "--drop", "id", "-o", tmp_path / "a model"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/dbmd", *map(str, arguments)])
    result = run(*arguments)
    assert {path.name for path in (tmp_path / "a model").iterdir()} == {"model.json", "arrays.npz", "report.html"}
    assert [path.name for path in tmp_path.iterdir()] == ["a model"]
    assert str(tmp_path / "a model" / "report.html") in result.stdout
    assert (tmp_path / "a model" / "report.html").read_text("utf-8").startswith("<!")
    command = dbmd.load(tmp_path / "a model").fit_info_["command"]
    assert shlex.split(command) == ["dbmd", *map(str, arguments)]


def test_the_summary_says_what_was_found(folder, tmp_path):
    options = (
        "--source",
        "lab",
        "--label",
        "kind",
        "--drop",
        "id",
        "-o",
        tmp_path / "model",
        "--json",
        "--image-shape",
    )
    found = json.loads(run("fit", folder / "data.parquet", "-k", "3", *options, "2x2").stdout)
    model = dbmd.load(tmp_path / "model")
    assert found["objective"] == model.objective_
    assert found["n_iter"] == model.n_iter_
    assert found["n_features"] == 4
    assert found["n_components"] == 3
    assert found["converged"] is True
    assert found["model"] == str(tmp_path / "model")
    assert found["report"] == str(tmp_path / "model" / "report.html")
    assert set(found["labels"]) >= {"accuracy", "ari", "nmi"}
    noise = {source["name"]: source["noise"] for source in found["sources"]}
    assert noise["berlin"] < noise["lima"] < noise["oslo"]
    for source, variance in zip(found["sources"], model.noise_variance_, strict=True):
        assert source["noise_variance"] == variance
        assert source["n"] == 50


def test_the_words_have_all_sources_and_what_to_do_next(folder, tmp_path):
    options = ("--source", "lab", "--label", "kind", "--drop", "id", "-o", tmp_path / "model", "--no-report")
    words = run("fit", folder / "data.parquet", "-k", "3", *options).stdout
    assert words.startswith("Converged in ")
    assert words.index("berlin") < words.index("lima") < words.index("oslo")
    assert "Against the labels: accuracy" in words
    assert f"dbmd transform {tmp_path / 'model'}" in words
    assert "report.html" not in words


def test_many_sources_are_not_all_listed(tmp_path):
    X, _ = samples(150)
    write_parquet(tmp_path / "data.parquet", X, lab=np.arange(150) % 30)
    words = run(
        "fit", tmp_path / "data.parquet", "-k", "2", "--source", "lab", "-o", tmp_path / "m", "--no-report"
    ).stdout
    assert "... 19 more" in words


def test_data_without_variance_give_sound_json(tmp_path):
    np.save(tmp_path / "ones.npy", np.ones((20, 3)))

    def refuse(constant):
        raise AssertionError(constant)

    out = run("fit", tmp_path / "ones.npy", "-k", "2", "-o", tmp_path / "model", "--json").stdout
    assert json.loads(out, parse_constant=refuse)["n_samples"] == 20


def test_one_seed_gives_one_model_and_another_another(folder, tmp_path):
    models = [fitted(folder / "part-0.csv", "-k", "3", "--seed", seed, out=tmp_path) for seed in ("1", "1", "2")]
    assert_same_fit(models[0], models[1])
    assert not np.array_equal(models[0].components_, models[2].components_)


def test_overwrite_replaces_a_model(folder, tmp_path):
    fitted(folder / "part-0.csv", "-k", "3", out=tmp_path)
    assert fitted(folder / "part-0.csv", "-k", "2", out=tmp_path).n_components == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_every_parameter_of_the_model_is_an_option():
    from dataclasses import fields

    from dbmd.cli.fit import fit
    from dbmd.config import Config

    offered = {parameter.name for parameter in fit.params}
    renamed = {"random_state": "seed", "solver_options": "solver_option"}
    # A command starts anew, takes all data at once, and has its own ways to talk.
    not_here = {"warm_start", "forget_factor", "verbose"}
    for field in fields(Config):
        if field.name not in not_here:
            assert renamed.get(field.name, field.name) in offered
    defaults = {parameter.name: parameter.default for parameter in fit.params}
    for name in ("solver", "noise", "alpha", "lam", "init", "n_init", "max_iter", "tol", "engine"):
        assert defaults[name] == getattr(Config(), name)


def test_what_is_odd_is_noted_and_not_praised(tmp_path):
    X, _ = samples(400)
    X[:, 1] *= 1e4  # with more, rounding would decide whether the noise level is at its lower limit
    path = write_csv(tmp_path / "a.csv", X, number=np.arange(400))
    result = run("fit", path, "-k", 3, "-o", tmp_path / "model", "--seed", 1)
    notes = [line for line in result.stderr.splitlines() if line.startswith("Note: ")]
    assert len(notes) == 2
    assert "'x1' has over 99% of the variance" in notes[0]
    assert notes[0].endswith("set --scaling standard.")
    assert notes[1].endswith("leave it out with --drop number.")
    assert "explains" not in result.stdout
    assert "--drop number" in (tmp_path / "model" / "report.html").read_text("utf-8")
    quiet = run("fit", path, "-k", 3, "-o", tmp_path / "again", "--seed", 1, "-q", "--json")
    assert quiet.stderr == ""
    assert [each["kind"] for each in json.loads(quiet.stdout)["warnings"]] == ["variance", "identifier"]


def test_a_good_fit_is_told_without_notes(tmp_path):
    X, _ = samples(400)
    result = run("fit", write_csv(tmp_path / "a.csv", X), "-k", 3, "-o", tmp_path / "model")
    assert "Note" not in result.stderr
    assert "explains" in result.stdout
    assert "Before you rely" not in (tmp_path / "model" / "report.html").read_text("utf-8")


def test_a_check_says_what_would_pay(tmp_path):
    X, _ = samples(300, 12)
    X *= np.random.default_rng(0).uniform(0.3, 1.0, (300, 1))
    path = write_csv(tmp_path / "a.csv", X)
    result = run("fit", path, "-k", 3, "-o", tmp_path / "model", "--check")
    assert "with --brightness: samples differ in brightness" in result.stderr
    assert "brightness +" in result.stdout
    assert "with --brightness" in (tmp_path / "model" / "report.html").read_text("utf-8")
    found = json.loads(run("fit", path, "-k", 3, "-o", tmp_path / "b", "--brightness", "--check", "--json").stdout)
    assert found["check"].keys() == {"scaling"}
    assert found["warnings"] == []
    assert dbmd.load(tmp_path / "model").fit_info_["check"].keys() == {"scaling", "brightness"}


def test_the_summary_tells_units_offsets_names_and_gaps(tmp_path):
    X, source = samples(300, 6)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    path = write_parquet(tmp_path / "a.parquet", X, lab=source)
    known = write_csv(tmp_path / "known.csv", np.nan_to_num(X[:1]), name=["blank"])
    options = ["--source", "lab", "--offsets", "--scaling", "standard", "--missing", "allow", "--known", known]
    result = run("fit", path, "-k", 3, "-o", tmp_path / "model", *options)
    assert "offset   noise (standard deviation, in units of standard deviations)" in result.stdout
    assert "Offsets are root mean squares over the features, in the units of the data." in result.stdout
    assert "blank: " in result.stdout
    assert "of the values are missing" in result.stdout
    found = json.loads(run("fit", path, "-k", 3, "-o", tmp_path / "b", "-q", "--json", *options).stdout)
    assert all(source["offset"] >= 0 for source in found["sources"])
    assert [cluster["name"] for cluster in found["clusters"]] == ["blank", "pattern 1", "pattern 2"]
    assert found["missing_fraction"] == pytest.approx(0.05, abs=0.02)
