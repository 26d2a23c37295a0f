"""Running: a stopped run goes on, no task is done twice, and the files come from the records alone."""

import json
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from dbmd.errors import DataError
from dbmd.experiments import NAMES, SCALES, runner
from dbmd.experiments.experiment import Claim, Experiment, Table

NAME = "variance-ratio"  # the runner takes the names of the paper's experiments only
FILES = {
    "records.jsonl",
    "table.md",
    "figure-1-line.png",
    "figure-1-line.svg",
    "figure-2-dots.png",
    "figure-2-dots.svg",
}


class Toy:
    """An experiment of four squares that counts what it is asked to do."""

    def __init__(self):
        self.about = {"title": "Squares", "small": {"n": 4}, "paper": {"n": 5}}
        self.asked = []
        self.stop_at = None

    def load(self, name):
        experiment = Experiment(name, self.about)
        experiment.__dict__["run"] = SimpleNamespace(tasks=self.tasks, run=self.run)
        experiment.__dict__["draw"] = SimpleNamespace(draw=self.draw, table=self.table, claims=self.claims)
        return experiment

    def tasks(self, setting):
        return [{"k": k} for k in range(setting["n"])]

    def run(self, task, setting):
        if task["k"] == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(task["k"])
        return [{"square": task["k"] ** 2}]

    def draw(self, records, about):
        figures = {"line": Figure(), "dots": Figure()}
        for figure in figures.values():
            # A curve within its axes is clipped, and the clip has a name in the file.
            figure.subplots().plot([record["k"] for record in records], [record["square"] for record in records])
        return figures

    def table(self, records, about):
        return Table(("k", "square"), tuple((str(r["k"]), str(r["square"])) for r in records), "All of them.")

    def claims(self, records, about):
        return [Claim("Squares grow.", True), Claim("Squares shrink.", False)]


@pytest.fixture
def toy(monkeypatch):
    toy = Toy()
    monkeypatch.setattr(runner.Experiment, "load", toy.load)
    return toy


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_writes_records_figures_and_table(toy, tmp_path):
    ledger = runner.run(NAME, tmp_path)
    assert [record["square"] for record in ledger.records] == [0, 1, 4, 9]
    place = tmp_path / "small" / NAME
    assert set(contents(place)) == FILES
    assert (place / "figure-1-line.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (place / "figure-2-dots.svg").read_bytes()
    text = (place / "table.md").read_text()
    assert "# Squares" in text
    assert "- holds: Squares grow." in text
    assert "- DOES NOT HOLD: Squares shrink." in text
    assert "| 3 | 9 |" in text
    assert "All of them." in text


def test_the_heading_says_what_ran_with_which_setting_on_what(toy, tmp_path):
    runner.run(NAME, tmp_path, scale="paper")
    heading = json.loads((tmp_path / "paper" / NAME / "records.jsonl").read_bytes().split(b"\n")[0])
    assert heading["experiment"] == NAME
    assert heading["scale"] == "paper"
    assert heading["setting"] == {"n": 5}
    assert heading["machine"]["cores"] >= 1


@pytest.mark.parametrize("stop_at", [0, 2, 3])
def test_a_stopped_run_goes_on_and_ends_like_one_that_was_not(toy, tmp_path, stop_at):
    toy.stop_at = stop_at
    with pytest.raises(KeyboardInterrupt):
        runner.run(NAME, tmp_path / "stopped")
    toy.stop_at = None
    told = []
    ledger = runner.run(NAME, tmp_path / "stopped", on_task=lambda task, done, total: told.append((task, done, total)))
    assert toy.asked == [0, 1, 2, 3]
    assert told == [*(({"k": k}, k, 4) for k in range(stop_at, 4)), ({}, 4, 4)]
    through = runner.run(NAME, tmp_path / "through")
    assert ledger.records == through.records


def test_a_finished_run_does_nothing_again_but_draw_the_same_files(toy, tmp_path):
    runner.run(NAME, tmp_path)
    place = tmp_path / "small" / NAME
    before = contents(place)
    for name in before.keys() - {"records.jsonl"}:
        (place / name).unlink()
    runner.run(NAME, tmp_path)
    assert toy.asked == [0, 1, 2, 3]
    assert contents(place) == before


def test_another_setting_is_refused_unless_the_run_is_fresh(toy, tmp_path):
    runner.run(NAME, tmp_path)
    toy.about["small"] = {"n": 2}
    with pytest.raises(DataError, match="another setting"):
        runner.run(NAME, tmp_path)
    ledger = runner.run(NAME, tmp_path, fresh=True)
    assert [record["k"] for record in ledger.records] == [0, 1]


def test_only_runs_with_all_records_of_their_setting_are_finished(toy, tmp_path):
    assert runner.finished(tmp_path, "small") == []
    runner.run(NAME, tmp_path)
    ((experiment, ledger),) = runner.finished(tmp_path, "small")
    assert experiment.name == NAME
    assert len(ledger.records) == 4
    assert runner.finished(tmp_path, "paper") == []

    path = tmp_path / "small" / NAME / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert runner.finished(tmp_path, "small") == []

    runner.run(NAME, tmp_path)
    toy.about["small"] = {"n": 2}
    assert runner.finished(tmp_path, "small") == []


def test_names_and_scales_that_are_not_known_are_answered_with_those_that_are():
    with pytest.raises(ValueError, match=f"Unknown experiment 'nothing'. Known: {', '.join(NAMES)}"):
        Experiment.load("nothing")
    with pytest.raises(ValueError, match=f"Unknown scale 'huge'. Known: {', '.join(SCALES)}"):
        Experiment.load(NAME).setting("huge")
