"""The page of ``dbmd rank``: what it says, and that it draws in a real browser."""

import numpy as np
import pytest

from dbmd.estimator import Choice
from dbmd.report.rank import curve, headline, render
from report.test_browser import browser, charts, visit  # noqa: F401  (fixtures)

RECORD = {
    "n_samples_of_data": 12_600_000,
    "n_features": 3000,
    "n_splits": 3,
    "seed": 0,
    "data": {"paths": ["<script>alert('x')</script>.h5ad"] * 30, "source": "lab", "fingerprint": "ab" * 8},
    "next": "dbmd fit DATA -k 34 -o model",
    "command": "dbmd rank DATA -o rank",
    "created": "2026-01-31T10:00:00+00:00",
    "versions": {"python": "3.13"},
}


def made_up(tried, worst, best):
    """Return a choice with given correlations of the worst pair, shape (n_tried, n_splits); None: nothing is stable."""
    rng = np.random.default_rng(0)
    pairs = []
    for r, lowest in zip(tried, np.asarray(worst, float), strict=True):
        others = lowest[:, None] + (1.0 - lowest[:, None]) * np.sort(rng.random((len(lowest), r - 1)))[:, ::-1]
        pairs.append(np.column_stack([others, lowest]))
    explained = 1.0 - np.exp(-np.array(tried) / 9.0)
    return Choice(best or tried[0], best is not None, tuple(tried), tuple(pairs), explained, 0.95, 6000)


TRIED = [*range(2, 61, 2)]
MANY = made_up(TRIED, [(0.99, 0.97, 1.0) if r <= 34 else (-0.1, 0.2, np.nan) for r in TRIED], 34)
NONE = made_up(range(2, 13), [(0.1, 0.5, 0.9)] * 11, None)
ONE = made_up([3], [(0.99,)], 3)


def test_the_curve_is_of_the_splits_that_were_made():
    rows = {row["r"]: row for row in curve(MANY)}
    assert rows[34]["worst"] == {"y": 0.99, "low": 0.97, "high": 1.0}
    assert rows[36]["worst"] == {"y": 0.05, "low": -0.1, "high": 0.2}
    assert [r for r, row in rows.items() if row["proposed"]] == [34]


def test_it_says_what_was_found_and_never_more():
    assert headline(MANY) == "Two halves of the data agree on 34 patterns"
    page = render(MANY, RECORD)
    assert "6,000 samples, drawn of 12,600,000," in page
    assert "and 10 files more" in page
    assert "<script>alert" not in page
    assert "dbmd fit DATA -k 34 -o model" in page
    assert not any(row["proposed"] for row in curve(NONE))
    assert "No number is proposed" in render(NONE, RECORD)
    # At the end of what was tried there may be more.
    assert "Try more" not in page
    assert "Try more" in render(made_up([2, 3], [(0.99,), (0.99,)], 3), RECORD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for name, choice in {"many": MANY, "none": NONE, "one": ONE}.items():
        (folder / f"{name}.html").write_text(render(choice, RECORD), "utf-8")
    return folder


@pytest.mark.browser
@pytest.mark.parametrize("name", ["many", "none", "one"])
def test_it_draws_and_fits_a_phone(visit, name):  # noqa: F811
    page = visit(name, width=390, scheme="dark")
    assert len(charts(page)) == 2
    for chart in charts(page):
        assert chart.locator("circle").count() > 0
        assert chart.get_by_text("proposed", exact=True).count() == (name != "none")
        assert not page.evaluate("(host) => host.innerHTML.match(/NaN|undefined|Infinity/)", chart.element_handle())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    edges = page.evaluate("""() => [...document.querySelectorAll("svg text")].map((text) => {
      const box = text.getBoundingClientRect();
      return [box.left, box.right, text.textContent];
    })""")
    assert all(left >= 0 and right <= 390 for left, right, _ in edges), edges


@pytest.mark.browser
def test_a_number_of_patterns_answers_to_pointer_and_keyboard_and_can_be_saved(visit):  # noqa: F811
    page = visit("many")
    chart, tip = page.locator('[data-chart="agreement"]'), page.locator("#tip")
    chart.focus()
    page.keyboard.press("End")
    assert "60 patterns" in tip.inner_text()
    assert "worst pattern 0.050, -0.100 to 0.200 in the splits" in tip.inner_text()
    page.keyboard.press("Home")
    assert "2 patterns" in tip.inner_text()
    figure = page.locator("figure.chart").first
    with page.expect_download() as saved:
        figure.get_by_role("button", name="CSV").click()
    rows = saved.value.path().read_text("utf-8").splitlines()
    assert rows[0] == 'patterns,worst,"worst, lowest","worst, highest",mean,"mean, lowest","mean, highest"'
    assert rows[1].startswith("2,0.99,0.97,1,")
