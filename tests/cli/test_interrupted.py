"""Checkpoints, locks, full disks and signals: whatever interrupts a fit, nothing is lost."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import dbmd
from cli.resuming import BASE, assert_same_model, checkpoint_of, command, resume
from cli.running import process, refused, run, samples, wait_for, write_parquet
from dbmd import storage
from dbmd.algorithm import COLD_EVERY
from dbmd.saved.lock import Lock

# -- the life of a checkpoint --------------------------------------------------------------------------------------


def test_a_checkpoint_is_not_forgotten_unless_told_to(stopped):
    checkpoint = checkpoint_of(stopped / "model")
    before = checkpoint.read_bytes()
    fit = ("fit", stopped / "data.parquet", *BASE, "-o", stopped / "model")
    sentence = refused(*fit)
    assert "--resume" in sentence
    assert "--overwrite" in sentence
    assert checkpoint.read_bytes() == before
    run(*fit, "--overwrite")
    assert not checkpoint.exists()


def test_without_a_checkpoint_resume_starts_from_scratch(data, tmp_path):
    run(*command(data, "one source", "-o", tmp_path / "whole"))
    run(*command(data, "one source", "-o", tmp_path / "model", "--resume"))
    assert_same_model(tmp_path / "model", tmp_path / "whole")


def test_a_finished_fit_says_so(data, tmp_path):
    fit = [*command(data, "one source", "-o", tmp_path / "model")]
    found = json.loads(run(*fit, "--json").stdout)
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    fit.remove("-q")
    result = run(*fit, "--resume")
    assert result.stdout == ""
    assert "finished" in result.stderr
    assert run(*fit, "--resume", "-q").output == ""
    assert json.loads(run(*fit, "--resume", "--json").stdout) == found
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


def test_a_run_that_overwrites_and_is_killed_leaves_the_old_model_and_can_go_on(stopped, kill_after):
    run(*resume(stopped))
    fit = ("fit", stopped / "data.parquet", *BASE, "-o", stopped / "model", "--checkpoint", "0", "--seed", "3")
    kill_after(15)
    run(*fit, "--overwrite", code=1)
    assert dbmd.load(stopped / "model").random_state == 0
    kill_after(10**6)
    run(*fit, "--resume")
    assert dbmd.load(stopped / "model").random_state == 3
    assert not checkpoint_of(stopped / "model").exists()


@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_a_truncated_checkpoint_is_an_error_and_stays(part, stopped):
    checkpoint = checkpoint_of(stopped / "model")
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(part * len(content))])
    assert "model.checkpoint cannot be read" in refused(*resume(stopped))
    assert checkpoint.exists()


def test_a_checkpoint_that_is_none_is_an_error(stopped):
    checkpoint = checkpoint_of(stopped / "model")
    for content in (b"text", (stopped / "data.parquet").read_bytes()):
        checkpoint.write_bytes(content)
        assert "model.checkpoint cannot be read" in refused(*resume(stopped))
    with open(checkpoint, "wb") as file:
        np.savez(file, other=np.zeros(3))
    assert "is not a checkpoint" in refused(*resume(stopped))
    checkpoint.unlink()
    os.mkfifo(checkpoint)
    assert "model.checkpoint cannot be read: it is a pipe" in refused(*resume(stopped))


def test_progress_says_where_it_goes_on(stopped):
    fit = [argument for argument in resume(stopped) if argument != "-q"]
    assert f"Going on after iteration {COLD_EVERY}." in run(*fit).stderr


def test_a_checkpoint_can_be_written_beside_a_model_in_a_new_folder(data, tmp_path, kill_after):
    model = tmp_path / "new" / "model"
    kill_after(15)
    run(*command(data, "one source", "-o", model, "--checkpoint", "0"), code=1)
    assert checkpoint_of(model).exists()


# -- one at a time -------------------------------------------------------------------------------------------------


def test_two_fits_into_one_place_are_not_begun(stopped):
    before = checkpoint_of(stopped / "model").read_bytes()
    for options in ([], ["--overwrite"]):
        with Lock(stopped / "model"):
            sentence = refused(*resume(stopped, *options))
            assert f"{stopped / 'model'} is being written by process {os.getpid()}" in sentence
            assert (stopped / "model.lock").exists()
    assert checkpoint_of(stopped / "model").read_bytes() == before
    run(*resume(stopped))
    assert {path.name for path in stopped.iterdir()} == {"data.parquet", "model"}


@pytest.mark.parametrize("is_finished", [False, True])
def test_what_a_kill_left_while_it_wrote_is_removed_by_resume(is_finished, stopped, kill_after):
    if is_finished:
        run(*resume(stopped))
    (stopped / ".model.writing-4194305").mkdir()
    (stopped / ".model.writing-4194305" / "model.json").write_text("of the model before")
    (stopped / ".model.checkpoint.writing-4194305").write_text("half")
    (stopped / "model.lock").write_text("")
    kill_after(1)  # before anything is written
    run(*resume(stopped), code=0 if is_finished else 1)
    left = {"model"} if is_finished else {"model.checkpoint"}
    assert {path.name for path in stopped.iterdir()} == {"data.parquet", *left}


# -- disks that are full -------------------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch):
    """Return a function that lets the disk be full for files whose names hold one of some texts."""
    write = storage._write

    def set_full(*names):
        def refuse(path, content):
            if any(name in str(path) for name in names):
                raise OSError(28, "No space left on device")
            write(path, content)

        monkeypatch.setattr(storage, "_write", refuse)

    return set_full


def test_a_checkpoint_that_cannot_be_written_is_told_once_and_the_fit_goes_on(data, tmp_path, full):
    run(*command(data, "one source", "-o", tmp_path / "whole"))
    full("model.checkpoint")
    result = run(*command(data, "one source", "-o", tmp_path / "model", "--checkpoint", "0"))
    assert result.stderr == (
        f"Warning: {tmp_path / 'model.checkpoint'}: the checkpoint cannot be written (No space left on device). "
        "The fit goes on, and will try again.\n"
    )
    assert_same_model(tmp_path / "model", tmp_path / "whole")


def test_a_model_that_cannot_be_saved_leaves_the_checkpoint_and_says_so(data, tmp_path, full):
    fit = command(data, "one source", "-o", tmp_path / "model")
    full("model.json")
    sentence = refused(*fit)
    assert f"The model cannot be saved: {tmp_path / 'model'}: No space left on device." in sentence
    assert f"is in {tmp_path / 'model.checkpoint'}: go on with --resume." in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["model.checkpoint"]
    full("model.json", "model.checkpoint")
    sentence = refused(*fit, "--overwrite")
    assert "The state cannot be saved" in sentence
    full()
    run(*fit, "--resume")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_report_that_cannot_be_written_leaves_the_model_and_says_so(data, tmp_path, full):
    fit = [argument for argument in command(data, "one source", "-o", tmp_path / "model") if argument != "--no-report"]
    full("report.html")
    sentence = refused(*fit)
    assert f"The model is saved in {tmp_path / 'model'}, but not its report" in sentence
    assert f"{tmp_path / 'model' / 'report.html'}: No space left on device." in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    dbmd.load(tmp_path / "model")


# -- processes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Data and options whose fit takes long enough to be killed several times."""
    folder = tmp_path_factory.mktemp("long")
    for dtype in ("float32", "float64"):
        X, source = samples(2000, m=8, r=4, dtype=dtype)
        write_parquet(folder / f"{dtype}.parquet", X, lab=source)
    return folder


