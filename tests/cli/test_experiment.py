"""``dbmd experiment``."""

import pytest

from cli.running import refused, run
from dbmd.experiments import NAMES, runner
from experiments.test_runner import NAME, Toy


@pytest.fixture
def toy(monkeypatch):
    toy = Toy()
    toy.about |= {"figure": "Figure 0", "question": "How large?"}
    monkeypatch.setattr(runner.Experiment, "load", toy.load)
    return toy


def test_the_list_names_all_of_them():
    told = run("experiment", "list").stdout
    assert [line.split()[0] for line in told.splitlines() if line[:1].isalpha()][: len(NAMES)] == list(NAMES)


def test_a_run_says_what_holds_and_where_the_page_is(toy, tmp_path):
    told = run("experiment", "run", NAME, "-o", tmp_path).stdout
    assert "  holds: Squares grow." in told
    assert "  DOES NOT HOLD: Squares shrink." in told
    assert (tmp_path / "small" / "index.html").is_file()
    assert str(tmp_path / "small" / "index.html") in told
    assert toy.asked == [0, 1, 2, 3]


def test_a_stopped_run_goes_on_and_says_so(toy, tmp_path):
    toy.stop_at = 2
    run("experiment", "run", NAME, "-o", tmp_path, code=130)
    toy.stop_at = None
    told = run("experiment", "run", NAME, "-o", tmp_path)
    assert toy.asked == [0, 1, 2, 3]
    assert "2 of 4 tasks were done before." in told.stderr
    assert "2 of 4" not in run("experiment", "run", NAME, "-o", tmp_path, "--quiet").stderr


def test_fresh_begins_again(toy, tmp_path):
    run("experiment", "run", NAME, "-o", tmp_path)
    run("experiment", "run", NAME, "-o", tmp_path, "--fresh")
    assert toy.asked == [0, 1, 2, 3] * 2


def test_records_of_another_setting_are_refused_in_a_sentence(toy, tmp_path):
    run("experiment", "run", NAME, "-o", tmp_path)
    toy.about["small"] = {"n": 3}
    assert "another setting" in refused("experiment", "run", NAME, "-o", tmp_path)


def test_an_unknown_name_is_refused(tmp_path):
    told = run("experiment", "run", "nonsense", "-o", tmp_path, code=2).stderr
    assert "variance-ratio" in told
