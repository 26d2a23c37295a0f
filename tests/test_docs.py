"""The pages of the documentation: their links, their code, and the check of the built site (``make docs`` runs it)."""

import re
import zlib
from pathlib import Path

import pytest
from docs import check

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Their code needs no cluster, and no data that have to be downloaded; tests/spark/test_page.py runs spark-ml.md.
RUN = (
    "extending",
    "how-many",
    "index",
    "logs",
    "quick-start",
    "real-data",
    "single-cells",
    "spectra",
    "streams",
    "tables",
)


def slugs(text):
    """Return the anchors that a repository browser, and the site, give to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = re.findall(r'^<a id="([^"]+)">', text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(named)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for link in LINK.findall(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if re.match(r"https?:|mailto:", link) or path == "gallery/index.rst":  # made by the build
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in slugs(target.read_text("utf-8")), link


@pytest.mark.parametrize("name", RUN)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, capsys):
    if name == "single-cells":
        pytest.importorskip("anndata")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    blocks = BLOCK.findall(text)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    # What a page says that a line prints is what it prints, where it is a plain number.
    printed = capsys.readouterr().out.splitlines()
    for expected in re.findall(r"^print\(.*\)  # ([\d.]+)$", "\n".join(blocks), re.MULTILINE):
        assert expected in printed


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(f"dbmd.{name}" for name in listed) == sorted(check.public_names())


@pytest.fixture
def site(tmp_path):
    """A site of two pages in which everything is right."""
    (tmp_path / "index.html").write_text('<h1 id="top">a</h1><a href="b.html#there">b</a><img src="c.png">')
    (tmp_path / "b.html").write_text('<p id="there"><a href="index.html#top"></a><a href="https://example.org"></a>')
    (tmp_path / "c.png").write_bytes(b"")
    entries = "\n".join(f"{name} py:class 1 api.html -" for name in check.public_names())
    (tmp_path / "objects.inv").write_bytes(b"# 1\n# 2\n# 3\n# 4\n" + zlib.compress(entries.encode()))
    return tmp_path


def test_a_sound_site_passes(site):
    assert [*check.broken_links(site), *check.without_a_page(site)] == []


@pytest.mark.parametrize(
    ("html", "sentence"),
    [
        ('<a href="gone.html">', "more.html: gone.html leads to no file."),
        ('<a href="b.html#nowhere">', "more.html: b.html#nowhere leads to no anchor."),
        ('<a href="#nowhere">', "more.html: #nowhere leads to no anchor."),
        ('<img src="gone.png">', "more.html: gone.png leads to no file."),
        (
            '<script src="https://example.org/x.js">',
            "more.html: loads https://example.org/x.js from the network.",
        ),
        ('<link href="//example.org/x.css">', "more.html: loads //example.org/x.css from the network."),
    ],
)
def test_what_leads_nowhere_or_to_the_network_is_found(site, html, sentence):
    (site / "more.html").write_text(html)
    assert list(check.broken_links(site)) == [sentence]


def test_a_style_that_loads_from_the_network_is_found(site):
    (site / "more.css").write_text("@font-face { src: url(https://fonts.example.org/a.woff2) }")
    assert list(check.broken_links(site)) == ["more.css: loads something from the network."]


def test_a_public_name_without_a_page_is_found(site):
    (site / "objects.inv").write_bytes(b"# 1\n# 2\n# 3\n# 4\n" + zlib.compress(b"dbmd.DBMD py:class 1 api.html -"))
    assert "dbmd.load is public, and has no page in the reference: add it to docs/api.md." in check.without_a_page(site)


def test_the_map_names_every_module():
    """CONTRIBUTING.md says where everything is: each module and package of dbmd once, and nothing that is not there."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## The map")[1].split("\n## ")[0]
    named = re.findall(r"^      (\w+)(?:\.py|/)  .*?(?:  (\w+)\.py)?$", section, re.MULTILINE)
    there = {path.stem for path in (ROOT / "src" / "dbmd").iterdir()} - {"__init__", "__pycache__", "py"}
    assert {name for pair in named for name in pair if name} == there


FILE = re.compile(r"\b(?:src|tests|benchmarks|examples|docs)/[\w/.-]*\w(?:\.py|\.md|/)(?=[`:\s)])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page):
    for name in FILE.findall(page.read_text("utf-8")):
        assert (ROOT / name).exists(), name
