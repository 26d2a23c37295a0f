"""What goes wrong is said in one sentence: exit code 2, nothing on stdout, no traceback."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from cli.running import process, refused, run, samples, write_csv, write_parquet
from dbmd.cli import main
from dbmd.cli._errors import STOPS, on_stops


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sound files, and a model of them: tests write beside them."""
    folder = tmp_path_factory.mktemp("errors")
    X, source = samples(60)
    write_parquet(folder / "good.parquet", X, lab=source)
    write_csv(folder / "good.csv", X, lab=source)
    np.save(folder / "good.npy", X)
    run("fit", folder / "good.csv", "-k", "3", "--drop", "lab", "-o", folder / "model", "--no-report", "-q")
    return folder


COMMANDS = {
    "fit": lambda folder, out, *files: ("fit", *files, "-k", "2", "-o", out / "new"),
    "transform": lambda folder, out, *files: ("transform", folder / "model", *files, "-o", out / "new.parquet"),
}


# -- files ---------------------------------------------------------------------------------------------------------


def missing(folder, out):
    return out / "none.csv", ["none.csv", "no such file"]


def truncated_parquet(folder, out):
    path = out / "cut.parquet"
    path.write_bytes((folder / "good.parquet").read_bytes()[:-100])
    return path, ["cut.parquet"]


def empty_parquet(folder, out):
    path = out / "empty.parquet"
    path.touch()
    return path, ["empty.parquet", "empty"]


def truncated_npy(folder, out):
    path = out / "cut.npy"
    path.write_bytes((folder / "good.npy").read_bytes()[:-100])
    return path, ["cut.npy"]


def short_row(folder, out):
    path = out / "short.csv"
    path.write_text("x0,x1,x2,x3\n1,2,3,4\n1,2,3\n5,6,7,8\n")
    return path, ["short.csv", "line 3", "3 fields", "4"]


def word(folder, out):
    path = out / "word.csv"
    path.write_text("x0,x1,x2,x3\n" + "1,2,3,4\n" * 3 + "1,many,3,4\n")
    return path, ["word.csv", "line 5", "'x1'", "'many'"]


def empty_csv(folder, out):
    path = out / "empty.csv"
    path.touch()
    return path, ["empty.csv", "empty"]


def header_only(folder, out):
    path = out / "header.csv"
    path.write_text("x0,x1,x2,x3\n")
    return path, ["header.csv", "no rows"]


def nan_in_csv(folder, out):
    path = out / "nan.csv"
    path.write_text("x0,x1,x2,x3\n1,2,3,4\n1,2,NaN,4\n5,6,7,8\n")
    return path, ["nan.csv", "line 3", "'x2'"]


def nan_in_parquet(folder, out):
    X, _ = samples(40)
    X[7, 2] = np.nan
    return write_parquet(out / "nan.parquet", X), ["nan.parquet", "row 8", "'x2'"]


def infinity_in_npy(folder, out):
    X, _ = samples(40)
    X[9, 1] = np.inf
    np.save(out / "inf.npy", X)
    return out / "inf.npy", ["inf.npy", "row 10", "'1'", "inf"]


def infinity_in_npz(folder, out):
    X, _ = samples(40)
    X[9, 1] = -np.inf
    sparse.save_npz(out / "inf.npz", sparse.csr_matrix(X))
    return out / "inf.npz", ["inf.npz", "row 10", "'1'", "-inf"]


def pickle_in_npy(folder, out):
    np.save(out / "pickle.npy", np.array([{"x": 1}, None], object))
    return out / "pickle.npy", ["pickle.npy"]


def unknown_format(folder, out):
    path = out / "data.xlsx"
    path.write_bytes(b"PK")
    return path, ["data.xlsx", ".parquet"]


def empty_folder(folder, out):
    (out / "nothing").mkdir()
    return out / "nothing", ["nothing", "empty"]


