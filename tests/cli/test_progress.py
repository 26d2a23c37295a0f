"""Progress: a bar on a terminal, lines in a log, nothing if that is asked for."""

import io
import itertools
import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time

import numpy as np
import pytest

from cli.running import run, samples, write_parquet
from dbmd.cli import _phases, _progress
from dbmd.cli._phases import Phases
from dbmd.cli._progress import Progress, duration, iterations_left
from dbmd.model.objective import Objective
from dbmd.model.result import Iteration, State


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, source = samples(150)
    return write_parquet(tmp_path_factory.mktemp("progress") / "data.parquet", X, lab=source)


def fit(data, out, *options):
    return ("fit", data, "-k", "3", "--source", "lab", "--no-report", "-o", out / "model", "--overwrite", *options)


# -- what a command prints -----------------------------------------------------------------------------------------


def test_a_log_has_plain_lines_about_data_iterations_and_notes_and_stdout_the_summary(data, tmp_path):
    result = run(*fit(data, tmp_path, "--max-iter", "5", "--tol", "0"))
    about, *lines, note = result.stderr.splitlines()
    assert about == "150 samples of 4 features, 3 sources; in memory, float64."
    assert all(re.match(r"iteration \d+, objective -?[\d.]+", line) for line in lines)
    assert lines[0].startswith("iteration 1,")
    assert lines[-1].startswith("iteration 5,")
    assert note.startswith("Note: DBMD did not converge in 5 iterations")
    assert "\r" not in result.stderr
    assert "\x1b" not in result.stderr
    assert result.stdout.startswith("Did not converge in 5 iterations")


def test_a_note_on_the_solver_names_options_that_can_be_typed(data, tmp_path):
    slow = ("--solver", "agd", "--solver-option", "max_rounds=1", "--max-iter", "2", "--tol", "1")
    *_, note = run(*fit(data, tmp_path, *slow)).stderr.splitlines()
    assert note.startswith("Note: The solver 'agd' did not converge in 1 rounds")
    assert "Raise --solver-option max_rounds=... or --solver-option tol=..., or take the solver 'exact'." in note
    run(*fit(data, tmp_path / "again", *slow[:2], "--solver-option", "tol=0.1", "--solver-option", "max_rounds=100"))


def test_quiet_prints_nothing_at_all(data, tmp_path):
    result = run(*fit(data, tmp_path, "--max-iter", "5", "--tol", "0", "--quiet"))
    assert result.stdout == result.stderr == ""


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["", "quiet"])
def test_json_is_one_document_on_stdout(options, data, tmp_path):
    result = run(*fit(data, tmp_path, "--json", *options))

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(result.stdout, parse_constant=refuse)
    assert found["n_samples"] == 150
    assert [source["name"] for source in found["sources"]] == ["berlin", "lima", "oslo"]
    assert sum(cluster["samples"] for cluster in found["clusters"]) == 150
    assert (result.stderr == "") == bool(options)


