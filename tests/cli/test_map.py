"""``--map-shape``: a map of memberships in the model directory, drawn again by ``dbmd report``."""

import numpy as np
import pytest

from cli.running import run
from dbmd.saved.membership_map import read_map


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Pixels of a picture of 12 x 15 and a model of them."""
    folder = tmp_path_factory.mktemp("scene")
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.full(3, 0.4), 180)
    np.save(folder / "scene.npy", H @ rng.uniform(0, 5, (3, 6)) + 0.05 * rng.normal(size=(180, 6)))
    run("fit", folder / "scene.npy", "-k", "3", "--map-shape", "12x15", "-o", folder / "model", "-q")
    return folder


def test_a_fit_keeps_the_memberships_of_all_rows_as_a_map(scene):
    run("transform", scene / "model", scene / "scene.npy", "-o", scene / "all.npy", "-q")
    found = read_map(scene / "model", 3, 180)
    assert found.shape == (12, 15)
    np.testing.assert_allclose(found.memberships.reshape(3, -1).T, np.load(scene / "all.npy"), atol=0.5 / 254 + 1e-6)
    assert 'data-chart="maps"' in (scene / "model" / "report.html").read_text("utf-8")


def test_the_page_can_be_drawn_again_with_that_map_or_another(scene):
    page = scene / "again.html"
    run("report", scene / "model", "-o", page)
    assert page.read_bytes() == (scene / "model" / "report.html").read_bytes()
    np.save(scene / "H.npy", np.full((180, 3), 1 / 3))
    options = ("--map-shape", "6x30", "--memberships", scene / "H.npy", "--patterns", "lines")
    run("report", scene / "model", "-o", page, *options)
    assert "6 × 30 pixels" in page.read_text("utf-8")  # noqa: RUF001
    assert 'data-chart="lines"' in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--map-shape", "6x30"], "has a map of 12x15 pixels"),
        (["--map-shape", "12x15x3"], "is not a height and a width, such as 95x95"),
        (["--memberships", "H.npy"], "give --map-shape, too"),
        (["--patterns", "images"], "give --image-shape"),
        (
            ["--map-shape", "7x7", "--memberships", "H.npy"],
            "--map-shape (7, 7) makes 49 pixels, but there are 180 rows",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_the_option(scene, options, told):
    np.save(scene / "H.npy", np.full((180, 3), 1 / 3))
    options = [scene / option if option == "H.npy" else option for option in options]
    assert told in " ".join(run("report", scene / "model", *options, code=2).stderr.split())


def test_a_shape_that_is_not_that_of_the_rows_is_refused_before_the_fit(scene, tmp_path):
    arguments = ("fit", scene / "scene.npy", "-k", "3", "--map-shape", "12x16", "-o", tmp_path / "model")
    assert "--map-shape (12, 16) makes 192 pixels, but there are 180 rows" in run(*arguments, code=2).stderr
    assert not (tmp_path / "model").exists()
