"""The page with all experiments."""

import re
from html import unescape

import pytest

from dbmd.experiments import page, runner
from experiments.test_runner import NAME, Toy


@pytest.fixture
def written(monkeypatch, tmp_path):
    toy = Toy()
    toy.about |= {"title": "Squares <b>", "figure": "Figure 0", "question": "How large\nare squares?"}
    monkeypatch.setattr(runner.Experiment, "load", toy.load)
    monkeypatch.setattr(runner, "NAMES", (NAME,))
    runner.run(NAME, tmp_path)
    return page.write(tmp_path, "small").read_text(encoding="utf-8")


def test_it_shows_figures_claims_numbers_and_the_command(written):
    assert written.count('src="data:image/svg+xml;base64,') == 2
    assert "<strong>Holds.</strong> Squares grow." in written
    assert "<strong>Does not hold.</strong> Squares shrink." in written
    assert "<td>9</td>" in written
    assert "How large are squares?" in written
    assert "dbmd experiment run variance-ratio --scale small" in written


def test_what_comes_from_outside_is_escaped(written):
    assert "Squares &lt;b&gt;" in written
    assert "Squares <b>" not in written


def test_it_loads_nothing(written):
    assert "default-src 'none'" in unescape(written)
    addresses = re.findall(r'(?:src|href)="([^"#][^"]*)"', written)
    assert all(address.startswith("data:") for address in addresses)