FILES = (
    missing,
    truncated_parquet,
    empty_parquet,
    truncated_npy,
    short_row,
    word,
    empty_csv,
    header_only,
    nan_in_csv,
    nan_in_parquet,
    infinity_in_npy,
    infinity_in_npz,
    pickle_in_npy,
    unknown_format,
    empty_folder,
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("broken", FILES, ids=lambda broken: broken.__name__)
def test_a_file_that_cannot_be_used_is_named_with_the_place_and_nothing_is_written(broken, command, folder, tmp_path):
    path, told = broken(folder, tmp_path)
    before = sorted(tmp_path.iterdir())
    sentence = refused(*COMMANDS[command](folder, tmp_path, path))
    for part in told:
        assert part in sentence
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_files_with_different_columns_are_refused(command, folder, tmp_path):
    X, _ = samples(20, m=5)
    write_parquet(tmp_path / "a.parquet", X[:, :4])
    write_parquet(tmp_path / "b.parquet", X)
    sentence = refused(*COMMANDS[command](folder, tmp_path, tmp_path / "a.parquet", tmp_path / "b.parquet"))
    assert "b.parquet" in sentence
    assert "'x4'" in sentence


# -- columns and parameters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--source", "lap"], ["good.csv", "'lap'", "Did you mean 'lab'?"]),
        (["--label", "kind"], ["good.csv", "'kind'"]),
        (["--drop", "lab", "--columns", "x0,y"], ["good.csv", "'y'"]),
        (["--drop", "id"], ["good.csv", "'id'"]),
        (["--encode", "colour"], ["good.csv", "'colour'"]),
        ([], ["good.csv", "'lab'", "--drop lab", "--encode lab"]),
        (["--columns", "x0,x0"], ["good.csv", "'x0'", "twice"]),
        (["--columns", "x0,lab", "--source", "lab"], ["good.csv", "'lab'", "only one"]),
        (["--columns", ",", "--drop", "lab"], ["good.csv", "no columns"]),
    ],
)
def test_columns_that_do_not_fit_are_named(options, told, folder, tmp_path):
    sentence = refused("fit", folder / "good.csv", "-k", "2", "-o", tmp_path / "new", *options)
    for part in told:
        assert part in sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "0"], ["-k must be", "0"]),
        (["-k", "61"], ["-k must be", "61", "60"]),
        (["--alpha", "0.5"], ["alpha", "0.5"]),
        (["--alpha", "nan"], ["alpha", "nan"]),
        (["--lam", "-1"], ["lam", "-1"]),
        (["--tol", "-1"], ["--tol must be a float >= 0. Got -1.0."]),
        (["--tol", "nan"], ["--tol must be a float >= 0. Got nan."]),
        (["--lam", "inf"], ["--lam must be", "inf"]),
        (["--noise", "nan"], ["--noise must be", "nan"]),
        (["--effective-features", "inf"], ["--effective-features must be", "inf"]),
        (["--solver-option", "tol=nan"], ["--solver-option tol must be", "nan"]),
        (["--max-iter", "0"], ["--max-iter must be", "0"]),
        (["--n-init", "0"], ["--n-init must be", "0"]),
        (["--nodes", "0"], ["--nodes must be", "0"]),
        (["--noise", "-2"], ["noise", "-2"]),
        (["--init", "best"], ["init", "best"]),
        (["--init", "none.npy"], ["none.npy"]),
        (["--solver", "admm", "--solver-option", "rho=-1"], ["rho", "-1"]),
        (["--solver-option", "speed=1"], ["'speed'", "exact"]),
        (["--solver", "agd", "--solver-option", "max_rounds=1.5"], ["max_rounds", "1.5"]),
        (["--image-shape", "3x3"], ["3", "4"]),
    ],
)
def test_wrong_values_are_told_with_what_is_allowed(options, told, folder, tmp_path):
    sentence = refused("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", "-q", *options)
    for part in told:
        assert part.lower() in sentence.lower()
    assert "----" not in sentence
    assert not list(tmp_path.iterdir())


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


STARTS = {
    "a pipe": None,
    "an empty file": b"",
    "a file of text": b"no array",
    "objects": npy(np.array([{}], object)),
    "complex numbers": npy(np.ones((3, 4)) + 1j),
    "texts": npy(np.full((3, 4), "a")),
    "half a header": npy(np.ones((3, 4)))[:60],
    "a header that is no Python": npy(np.ones((3, 4))).replace(b"'descr'", b"((((((("),
    "a negative size": npy(np.ones((3, 4))).replace(b"(3, 4)", b"(-1,4)"),
    "too few numbers": npy(np.ones((3, 4)))[:-8],
    "another version of the format": b"\x93NUMPY\x09" + npy(np.ones((3, 4)))[7:],
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_is_no_array_of_numbers_is_named(name, folder, tmp_path):
    if STARTS[name] is None:
        os.mkfifo(tmp_path / "start.npy")
    else:
        (tmp_path / "start.npy").write_bytes(STARTS[name])
    sentence = refused("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", "--init", tmp_path / "start.npy")
    assert "start.npy" in sentence


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "many"], "-k"),
        (["--solver", "best"], "--solver"),
        (["--noise", "loud"], "'loud'"),
        (["--memory", "much"], "'much'"),
        (["--checkpoint", "-1"], "--checkpoint"),
        (["--checkpoint", "nan"], "--checkpoint"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "4294967296"], "--seed"),
        (["--image-shape", "3"], "'3'"),
        (["--dtype", "int8"], "--dtype"),
        (["--solver-option", "rho"], "NAME=VALUE"),
        (["--solver-option", "rho=high"], "NAME=VALUE"),
        (["--unknown"], "--unknown"),
    ],
)
def test_what_the_command_line_does_not_know_is_told_with_the_option(options, told, folder, tmp_path):
    result = run("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", *options, code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert told in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "a.npy"], ["fit", "-k", "3", "-o", "m"], ["transform"], ["go"]])
