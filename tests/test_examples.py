"""Every example of the gallery runs, without warnings, and draws something."""

import runpy
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot as plt

EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "gallery").glob("*.py"))
MARKS = {"plot_clusters": pytest.mark.dask}


@pytest.fixture
def figures(monkeypatch):
    """Return the numbers of the figures that are open, in a pyplot that shows nothing and has its default style."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with matplotlib.rc_context():
        plt.switch_backend("Agg")
        yield plt.get_fignums
        plt.close("all")


def test_the_gallery_has_an_example_for_each_guide():
    names = {path.stem.removeprefix("plot_") for path in EXAMPLES}
    assert {"quick_start", "files", "clusters", "single_cells", "spectra", "tables", "streams"} <= names
    assert len(names) >= 8


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=MARKS.get(path.stem, ())) for path in EXAMPLES]
)
def test_an_example_runs_and_draws(path, figures):
    text = path.read_text("utf-8")
    assert "import dbmd" in text or "from dbmd" in text
    assert "dbmd._" not in text
    runpy.run_path(str(path), run_name="__main__")
    assert figures()
    for number in figures():
        figure = plt.figure(number)
        assert figure.axes
        figure.canvas.draw()  # nothing overlaps so much that the layout gives up, which is a warning
