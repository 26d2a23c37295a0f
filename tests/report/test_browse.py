"""The page from Python: written by the model, and shown in the browser."""

import tempfile
import webbrowser

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import dbmd
from dbmd import DBMD, open_report
from dbmd.report.page import render


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).dirichlet([0.2] * 4, 80)
    return DBMD(3, random_state=0).fit(X)


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """What was opened in the browser, instead of opening it."""
    found = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) is None)
    return found


def test_a_model_writes_its_page(model, tmp_path):
    path = model.report(tmp_path / "mine.html", image_shape=(2, 2), title="Mine")
    assert path == tmp_path / "mine.html"
    assert path.read_text(encoding="utf-8") == render(model, image_shape=(2, 2), title="Mine")
    assert model.report(str(tmp_path)) == tmp_path / "report.html"
    H = np.full((80, 3), 1 / 3)
    page = model.report(path, map_shape=(8, 10), memberships=H, patterns="bars")
    assert page.read_text(encoding="utf-8") == render(model, map_shape=(8, 10), memberships=H, patterns="bars")


def test_a_page_replaces_nothing_but_a_page(model, tmp_path):
    (tmp_path / "data.csv").write_text("mine")
    with pytest.raises(ValueError, match=r"must end in \.html, or be put in a folder that is there. Got '.*data.csv'"):
        model.report(tmp_path / "data.csv")
    with pytest.raises(FileNotFoundError, match=r"no such folder to write page\.html to"):
        model.report(tmp_path / "nowhere" / "page.html")
    with pytest.raises(NotFittedError):
        DBMD().report(tmp_path / "page.html")
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_the_page_of_a_directory_is_written_once_and_again_if_asked(model, tmp_path, opened):
    directory = model.save(tmp_path / "a model #1")
    page = open_report(directory)
    assert page == directory / "report.html"
    assert opened == [page.resolve().as_uri()]
    page.write_text("kept")
    assert open_report(str(directory)).read_text() == "kept"
    assert "Another title" in open_report(directory, title="Another title").read_text(encoding="utf-8")
    assert dbmd.load(directory).components_.shape == (3, 4)  # the page is a part of a model directory


def test_models_and_pages_are_shown_and_other_things_refused(model, tmp_path, opened):
    page = open_report(model, title="For a look")
    assert "For a look" in page.read_text(encoding="utf-8")
    assert open_report(page) == page
    assert len(opened) == 2
    (tmp_path / "notes.txt").write_text("")
    for wrong, error, said in (
        (tmp_path / "nothing", FileNotFoundError, "no such page or model directory"),
        (tmp_path / "notes.txt", ValueError, "must be an html file"),
        (3, TypeError, "Got int"),
    ):
        with pytest.raises(error, match=said):
            open_report(wrong)
    with pytest.raises(ValueError, match="written already"):
        open_report(page, title="x")
    assert len(opened) == 2


def test_without_a_browser_it_says_where_the_page_is(model, opened, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    with pytest.warns(UserWarning, match=r"No browser could be started. The page is .*report\.html"):
        open_report(model)
