"""``dbmd rank``: the numbers of Python's choose_components, as a page, a table and a command to go on with."""

import csv
import json
import shlex
from dataclasses import replace

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbmd
from cli.resuming import assert_same_model, checkpoint_of
from cli.running import names, refused, run, write_parquet
from dbmd.cli._options import Counts, in_options
from dbmd.estimator import _number
from dbmd.report.rank import curve, render
from estimator.making import mixture

OPTIONS = ("--source", "lab", "--scaling", "standard", "--drop", "id", "--seed", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three patterns in three dimensions, and what was found in them: no more than four are tried."""
    folder = tmp_path_factory.mktemp("rank")
    X, source, _, _ = mixture(n=160, m=3, sigmas=(0.1, 0.3))
    lab = np.array(["berlin", "lima"])[source]
    write_parquet(folder / "the data.parquet", X, lab=lab, id=np.arange(160))
    result = run("rank", folder / "the data.parquet", *OPTIONS, "-o", folder / "rank")
    (folder / "printed.txt").write_text(result.stdout, "utf-8")
    return folder


@pytest.fixture(scope="module")
def record(folder):
    return json.loads((folder / "rank" / "rank.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def choice(record):
    return _number.choice_from(record)


def test_it_finds_what_choose_components_finds(folder, record, choice):
    with dbmd.open_data(folder / "the data.parquet", source="lab", drop=["id"]) as data:
        found = dbmd.choose_components(data, range(2, 5), random_state=1, scaling="standard")
    assert found.asdict() == choice.asdict() == {name: record[name] for name in found.asdict()}
    assert record["n_components"] == 3
    assert record["n_samples_of_data"] == 160
    assert record["data"]["source"] == "lab"


def test_the_table_is_the_curve(folder, choice):
    rows = list(csv.DictReader((folder / "rank" / "rank.csv").read_text("utf-8").splitlines()))
    assert [int(row["n_components"]) for row in rows] == [2, 3, 4]
    assert [row["proposed"] for row in rows] == ["0", "1", "0"]
    np.testing.assert_array_equal([float(row["worst"]) for row in rows], np.nanmedian(choice.worst, axis=1))
    np.testing.assert_array_equal([float(row["worst_lowest"]) for row in rows], np.nanmin(choice.worst, axis=1))
    np.testing.assert_array_equal([float(row["mean_highest"]) for row in rows], np.nanmax(choice.mean, axis=1))
    np.testing.assert_array_equal([float(row["explained"]) for row in rows], choice.explained)


def test_what_is_printed_and_the_page_say_it_in_a_sentence_and_in_numbers(folder, record, choice):
    printed, page = (folder / "printed.txt").read_text("utf-8"), (folder / "rank" / "rank.html").read_text("utf-8")
    for row in curve(choice):
        assert f"{row['worst']['y']:.3f}" in printed
        assert f"{row['worst']['y']:.3f}" in page
    assert printed.count("<- proposed") == 1
    assert choice.sentence in printed
    assert choice.sentence in page
    assert record["next"] in printed
    assert "Two halves of the data agree on 3 patterns" in page


def test_the_command_to_go_on_with_fits_the_number_that_is_proposed(folder, record, tmp_path):
    program, *arguments, _ = shlex.split(record["next"])
    assert program == "dbmd"
    run(*arguments, tmp_path / "model", "--no-report", "-q")
    model = dbmd.load(tmp_path / "model")
    assert model.n_components_ == 3
    assert (model.scaling, model.random_state, model.sources_.tolist()) == ("standard", 1, ["berlin", "lima"])
    assert model.feature_names_in_.tolist() == names(3)


def test_where_nothing_is_stable_page_and_command_say_so(record, choice):
    low = tuple(0.5 * each for each in choice.agreement)
    page = render(replace(choice, agreement=low, is_stable=False, n_components=2), record)
    assert "Two halves of the data do not agree on their patterns" in page
    assert "No number is proposed" in page
    assert ">proposed<" not in page


def test_nothing_is_replaced_or_left_behind_by_mistake(folder, tmp_path):
    data = folder / "the data.parquet"
    before = (folder / "rank" / "rank.json").read_bytes()
    assert "is there. Choose another name" in refused("rank", data, *OPTIONS, "-o", folder / "rank")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    assert "mine.txt" in refused("rank", data, *OPTIONS, "-o", tmp_path / "notes", "--overwrite")
    said = refused("rank", data, *OPTIONS, "-k", "2:90", "-o", tmp_path / "rank")
    assert said == "-k must be at most 40: halves of 160 samples need 2 for each pattern. Got 90."
    assert not (tmp_path / "rank").exists()
    assert (folder / "rank" / "rank.json").read_bytes() == before
    run("rank", data, *OPTIONS, "-k", "3", "--splits", "1", "-o", folder / "rank", "--overwrite", "-q")
    again = run("rank", data, *OPTIONS, "-k", "3", "--splits", "1", "-o", tmp_path / "rank", "--json")
    found, other = json.loads(again.stdout), json.loads((folder / "rank" / "rank.json").read_text("utf-8"))
    assert found["tried"] == other["tried"] == [3]
    assert found["agreement"] == other["agreement"]
    assert np.shape(found["agreement"]) == (1, 1, 3)


def test_wrong_values_are_said_in_the_words_of_the_command_line(folder, tmp_path):
    rank = ("rank", folder / "the data.parquet", "-o", tmp_path / "rank")
    assert "'2-12' are no numbers of patterns" in run(*rank, "-k", "2-12", code=2).stderr
    assert "--lam must be a float >= 0" in refused(*rank, "--lam", "-1")
    np.save(tmp_path / "known.npy", np.ones((3, 3)))
    known = ("--known", tmp_path / "known.npy", "--drop", "id", "--drop", "lab")
    assert "number of known patterns, 3. Got 2" in refused(*rank, *known, "-k", "2:4")
    assert in_options("with n_components='auto', which") == "with -k auto, which"
    start = tmp_path / "known.npy"
    fit = ("fit", folder / "the data.parquet", "--drop", "id", "--drop", "lab", "-o", tmp_path / "model")
    assert "--init must be a name with -k auto" in refused(*fit, "-k", "auto", "--init", start)
    assert "'many' is neither a whole number nor 'auto'" in run(*fit, "-k", "many", code=2).stderr


@given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 9), st.lists(st.integers(1, 99), max_size=4))
def test_numbers_are_ranges_with_both_ends_or_lists(first, more, step, others):
    text = ",".join([f"{first}:{first + more}:{step}", *map(str, others)])
    assert Counts().convert(text, None, None) == tuple(sorted({*range(first, first + more + 1, step), *others}))
    assert Counts().convert(f"{first}:{first + more}", None, None) == tuple(range(first, first + more + 1))


@pytest.mark.parametrize("text", ["", "0:4", "4:2", "2:", "2:8:0", "2:3:4:5", "-3", "2.5", "2,,3", "two"])
def test_what_is_no_number_of_patterns_is_refused(text):
    with pytest.raises(click.BadParameter, match="numbers"):
        Counts().convert(text, None, None)


def test_a_fit_that_chose_is_resumed_without_choosing_again(folder, tmp_path, kill_after, monkeypatch, choice):
    chosen = iter([choice, choice])
    monkeypatch.setattr(_number, "choose", lambda *a, **k: next(chosen))  # twice, and no more
    fit = ("fit", folder / "the data.parquet", *OPTIONS, "-k", "auto", "--init", "random", "--tol", "1e-9")
    fit = (*fit, "--max-iter", "30", "--no-report")
    run(*fit, "-q", "-o", tmp_path / "whole")
    kill_after(20)
    run(*fit, "-q", "-o", tmp_path / "model", "--checkpoint", "0", code=1)
    assert checkpoint_of(tmp_path / "model").exists()
    kill_after(10**6)
    other = (*fit[: fit.index("auto")], "3", *fit[fit.index("auto") + 1 :])
    assert "-k was auto and is 3" in refused(*other, "-q", "-o", tmp_path / "model", "--resume")
    found = json.loads(run(*fit, "-o", tmp_path / "model", "--resume", "--json").stdout)
    assert_same_model(tmp_path / "model", tmp_path / "whole")
    model = dbmd.load(tmp_path / "model")
    assert (model.n_components, model.n_components_) == ("auto", 3)
    assert model.choice_.asdict() == choice.asdict()
    assert found["choice"] == {"is_stable": True, "sentence": choice.sentence}
    run(*fit, "-q", "-o", tmp_path / "model", "--resume")  # is finished
    assert "was made with another -k" in refused(*other, "-q", "-o", tmp_path / "model", "--resume")


def test_a_fit_says_which_patterns_two_halves_do_not_agree_on(folder, tmp_path):
    fit = ("fit", folder / "the data.parquet", *OPTIONS, "--halves", "--no-report")
    told = run(*fit, "-k", "3", "-o", tmp_path / "three").stdout
    assert "Two halves of the data agree on all 3 patterns: correlation 0.99" in told
    told = run(*fit, "-k", "4", "-o", tmp_path / "four").stdout
    values = dbmd.load(tmp_path / "four").agreement_
    apart = [f"{k} ({values[k]:.2f})" for k in range(4) if values[k] < 0.9]
    assert apart
    noun = "pattern" if len(apart) == 1 else "patterns"
    assert f"do not agree on {len(apart)} of 4 patterns: {noun} {', '.join(apart)} depend" in told
    found = json.loads(run(*fit, "-k", "4", "-o", tmp_path / "four", "--overwrite", "--json").stdout)
    assert [cluster["agreement"] for cluster in found["clusters"]] == values.tolist()
