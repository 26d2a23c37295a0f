"""A fit that is stopped or killed goes on with --resume, and ends where one that ran through ends."""

import json

import numpy as np
import pytest

import dbmd
from cli.resuming import BASE, FITS, MANY, assert_same_model, checkpoint_of, command, reached, resume
from cli.running import refused, run, samples, write_parquet
from dbmd.algorithm import COLD_EVERY
from dbmd.saved.checkpoint import Checkpoint


@pytest.mark.parametrize("kind", ["numbers", "rows"])
def test_a_file_that_changes_during_a_fit_is_said_and_the_checkpoint_stays(kind, tmp_path, monkeypatch):
    X, _ = samples(600, m=6, r=4)
    model, file = tmp_path / "model", tmp_path / "data.npy"
    np.save(file, X)
    fit = ("fit", file, "-k", "4", *MANY, "--no-report", "-q", "--memory", "0")
    run(*fit, "-o", tmp_path / "whole")
    write = Checkpoint.write

    def write_and_change(self):
        np.save(file, X + 1 if kind == "numbers" else X[:-100])
        return write(self)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", write_and_change)
        said = refused(*fit, "-o", model, "--checkpoint", "0")
    assert said.startswith(f"{file}: has changed since it was opened. All passes must read the same rows: ")
    assert reached(model) == 1
    assert not model.exists()
    np.save(file, X)
    run(*fit, "-o", model, "--resume")
    assert_same_model(model, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_wherever_a_fit_ended_it_goes_on_to_the_same_end(name, data, tmp_path, kill_after):
    whole = json.loads(run(*command(data, name, "-o", tmp_path / "whole", "--json")).stdout)
    assert whole["n_iter"] > COLD_EVERY
    model = tmp_path / "model"
    fit = command(data, name, "-o", model, "--checkpoint", "0", "--resume")
    for iterations in (3, 14, 17, 25):  # of each run: before there is anything, and not at round numbers
        if iterations < whole["n_iter"] - reached(model):
            kill_after(iterations)
            run(*fit, code=1)
            assert not model.exists()
    assert checkpoint_of(model).exists()
    kill_after(10**6)
    run(*fit)
    assert_same_model(model, tmp_path / "whole")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["model", "whole"]


def test_seconds_before_the_stop_count(data, tmp_path, kill_after):
    fit = command(data, "one source", "-o", tmp_path / "model", "--checkpoint", "0")
    kill_after(25)
    run(*fit, code=1)
    kill_after(10**6)
    run(*fit, "--resume")
    model = dbmd.load(tmp_path / "model")
    assert model.fit_info_["seconds"] >= sum(record.seconds for record in model.history_[: 2 * COLD_EVERY])


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "5"], " -k was 4 and is 5"),
        (["--inference", "evidence"], " --inference was map and is evidence"),
        (["--alpha", "1.5"], " --alpha was 1.0 and is 1.5"),
        (["--lam", "0.5"], " --lam was 0.0 and is 0.5"),
        (["--solver", "agd"], " --solver was exact and is agd"),
        (["--noise", "shared"], " --noise was source and is shared"),
        (["--noise", "1"], " --noise was source and is 1.0"),
        (["--seed", "1"], " --seed was 0 and is 1"),
        (["--tol", "1e-6"], " --tol was 1e-05 and is 1e-06"),
        (["--max-iter", "48"], " --max-iter was 47 and is 48"),
        (["--init", "random"], " --init was k-means++ and is random"),
        (["--n-init", "2"], " --n-init was 1 and is 2"),
        (["--solver-option", "tol=1e-9"], " --solver-option was None and is"),
        (["--dtype", "float32"], " --dtype was float64 and is float32"),
        (["--memory", "0"], "--memory was enough for the memberships and is not enough"),
        (["--drop", "x5"], "the data are not the same"),
        (["--columns", "x1,x0,x2,x3,x4,x5"], "the data are not the same"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_another_parameter_is_refused_by_name(options, told, stopped):
    sentence = refused(*resume(stopped, *options))
    assert told in sentence
    assert "model.checkpoint" in sentence
    assert "--overwrite" in sentence
    assert not (stopped / "model").exists()
    run(*resume(stopped))  # the checkpoint is still good


def one_entry(X, source):
    X[17, 3] += 1e-9
    return X, source


def one_source(X, source):
    source[5], source[6] = source[6], source[5]
    return X, source


def one_column_more(X, source):
    return np.column_stack([X, X[:, 0]]), source


def one_row_more(X, source):
    return np.vstack([X, X[:1]]), np.append(source, source[0])


def two_columns_swapped(X, source):
    return X[:, [1, 0, 2, 3, 4, 5]], source


@pytest.mark.parametrize("change", [one_entry, one_source, one_column_more, one_row_more, two_columns_swapped])
def test_other_data_are_refused(change, stopped):
    X, source = change(*samples(600, m=6, r=4))
    write_parquet(stopped / "other.parquet", X, lab=source)
    assert "the data are not the same" in refused(*resume(stopped, data="other.parquet"))


def test_a_start_that_is_an_array_is_compared_but_not_printed(data, tmp_path, kill_after):
    X, _ = samples(600, m=6, r=4)
    np.save(tmp_path / "start.npy", X[:4])
    fit = command(data, "one source", "-o", tmp_path / "model", "--checkpoint", "0", "--init", tmp_path / "start.npy")
    kill_after(15)
    run(*fit, code=1)
    kill_after(10**6)
    np.save(tmp_path / "start.npy", X[1:5])
    sentence = refused(*fit, "--resume")
    assert "init" in sentence
    assert len(sentence) < 300
    np.save(tmp_path / "start.npy", X[:4])
    run(*fit, "--resume")


@pytest.mark.parametrize(
    "options", [("--nodes", "5"), ("--memory", "100MB"), ("--label", "kind"), ("--checkpoint", "9")]
)
def test_what_does_not_move_the_result_may_differ_and_files_may_have_moved(options, stopped):
    X, source = samples(600, m=6, r=4)
    (stopped / "data.parquet").unlink()
    extra = {"kind": np.arange(600) % 2} if "kind" in options else {}
    write_parquet(stopped / "moved.parquet", X, lab=source, **extra)
    run("fit", stopped / "moved.parquet", *BASE, *options, "-o", stopped / "whole")
    assert run(*resume(stopped, *options, data="moved.parquet")).stderr == ""
    mine, whole = dbmd.load(stopped / "model"), dbmd.load(stopped / "whole")
    np.testing.assert_allclose(mine.components_, whole.components_, rtol=1e-6)
    np.testing.assert_allclose(mine.objective_, whole.objective_, rtol=1e-10)
    assert mine.n_iter_ == whole.n_iter_
    assert not checkpoint_of(stopped / "model").exists()
