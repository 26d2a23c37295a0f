"""``dbmd report``."""

import click
import pytest
from click.testing import CliRunner

from dbmd.cli import main
from report.models import made_up


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for which loading gives a model of 64 features."""
    monkeypatch.setattr("dbmd.estimator.load", lambda path: made_up(m=64))
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)


def test_the_page_is_in_the_folder_of_the_model_unless_told_otherwise(folder):
    result = report(folder)
    assert result.exit_code == 0
    assert str(folder / "report.html") in result.output.replace("\n", "")
    other = folder / "other.html"
    assert report(folder, "-o", other, "--title", "Mine", "--image-shape", "8x8").exit_code == 0
    assert 'data-chart="images"' in other.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in other.read_text(encoding="utf-8")


@pytest.mark.parametrize("shape", ["8by8", "8", "8x", "0x8", "8x8x3x3", "-8x8"])
def test_what_is_no_shape_is_refused_in_one_sentence(folder, shape):
    result = report(folder, f"--image-shape={shape}")
    assert result.exit_code == 2
    assert f"{shape!r} is not a height and a width" in result.output


def test_a_shape_that_does_not_fit_is_refused(folder):
    result = report(folder, "--image-shape", "28x28")
    assert result.exit_code == 2
    assert "(8, 8) would fit" in result.output
    assert not (folder / "report.html").exists()


def test_open_opens_the_page(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    report(folder, "--open")
    assert opened == [(folder / "report.html").as_uri()]
