"""The page as a file: complete, escaped, and written whole or not at all."""

import builtins
import itertools
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import dbmd.report
from dbmd.report import rank
from dbmd.report.page import SCRIPTS, as_json, render, write
from report.models import EVIL, evil, made_up


class Reader(HTMLParser):
    """Collects tags with their attributes, ids, and the text of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.open = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = tag

    def handle_data(self, data):
        if self.open == "script":
            self.scripts.append(data)
            self.open = None


def test_it_stands_alone(digits):
    page = render(digits)
    assert len(page.encode()) < 300_000
    for tag, attributes in Reader(page).tags:
        assert tag not in ("iframe", "object", "embed", "form", "base")
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        # The policy of the page would not let them run.
        assert not any(name.startswith("on") or name == "style" for name in attributes)


def test_it_says_what_was_found(digits):
    page = render(digits)
    for words in (
        "10 clusters in 1,797 samples from 3 sources",
        "field station",
        "adjusted Rand index",
        "9f2b6c0e5d1a",
    ):
        assert words in page


def test_headings_and_ids_are_in_order(digits):
    tags = Reader(render(digits)).tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"][1:] for tag, attributes in tags if tag == "a"}
    assert links <= set(ids)
    charts = [attributes for _, attributes in tags if "data-chart" in attributes]
    assert len(charts) >= 7  # that of convergence is there from the second iteration on
    assert all(chart["aria-label"] and chart["tabindex"] == "0" for chart in charts)


def test_what_comes_from_the_data_is_escaped():
    page = render(evil(), title=EVIL)
    harmless = Reader(render(made_up(m=3, classes="ab", features=list("abc")), title="title"))
    found = Reader(page)
    assert len(found.scripts) == len(harmless.scripts) == 3
    assert not any(tag == "img" for tag, _ in found.tags)
    assert not any("onerror" in attributes for _, attributes in found.tags)
    data = json.loads(found.scripts[1])
    assert data["basis"]["features"][0].startswith("</script>")


def test_json_in_a_page_survives_and_cannot_end_its_script():
    value = {"a": EVIL, "b": "\u2028 &lt; ü"}
    text = as_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)


@pytest.mark.parametrize("shape", [None, (100, 200)])
def test_no_model_makes_a_page_of_two_megabytes(large, shape):
    assert len(render(large, image_shape=shape).encode()) < 2_000_000


def test_the_title_is_the_heading():
    page = render(made_up(), title="My model")
    assert "<h1>My model</h1>" in page
    assert "<title>My model" in page


def test_it_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    assert write(made_up(), str(path)) == path
    before = path.read_bytes()
    assert before.startswith(b"<!doctype html>")
    with pytest.raises(ValueError, match="image_shape"):
        write(made_up(), path, image_shape=(3, 3))

    def fail(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        write(made_up(r=3), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_without_jinja2_it_says_what_to_install(monkeypatch):
    load = builtins.__import__

    def without_jinja2(name, *arguments, **keywords):
        if name == "jinja2":
            raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")
        return load(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_jinja2)
    with pytest.raises(ModuleNotFoundError, match="pip install jinja2"):
        render(made_up())


def test_the_templates_load_nothing_from_anywhere():
    folder = Path(dbmd.report.__file__).parent / "templates"
    for file in folder.rglob("*.*"):
        addresses = set(re.findall(r"https?://[\w./]+", file.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file  # the name of a namespace, never opened


@pytest.mark.parametrize("scripts", [SCRIPTS, rank.SCRIPTS], ids=["report", "rank"])
def test_no_two_scripts_use_one_name(scripts):
    """They share a function: a name declared twice would leave a page without charts."""
    folder = Path(dbmd.report.__file__).parent / "templates"
    texts = [(folder / script).read_text(encoding="utf-8") for script in scripts]
    names = [
        name
        for text in texts
        for name in re.findall(r"^(?:const|let|(?:async )?function\*?) (\w+)", text, re.MULTILINE)
    ]
    assert sorted(names) == sorted(set(names))


def luminance(colour):
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_paper(theme):
    """WCAG 2.1: 4.5 for text, 3 for marks. Mixtures are pale on purpose: they stand next to what is not."""
    style = (Path(dbmd.report.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6});", part)) for part in style.split("@media screen")[:2])
    colours = light if theme == "light" else light | dark

    def contrast(name):
        a, b = sorted((luminance(colours[name]), luminance(colours["paper"])))
        return (b + 0.05) / (a + 0.05)

    assert min(map(contrast, ("ink", "muted", "accent", "high", "low", "warning"))) >= 4.5
    assert min(map(contrast, ("accent", "second", "clear"))) >= 4.5
    assert min(map(contrast, ("bar", "mostly"))) >= 2.9
    assert contrast("mixed") >= 1.8
