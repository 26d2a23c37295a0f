"""The page in a real browser: it draws, answers, fits a phone, and asks nobody for anything."""

import csv
import os
import re
import shutil
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from report import models

pytestmark = pytest.mark.browser
MARKS = "circle, rect, canvas, path.line"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium():
    """Return the path of a Chromium. One that was asked for must be there; otherwise the tests are skipped, loudly."""
    asked = os.environ.get("DBMD_CHROMIUM")
    if asked:
        assert shutil.which(asked), f"DBMD_CHROMIUM names {asked}, which cannot be run."
        return shutil.which(asked)
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip(f"THE REPORT WAS NOT TESTED IN A BROWSER: none of {', '.join(NAMES)} found; set DBMD_CHROMIUM.")
    return found


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="THE REPORT WAS NOT TESTED IN A BROWSER: pip install playwright"
    )
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, digits):
    """A folder, with a space and a # in its name, of pages of very different models."""
    from dbmd.report.page import write

    folder = tmp_path_factory.mktemp("the reports #1")
    many = [f"Institute of Something, batch {c:02d} of the year 2024" for c in range(40)]
    genes = [f"GENE{j:05d}" for j in range(2000)]
    write(digits, folder / "digits.html")
    write(digits, folder / "images.html", image_shape=(8, 8))
    write(models.evil(), folder / "evil.html", title=models.EVIL)
    write(models.made_up(r=60, m=2000, n=600, sources=many, features=genes), folder / "many.html")
    write(models.made_up(r=2, m=2, n=9, sources=["a"], iterations=1), folder / "small.html")
    write(models.made_up(r=3, m=48, classes=list("ab"), empty=1), folder / "colours.html", image_shape=(4, 4, 3))
    write(models.warned(), folder / "warned.html")
    write(models.with_parts(), folder / "parts.html")
    write(models.wide(), folder / "wide.html")
    model, options = models.with_views()
    write(model, folder / "views.html", **options)
    return folder


PAGES = ("digits", "images", "evil", "many", "small", "colours", "warned", "parts", "views")


