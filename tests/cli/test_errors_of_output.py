"""Outputs and models that cannot be used, and how an error is said: one sentence, whatever goes wrong."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from cli.running import process, refused, run, samples
from dbmd.cli import main
from dbmd.cli._errors import STOPS, on_stops

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