LONG = ("-k", "4", "--source", "lab", "--inference", "map", "--alpha", "1.5", "--tol", "0", "--no-report")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("float64.parquet", ("--n-init", "2", "--max-iter", "100")),
        ("float32.parquet", ("--memory", "0", "--max-iter", "100")),
    ],
    ids=["float64", "float32, streamed"],
)
def test_a_fit_that_is_killed_again_and_again_ends_like_one_that_is_not(file, options, long, tmp_path):
    rng = np.random.default_rng(len(options) + len(file))
    run("fit", long / file, *LONG, *options, "-o", tmp_path / "whole", "-q")
    model, checkpoint, kills = tmp_path / "model", tmp_path / "model.checkpoint", 0

    def version():
        try:
            return checkpoint.stat().st_ino, checkpoint.stat().st_mtime_ns
        except FileNotFoundError:
            return None

    while not model.exists():
        running = process("fit", long / file, *LONG, *options, "-o", model, "--checkpoint", "0", "--resume", "-q")
        if kills < 3:
            for _ in range(rng.integers(1, 3)):  # writes to wait for
                before = version()
                wait_for(lambda before=before: version() != before, running)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(rng.uniform(0, 0.02))
            running.kill()
            kills += running.wait() == -signal.SIGKILL
        out, err = running.communicate(timeout=60)
        assert out == ""
        assert err == ""
        assert running.returncode in (0, -signal.SIGKILL)
    assert kills == 3, "the fit was over too soon: it proves nothing"
    assert_same_model(model, tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "whole"]


STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_a_signal_saves_the_state_and_says_how_to_go_on(number, long, tmp_path, kill_after):
    # Without memory for memberships, every state can be gone on from, the first one too.
    fit = ("fit", long / "float64.parquet", *LONG, "--max-iter", "1000", "--memory", "0", "-o", tmp_path / "model")
    running = process(*fit)
    assert any(line.startswith("iteration 1,") for line in running.stderr)
    assert not (tmp_path / "model.checkpoint").exists()
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert out == ""
    assert "Traceback" not in err
    done = re.search(r"The state after iteration (\d+) is in (\S+): go on with --resume\.", err)
    assert done[2] == str(tmp_path / "model.checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == ["model.checkpoint"]
    kill_after(1)
    assert f"Going on after iteration {done[1]}." in run(*fit, "--resume", code=1).stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_a_signal_before_the_first_iteration_says_that_nothing_was_saved(number, tmp_path):
    # While the data are read, to be sure.
    code = f"""
import os, sys, dbmd.dataset
dbmd.dataset.open_data = lambda *arguments, **options: os.kill(os.getpid(), {int(number)})
from dbmd.cli import main
main(["fit", "data.csv", "-k", "2", "-o", {str(tmp_path / "model")!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + number
    assert done.stdout == ""
    assert done.stderr.endswith("\nStopped before there was anything to save.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_that_a_library_handles_in_its_own_way_saves_the_state(data, tmp_path):
    code = f"""
from dbmd.cli import main
from dbmd.cli._progress import Progress
def interrupt(self, state):
    raise KeyboardInterrupt
Progress.__call__ = interrupt
main({[str(argument) for argument in command(data, "streamed", "-o", tmp_path / "model")]!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert "The state after iteration 1 is in " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.checkpoint"]


@pytest.mark.slow
def test_a_signal_while_the_model_is_saved_loses_nothing(data, tmp_path):
    fit = [str(argument) for argument in command(data, "one source", "-o", tmp_path / "model")]
    code = f"""
import os, dbmd.saved.directory
dbmd.saved.directory.write_directory = lambda *arguments, **options: os.kill(os.getpid(), {int(signal.SIGTERM)})
from dbmd.cli import main
main({fit!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert "is in " + str(checkpoint_of(tmp_path / "model")) in done.stderr
    run(*fit, "--resume")
    run(*command(data, "one source", "-o", tmp_path / "whole"))
    assert_same_model(tmp_path / "model", tmp_path / "whole")


def test_a_finished_model_of_other_data_or_parameters_is_not_taken_for_this_one(stopped):
    run(*resume(stopped))
    run(*resume(stopped))  # there is nothing to do, and that is no error
    assert "is finished, and was made with another -k" in refused(*resume(stopped, "-k", "5"))
    X, source = samples(600, m=6, r=4)
    X[17, 3] += 1.0
    write_parquet(stopped / "data.parquet", X, lab=source)
    assert "is finished, and was made with other data" in refused(*resume(stopped))