@pytest.fixture
def visit(browser, folder):
    """Open a page; whatever the browser complains about, or asks of the network, fails the test."""
    complaints, contexts = [], []

    def opened(name, width=1280, scheme="light", touch=False):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
        )
        page.goto(Path(folder / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.dataset.ready") == "yes", complaints
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def charts(page):
    found = page.locator("[data-chart]")
    return [found.nth(i) for i in range(found.count())]


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_has_marks_and_nothing_is_wider_than_the_page(visit, name):
    page = visit(name)
    assert charts(page)
    for chart in charts(page):
        assert chart.locator(MARKS).count() > 1
        assert not page.evaluate("(host) => host.innerHTML.match(/NaN|undefined|Infinity/)", chart.element_handle())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_nothing_scrolls_sideways_and_text_can_be_read(visit, name):
    page = visit(name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Sizes and places as drawn, whatever the drawing is scaled by.
    texts = page.evaluate("""() => [...document.querySelectorAll("svg text")].map((text) => {
      const box = text.getBoundingClientRect(), scale = text.getScreenCTM().a;
      return [parseFloat(getComputedStyle(text).fontSize) * scale, box.left, box.right, text.textContent];
    })""")
    assert len(texts) > 10
    for size, left, right, text in texts:
        assert size >= 9, text
        assert left >= 0, text
        assert right <= 390, text


def test_no_text_runs_into_another_and_counts_are_all_there(visit):
    page = visit("wide", width=360)
    # Labels of axes and colour bars are apart; numbers in cells may be close.
    overlapping = """() => [...document.querySelectorAll("figure.chart svg")].flatMap((svg) => {
      const texts = [...svg.querySelectorAll("text")].map((text) => [text.getBoundingClientRect(), text]);
      return texts.flatMap(([a, one], i) => texts.slice(i + 1).filter(([b, other]) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > (/muted/.test(one.className.baseVal) ? -4 : 1)
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4
      ).map(([, other]) => [one.textContent, other.textContent]));
    })"""
    for _ in range(2):
        assert not page.evaluate(overlapping)
        page.locator('[data-group="basis-scale"] [aria-pressed="false"]').click()
    counts = page.locator('[data-chart="classes"] .cell ~ text', has_text=re.compile(r"^\d{2,3}$")).all_text_contents()
    assert len(counts) == 15 * 15
    assert any(len(count) == 3 for count in counts)


def test_charts_are_saved_as_drawings_pictures_and_numbers(visit):
    page = visit("images", scheme="dark")

    def saved(chart, press):
        with page.expect_download() as download:
            press(page.locator(f'figure:has(> [data-chart="{chart}"]) .save button'))
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()

    page.locator('[data-chart="noise"]').hover()
    name, drawing = saved("noise", lambda buttons: buttons.nth(0).click())
    assert name == "noise-level-of-each-source.svg"
    root = ElementTree.fromstring(drawing)
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert {"Noise level of each source", "clinic A"} <= {text.text for text in texts}
    assert all(text.get("fill").startswith("rgb") and text.get("font-size") for text in texts)
    assert not any("class" in element.attrib or "style" in element.attrib for element in root.iter())

    def by_keyboard(buttons):
        buttons.nth(0).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")

    name, picture = saved("images", by_keyboard)
    assert name == "patterns-as-pictures-of-8-8-pixels.png"
    width, height = struct.unpack(">II", picture[16:24])
    drawn = page.locator('[data-chart="images"]').bounding_box()
    assert width >= 2 * drawn["width"]
    assert height > 2 * drawn["height"]
    assert len(zlib.compress(picture)) > 5000  # pixels, not an empty sheet

    name, numbers = saved("classes", lambda buttons: buttons.nth(2).click())
    assert name == "samples-by-class-and-cluster.csv"
    head, *rows = csv.reader(numbers.decode().splitlines())
    assert head[0] == "class"
    assert sum(int(count) for row in rows for count in row[1:-1]) == 1797


def test_names_of_rows_differ_even_when_cut(visit):
    page = visit("many", width=390)
    names = page.evaluate("""() => [...document.querySelectorAll('[data-chart="noise"] text[text-anchor="end"]')]
      .map((text) => text.textContent).filter((text) => /\\d\\d/.test(text) && !/[.e]/.test(text))""")
    assert len({name for name in names if "…" in name}) == 40


@pytest.mark.parametrize("name", ["digits", "images", "many", "views"])
def test_charts_answer_to_pointer_and_keyboard(visit, name):
    page = visit(name)
    tip = page.locator("#tip")
    for chart in charts(page):
        chart.scroll_into_view_if_needed()
        chart.locator(MARKS).nth(1).hover(force=True)
        assert tip.is_visible()
        assert tip.inner_text().strip()
        page.mouse.move(2, 2)
        assert tip.is_hidden()

        page.keyboard.press("Tab")  # so that what follows is seen as work of the keyboard
        chart.focus()
        assert tip.is_visible()
        first = tip.inner_text()
        for key in ("ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        assert tip.inner_text() != first
        assert page.locator("#spoken").inner_text()
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280
        page.keyboard.press("Escape")
        assert tip.is_hidden()


def test_charts_answer_to_touch(visit):
    page = visit("digits", width=390, touch=True)
    mark = page.locator('[data-chart="noise"] circle').nth(1)
    mark.scroll_into_view_if_needed()
    mark.tap(force=True)
    assert "clinic B" in page.locator("#tip").inner_text()
    page.locator("h1").tap()
    assert page.locator("#tip").is_hidden()


def test_names_are_shown_as_they_are_and_not_run(visit):
    page = visit("evil")
    assert "<script>alert('x')</script>" in page.locator("h1").inner_text()
    page.locator('[data-chart="features"] rect').first.hover(force=True)
    assert "</script>" in page.locator("#tip").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_switches(visit, scheme):
    page = visit("digits", scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    cell = "document.querySelector('[data-chart=\"classes\"] .cell').getAttribute('fill')"
    before = page.evaluate(background), page.evaluate(cell)
    lightness = sum(map(int, before[0].removeprefix("rgb(").removesuffix(")").split(",")))
    assert (lightness > 384) == (scheme == "light")
    page.locator("#theme").click()
    after = page.evaluate(background), page.evaluate(cell)
    assert after[0] != before[0]
    assert after[1] != before[1]
    page.reload()
    assert page.evaluate(background) == after[0]


def wait_until(page, condition):
    """Wait for a condition. Playwright's own way of waiting needs eval in the page, which its policy forbids."""
    for _ in range(300):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not within 15 s: {condition}")


def test_charts_are_drawn_again_for_a_new_width(visit):
    page = visit("digits")
    width = '+document.querySelector("[data-chart=sizes] svg").getAttribute("width")'
    wide = page.evaluate(width)
    page.set_viewport_size({"width": 390, "height": 900})
    wait_until(page, f"{width} < 390")
    assert wide > 600


@pytest.mark.parametrize("name", ["digits", "images"])
def test_the_patterns_can_be_seen_in_another_way(visit, name):
    page = visit(name)
    chart = page.locator('[data-chart="features"], [data-chart="images"]')
    before = chart.screenshot()
    page.locator('[data-group="basis-view"] [aria-pressed="false"]').click()
    assert chart.screenshot() != before


def test_the_command_can_be_copied(visit):
    page = visit("digits")
    page.locator("[data-copy]").click()
    wait_until(page, "/Copied|Selected/.test(document.querySelector('[data-copy]').textContent)")


def test_paper_is_white_even_from_a_dark_screen(visit):
    page = visit("digits", scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 10_000


def test_every_choice_of_a_view_draws_and_has_its_numbers(visit):
    page = visit("views", width=360)
    for group in ("lines-view", "map-size", "simplex-view", "simplex-colour", "mix-view"):
        buttons = page.locator(f'[data-group="{group}"] button')
        chart = page.locator(f'section:has([data-group="{group}"]) [data-chart]').first
        for i in range(buttons.count()):
            buttons.nth(i).click()
            html = chart.inner_html()
            assert len(html) > 1000
            assert not re.search("NaN|undefined|Infinity", html)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tables = page.evaluate("""() => ["lines", "maps", "simplex", "mix"].map((name) => {
      const rows = document.querySelector(`[data-chart="${name}"]`).closest("figure").__table();
      return [rows.length, new Set(rows.map((row) => row.length)).size];
    })""")
    assert tables == [[61, 1], [24 * 30, 1], [301, 1], [10, 1]]  # with the header; one pixel was left out


def test_a_pointer_on_a_map_tells_the_memberships_of_the_pixel(visit):
    page = visit("views")
    canvas = page.locator('[data-chart="maps"] canvas').nth(1)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 5.5 / 30, box["y"] + box["height"] * 0.5 / 24)
    assert page.locator("#tip").inner_text().splitlines() == ["Row 0, column 5", "left out"]
    page.mouse.move(box["x"] + box["width"] * 6.5 / 30, box["y"] + box["height"] * 2.5 / 24)
    told = page.locator("#tip").inner_text().splitlines()
    _, options = models.with_views()
    assert told[0] == "Row 2, column 6"
    assert float(told[1].split(": ")[1]) == pytest.approx(options["memberships"][2 * 30 + 6].max(), abs=0.01)
    assert page.locator('[data-chart="maps"] .cursor:visible').count() == 4


def test_the_list_of_features_can_be_searched(visit):
    page = visit("many")
    page.locator("details:has(.feature-list) summary").click()
    rows = page.locator(".feature-list tbody tr")
    assert rows.count() == 100
    first = rows.first.inner_text()
    page.locator(".feature-list select").select_option(index=3)
    assert rows.first.inner_text() != first
    name = rows.nth(7).locator("th").inner_text()
    page.locator(".feature-list input").fill(name.lower())
    assert rows.count() == 1
    assert rows.first.locator("td").first.inner_text() == "8"
