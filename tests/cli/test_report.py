"""``dbmd report``."""

import click
import pytest
from click.testing import CliRunner

from dbmd.cli.report import report
from report.models import made_up


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for which loading gives a model of 64 features."""
    monkeypatch.setattr("dbmd.estimator.load", lambda path: made_up(m=64))
    return tmp_path


def test_the_page_is_in_the_folder_of_the_model_unless_told_otherwise(folder):
    result = CliRunner().invoke(report, [str(folder)], catch_exceptions=False)
    assert result.exit_code == 0
    assert str(folder / "report.html") in result.output.replace("\n", "")
    other = folder / "other.html"
    arguments = [str(folder), "-o", str(other), "--title", "Mine", "--image-shape", "8x8"]
    assert CliRunner().invoke(report, arguments, catch_exceptions=False).exit_code == 0
    assert 'data-chart="images"' in other.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in other.read_text(encoding="utf-8")


@pytest.mark.parametrize("shape", ["8by8", "8", "8x", "0x8", "8x8x3x3", "-8x8"])
def test_what_is_no_shape_is_refused_in_one_sentence(folder, shape):
    result = CliRunner().invoke(report, [str(folder), f"--image-shape={shape}"])
    assert result.exit_code == 2
    assert f"{shape!r} is not a height and a width" in result.output


def test_a_shape_that_does_not_fit_is_a_value_error(folder):
    with pytest.raises(ValueError, match=r"\(8, 8\) would fit"):
        CliRunner().invoke(report, [str(folder), "--image-shape", "28x28"], catch_exceptions=False)
    assert not (folder / "report.html").exists()


def test_open_opens_the_page(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    CliRunner().invoke(report, [str(folder), "--open"], catch_exceptions=False)
    assert opened == [(folder / "report.html").as_uri()]