def test_what_is_missing_on_the_command_line_is_told(arguments):
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")


# -- outputs and models --------------------------------------------------------------------------------------------


def test_a_model_that_is_there_is_not_replaced(folder):
    before = (folder / "model" / "arrays.npz").read_bytes()
    sentence = refused("fit", folder / "good.npy", "-k", "2", "-o", folder / "model")
    assert "model" in sentence
    assert "--overwrite" in sentence
    assert (folder / "model" / "arrays.npz").read_bytes() == before


@pytest.mark.parametrize("options", [[], ["--overwrite"], ["--resume"]])
def test_a_folder_with_other_files_is_never_replaced(options, folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    sentence = refused("fit", folder / "good.npy", "-k", "2", "-o", tmp_path, *options)
    assert "thesis.txt" in sentence
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_file_is_not_replaced_by_a_model(folder, tmp_path):
    (tmp_path / "model").write_text("mine")
    assert "is a file" in refused("fit", folder / "good.npy", "-k", "2", "-o", tmp_path / "model", "--overwrite")
    assert (tmp_path / "model").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told_before_the_data_are_read(folder, tmp_path):
    (tmp_path / "file").touch()
    sentence = refused("fit", tmp_path / "none.npy", "-k", "2", "-o", tmp_path / "file" / "model")
    assert str(tmp_path / "file") in sentence


def test_a_folder_that_cannot_be_written_to_is_told_before_the_data_are_read(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    sentence = refused("fit", tmp_path / "none.npy", "-k", "2", "-o", tmp_path / "model")
    assert sentence == f"{tmp_path}: there is no permission to write here."


@pytest.mark.parametrize("output", [".", "", "/"])
def test_a_model_needs_a_name(output, folder):
    result = run("fit", folder / "good.npy", "-k", "2", "-o", output, "--overwrite", code=2)
    assert "name a directory" in result.stderr.splitlines()[-1]


def test_memberships_that_are_there_are_not_replaced(folder, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    sentence = refused("transform", folder / "model", folder / "good.npy", "-o", tmp_path / "out.csv")
    assert "out.csv" in sentence
    assert "--overwrite" in sentence
    assert (tmp_path / "out.csv").read_text() == "mine"


def test_memberships_in_a_folder_that_is_not_there_are_refused_under_their_own_name(folder, tmp_path):
    for name in ("out.csv", "out.parquet", "out.npy"):
        sentence = refused("transform", folder / "model", folder / "good.npy", "-o", tmp_path / "none" / name)
        assert str(tmp_path / "none") in sentence
        assert "writing" not in sentence


@pytest.mark.parametrize("ending", ["xlsx", "npz", "CSV", "csv.gz"])
def test_memberships_of_another_format_are_refused(ending, folder, tmp_path):
    result = run("transform", folder / "model", folder / "good.npy", "-o", tmp_path / f"out.{ending}", code=2)
    assert ".parquet, .csv, .npy" in result.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def no_folder(out):
    return out / "none"


def a_file(out):
    (out / "model").write_text("{}")
    return out / "model"


def an_empty_folder(out):
    (out / "model").mkdir()
    return out / "model"


def other_json(out):
    (out / "model").mkdir()
    (out / "model" / "model.json").write_text('{"format": "other"}')
    return out / "model"


def no_json(out):
    (out / "model").mkdir()
    (out / "model" / "model.json").write_text("weights:")
    return out / "model"


def no_arrays(out):
    (out / "model").mkdir()
    (out / "model" / "model.json").write_text(json.dumps({"format": "dbmd-model", "format_version": 1}))
    return out / "model"


@pytest.mark.parametrize("make", [no_folder, a_file, an_empty_folder, other_json, no_json, no_arrays])
def test_what_is_no_model_is_refused(make, folder, tmp_path):
    path = make(tmp_path)
    sentence = refused("transform", path, folder / "good.npy", "-o", tmp_path / "out.csv")
    assert str(path) in sentence
    result = run("report", path, code=2)
    assert result.stdout == ""
    assert str(path) in result.stderr.splitlines()[-1]


def test_a_model_with_pickled_arrays_is_refused(folder, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_bytes((folder / "model" / "model.json").read_bytes())
    np.savez(tmp_path / "model" / "arrays.npz", components=np.array([{}], object))
    assert "arrays.npz" in refused("transform", tmp_path / "model", folder / "good.npy", "-o", tmp_path / "out.csv")


@pytest.mark.parametrize("columns", [3, 5])
def test_data_with_other_columns_than_the_model_are_refused(columns, folder, tmp_path):
    np.save(tmp_path / "other.npy", samples(20, m=columns)[0])
    assert "other.npy" in refused("transform", folder / "model", tmp_path / "other.npy", "-o", tmp_path / "out.csv")


# -- how it is said ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "none.csv", "-k", "2", "-o", "model", "--debug"],
        ["transform", "none", "none.csv", "-o", "out.csv", "--debug"],
    ],
)
def test_debug_at_the_end_shows_the_traceback(arguments):
    running = process(*arguments)
    out, err = running.communicate(timeout=60)
    assert running.returncode != 0
    assert out == ""
    assert err.startswith("Traceback (most recent call last)")
    assert "none" in err.splitlines()[-1]


def test_a_process_fails_with_code_two_and_one_line(tmp_path):
    running = process("fit", tmp_path / "none.csv", "-k", "2", "-o", tmp_path / "model")
    assert running.communicate(timeout=60) == ("", f"Error: {tmp_path / 'none.csv'}: no such file or folder.\n")
    assert running.returncode == 2


def test_a_fault_of_ours_is_said_to_be_ours(folder, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dbmd.cli._fit_run.open_data", fail)
    result = run("fit", folder / "good.npy", "-k", "2", "-o", tmp_path / "new", code=1)
    assert result.stdout == ""
    assert "dbmd itself failed (ZeroDivisionError: a bug)" in result.stderr
    assert "--debug" in result.stderr


def test_too_little_memory_is_said(folder, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError("Unable to allocate 9 GiB.")

    monkeypatch.setattr("dbmd.cli._fit_run.open_data", fail)
    assert "Not enough memory" in refused("fit", folder / "good.npy", "-k", "2", "-o", tmp_path / "new")


def test_threads_that_the_system_refuses_are_said(folder, tmp_path, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    sentence = refused("fit", folder / "good.npy", "-k", "2", "-o", tmp_path / "new", "-q")
    assert sentence.startswith("The system refuses to start another thread")
    assert "ulimit -u" in sentence


def test_a_reader_that_has_seen_enough_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    running = process("info", stdout=writing)
    os.close(writing)
    assert running.communicate(timeout=60)[1] == ""


@pytest.mark.slow
def test_a_closed_stderr_is_no_error(folder, tmp_path):
    running = process("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", preexec_fn=lambda: os.close(2))
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    assert f"The model is in {tmp_path / 'new'}." in out


def test_messages_that_cannot_be_written_end_nothing(folder, tmp_path, monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("click.exceptions.get_text_stderr", Full)
    monkeypatch.setattr("click.utils._default_text_stderr", Full)
    main.main(["fit", str(folder / "good.npy"), "-k", "3", "-o", str(tmp_path / "new")], standalone_mode=False)
    assert (tmp_path / "new" / "report.html").exists()
    with pytest.raises(SystemExit) as ended:
        main.main(["fit", str(tmp_path / "none.npy"), "-k", "3", "-o", str(tmp_path / "newer")])
    assert ended.value.code == 2


INTERRUPTED = """
import os, sys
class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "dbmd.cli.fit":
            os.kill(os.getpid(), int(sys.argv[1]))
sys.meta_path.insert(0, Interrupt())
from dbmd.__main__ import main
main()
"""


@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_a_signal_during_the_imports_ends_without_a_traceback(number):
    command = [sys.executable, "-c", INTERRUPTED, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")


def test_signals_that_are_ignored_from_the_start_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_stops(lambda number, frame: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