@pytest.mark.slow
def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(data, tmp_path):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [sys.executable, "-m", "dbmd", *map(str, fit(data, tmp_path, "--tol", "0", "--max-iter", "40"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                more = os.read(ours, 4096)
            except OSError:  # Linux says so when the other side is closed
                break
            if not more:
                break
            shown += more
        out = running.stdout.read()
    os.close(ours)
    shown = shown.decode()
    assert running.returncode == 0
    assert out.startswith("Did not converge in 40 iterations")
    bars = [part for part in shown.split("\r") if "passes" in part]
    assert any(re.search(r"fit: .* \d+ passes, objective -?[\d.]+(, about [\d.]+ s left)? \[", bar) for bar in bars)
    assert not re.search(r"^iteration", shown, re.MULTILINE)
    after = shown[shown.rindex("passes") :]
    assert "\r" in after  # the bar is wiped out before notes follow
    assert "Note: " in after


# -- its parts -----------------------------------------------------------------------------------------------------


def states(*starts):
    """Yield the states of fits that take so many iterations each, and then converge."""
    for attempt, n in enumerate(starts):
        history = ()
        for k in range(1, n + 1):
            history += (Iteration(k, 100.0 / k, 0.01, 1, 1, 1, 1, 1, 0.0, True, change=0.5**k),)
            yield State(
                np.zeros((1, 1)),
                np.ones(1),
                np.zeros(1),
                0.0,
                objective=Objective(100.0 / k, 100.0),
                history=history,
                converged=k == n,
                attempt=attempt,
            )


def test_every_start_is_logged_and_the_last_iteration_always(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    with Progress(quiet=False, max_iter=10, tol=1e-3) as progress:
        for state in states(3, 2):
            progress(state)
    lines = [line.split(", objective")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["iteration 1", "iteration 2", "iteration 3", "start 2, iteration 1", "start 2, iteration 2"]


def test_lines_are_seconds_apart_but_the_last_is_there(capsys):
    with Progress(quiet=False, max_iter=100, tol=1e-3) as progress:
        for state in states(50):
            progress(state)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["iteration 1", "iteration 50"]


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(_phases, "SECONDS_TO_A_LINE", 1.0)
    return Clock()


def test_a_log_gets_a_line_about_a_phase_that_takes_a_second_and_one_every_half_a_minute(capsys, clock):
    progress = Phases("reading the data", quiet=False, clock=clock)  # without its thread, which would draw as well
    told = []

    def after(seconds):
        clock.now += seconds
        progress.draw()
        told.extend(capsys.readouterr().err.splitlines())

    after(0.9)
    assert told == []
    progress.read(1000)
    after(0.2)
    after(29.0)
    assert told == ["reading the data, 1,000 rows"]
    after(1.0)
    assert told[1:] == ["reading the data, 1,000 rows"]
    progress.phase("clustering")
    after(0.5)
    progress.phase("fitting")
    after(0.9)
    progress.phase("fitting", 3)  # a step of the same phase
    after(0.2)
    assert told[2:] == ["fitting, iteration 3"]
    progress.rows_of_a_pass = 400
    progress.phase("last pass")
    progress.read(400)
    progress.read(100)  # of the next pass
    after(2.0)
    assert told[3:] == ["last pass, 25% of the rows"]


def test_phases_stand_between_the_iterations_of_a_fit(capsys, clock):
    progress = Progress(quiet=False, max_iter=10, tol=1e-3, clock=clock)
    for state in states(3, 2):
        if len(state.history) == 1:
            progress.phase("fitting")
            clock.now += 5.0
            progress.draw()
        progress(state)
        clock.now += 0.1
        progress.draw()
    progress.phase("last pass")
    clock.now += 5.0
    progress.draw()
    lines = [line.split(", objective")[0] for line in capsys.readouterr().err.splitlines()]
    one = ["fitting", "iteration 1", "iteration 3"]
    assert lines == [*one, "fitting", "start 2, iteration 1", "start 2, iteration 2", "last pass"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_each_phase_and_the_time_goes_on_by_itself(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(_phases, "SECONDS_BETWEEN_FRAMES", 0.005)
    with Phases("reading the data", quiet=False) as progress:
        progress.read(1234)
        deadline = time.monotonic() + 10.0
        while terminal.getvalue().count("reading the data, 1,234 rows [00:0") < 3 and time.monotonic() < deadline:
            time.sleep(0.01)  # nothing is reported meanwhile
        progress.phase("clustering")
        progress.draw()
        progress.print_line("A line.")
    frames = re.split(r"[\r\n]+", terminal.getvalue())
    assert len([frame for frame in frames if frame.startswith("reading the data, 1,234 rows [")]) >= 3
    assert any(frame.startswith("clustering [") for frame in frames)
    assert "A line." in frames
    assert not frames[-1].strip()  # it is wiped out


def test_a_terminal_shows_phases_then_iterations_then_phases(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(_phases, "SECONDS_BETWEEN_FRAMES", 60.0)
    with Progress(quiet=False, max_iter=10, tol=1e-3) as progress:
        for name in ("fitting", "last pass"):
            progress.phase(name)
            progress.draw()
            for state in states(4 if name == "fitting" else 0):
                progress(state)
    frames = [frame.strip() for frame in re.split(r"[\r\n]+", terminal.getvalue()) if frame.strip()]
    kinds = [re.match(r"fitting|last pass|fit(?=: .* passes, objective)|", frame)[0] for frame in frames]
    assert [kind for kind, _ in itertools.groupby(kinds) if kind] == ["fitting", "fit", "last pass"]


def test_quiet_has_neither_thread_nor_lines(capsys, clock):
    before = threading.active_count()
    with Phases("reading the data", quiet=True, clock=clock) as progress:
        assert threading.active_count() == before
        clock.now += 100.0
        progress.draw()
    assert capsys.readouterr().err == ""


def test_fit_check_and_transform_tell_what_they_do(data, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Phases, "phase", lambda self, name, step=0: told.append(name))
    run(*fit(data, tmp_path, "--check", "--scaling", "standard"))
    assert "comparing fits of a sample with and without offsets" in told
    assert told.count("finding the scales of the features") == 2  # of the check and of the fit
    assert told[-1] == "finding the last memberships"
    told.clear()
    run("transform", tmp_path / "model", data, "-o", tmp_path / "H.csv")
    assert told == ["finding the noise of the sources", "finding memberships"]


def test_a_fit_that_stops_before_its_first_iteration_logs_nothing(capsys):
    with Progress(quiet=False, max_iter=100, tol=1e-3):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_the_iterations_left_are_right_for_a_geometric_decrease(rate):
    decreases = [rate**k for k in range(20)]
    left = iterations_left(decreases, 1e-6, 10_000)
    assert rate ** (19 + left) <= 1e-6 * 1.0001
    assert rate ** (19 + left - 1) > 1e-6 * 0.9999


def test_the_iterations_left_are_never_more_than_there_may_be():
    assert iterations_left([1.0, 1.0], 1e-3, 7) is None  # too early to say
    assert iterations_left([1.0, 1.0, 1.0], 1e-3, 7) == 7  # it does not fall
    assert iterations_left([1.0, 2.0, 3.0], 1e-3, 7) == 7
    assert iterations_left([1.0, 0.99, 0.98], 1e-3, 7) == 7
    assert iterations_left([1.0, 0.5, 0.1], 0.0, 7) == 7
    assert iterations_left([1.0, 0.5, 0.1], 0.2, 7) == 0
    assert iterations_left([1.0, -1.0, 0.5, 0.0], 0.2, 7) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (119.4, "119 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_times_are_for_people(seconds, text):
    assert duration(seconds) == text
