"""Laws of the pictures of patterns and memberships, before they are drawn."""

import base64
import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.model.membership_map import MembershipMap
from dbmd.model.membership_sample import MembershipSample
from dbmd.report import view_words
from dbmd.report.compute import describe
from dbmd.report.ordered import are_ordered, places, smoothness
from dbmd.report.page import render
from dbmd.report.simplex import TRIANGLE, plane
from report.models import made_up, sample_of, with_std, with_views

# -- which way patterns are shown -----------------------------------------------------------------------------------


def spectra(m, r=3, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, m)
    return np.stack([np.exp(-(((t - c) / 0.15) ** 2)) for c in rng.random(r)])


def noise(m, r=3):
    return np.random.default_rng(0).normal(size=(r, m))


def images(side, r=3):
    """Blobs, unrolled row by row."""
    y, x = np.mgrid[:side, :side] / side
    centres = np.random.default_rng(0).uniform(0.3, 0.7, (r, 2))
    return np.stack([np.exp(-((y - a) ** 2 + (x - b) ** 2) * 20).ravel() for a, b in centres])


NAMED = {
    "wavelengths": [f"{400 + 2.5 * j:g}" for j in range(40)],
    "with a unit": [f"{400 + 10 * j} nm" for j in range(40)],
    "falling": [f"{4000 - 10 * j}" for j in range(40)],
    "with a letter": [f"X{400 + 10 * j}" for j in range(40)],
    "counted": [f"x{j}" for j in range(40)],
    "genes": [f"ENSG{j * j:06d}" for j in range(1, 41)],
    "words": [f"gene {'abcdefgh'[j % 8]}{j}" for j in range(40)],
    "not in order": [str((7 * j) % 40) for j in range(40)],
}


@pytest.mark.parametrize(
    ("name", "smooth", "rough"),
    [
        ("wavelengths", True, True),
        ("with a unit", True, True),
        ("falling", True, True),
        ("with a letter", True, False),
        ("counted", True, False),
        ("genes", True, False),
        ("words", False, False),
        ("not in order", False, False),
    ],
)
def test_names_that_are_numbers_in_order_make_lines_and_others_if_neighbours_are_alike(name, smooth, rough):
    assert are_ordered(spectra(40), NAMED[name]) == smooth
    assert are_ordered(noise(40), NAMED[name]) == rough


def test_features_without_names_make_lines_if_they_vary_smoothly_and_are_no_image():
    assert are_ordered(spectra(198), None)
    assert are_ordered(spectra(196), None)  # a square number
    assert not are_ordered(noise(198), None)
    assert not are_ordered(images(28), None)
    assert not are_ordered(spectra(12), None)
    assert not are_ordered(np.zeros((2, 50)), None)


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 20))
def test_smoothness_is_a_correlation_and_knows_no_unit(m, r, seed):
    W = np.random.default_rng(seed).normal(size=(r, m))
    assert -1 <= smoothness(W) <= 1
    assert smoothness(1000 * W + 7) == pytest.approx(smoothness(W), abs=1e-6)


def test_the_unit_of_names_is_kept():
    values, unit, counts = places(["400 nm", "405 nm", "410.5 nm"])
    assert values.tolist() == [400, 405, 410.5]
    assert (unit, counts) == ("nm", False)


@pytest.mark.parametrize(("patterns", "kind"), [("auto", "images"), ("lines", "lines"), ("bars", "features")])
def test_one_may_say_how_patterns_are_shown(patterns, kind):
    d = describe(made_up(m=64), (8, 8), patterns=patterns)
    assert d["basis"]["kind"] == kind
    assert all(sentence.endswith(".") for sentence in view_words.patterns(d))


def test_what_cannot_be_shown_is_refused_in_words():
    with pytest.raises(ValueError, match=r"patterns must be one of 'auto', 'lines', 'images', 'bars'\. Got 'dots'"):
        describe(made_up(), patterns="dots")
    with pytest.raises(ValueError, match="patterns='images' needs image_shape"):
        describe(made_up(), patterns="images")
    with pytest.raises(ValueError, match="map_shape needs memberships"):
        describe(made_up(), map_shape=(10, 20))
    with pytest.raises(ValueError, match=r"memberships must be numbers of shape \(n_samples, 5\)"):
        describe(made_up(), map_shape=(10, 20), memberships=np.ones((200, 4)))
    with pytest.raises(ValueError, match=r"map_shape \(10, 21\) makes 210 pixels, but there are 200 rows"):
        describe(made_up(), map_shape=(10, 21), memberships=np.full((200, 5), 0.2))


# -- patterns -------------------------------------------------------------------------------------------------------


def test_lines_have_the_values_and_their_deviation():
    model = made_up(r=3, m=50, features=[str(400 + j) for j in range(50)])
    model = with_std(model, np.abs(model.components_) / 10)
    d = describe(model)
    order = [int(cluster["name"]) for cluster in d["clusters"]]
    assert d["basis"]["kind"] == "lines"
    assert d["basis"]["x"] == [400 + j for j in range(50)]
    np.testing.assert_allclose(d["basis"]["values"], model.components_[order], rtol=1e-4)
    np.testing.assert_allclose(d["basis"]["std"], model.components_std_[order], rtol=1e-4)


def test_long_lines_are_thinned_by_means():
    model = made_up(r=40, m=5000)
    found = describe(model, patterns="lines")["basis"]
    assert found["step"] * len(found["x"]) >= 5000 > found["step"] * (len(found["x"]) - 1)
    assert len(found["x"]) * 40 <= 24_000
    assert found["values"][0][-1] is not None
    np.testing.assert_allclose(np.mean(found["values"]), model.components_.mean(), atol=0.02)


@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 9))
def test_lists_are_in_the_order_of_the_difference_and_complete_where_they_can_be(r, m, seed):
    model = made_up(r=r, m=m, features=[f"gene {j}x" for j in range(m)], seed=seed)
    d = describe(model)
    found, order = d["basis"]["ranked"], [int(cluster["name"]) for cluster in d["clusters"]]
    assert found["count"] == m
    for k, places_ in zip(order, found["lists"], strict=True):
        names = [found["names"][j] for j in places_]
        assert sorted(names) == sorted(f"gene {j}x" for j in range(m))
        values = found["values"][order.index(k)]
        for name, value in zip(names, values, strict=True):
            assert value == pytest.approx(model.components_[k, int(name[5:-1])], rel=1e-4)
        weight = found["relative"] or [1.0] * len(found["names"])
        strength = [abs(v - found["mean"][j]) * weight[j] for j, v in zip(places_, values, strict=True)]
        assert all(a >= b - 1e-3 * strength[0] for a, b in itertools.pairwise(strength))


def test_pictures_have_the_scale_of_the_data_and_not_of_patterns_beyond_them():
    """Data from 0 to 16, of which no sample is near the corner that goes from -10 to 40."""
    rng = np.random.default_rng(0)
    model = made_up(r=2, m=64)
    model.components_ = np.stack([rng.uniform(0, 16, 64), rng.uniform(-10, 40, 64)])
    model.cluster_sizes_ = np.array([150.0, 50.0])
    H = np.column_stack([np.full(200, 0.95), np.full(200, 0.05)])
    model.membership_sample_ = sample_of(model, H=H)
    shown = describe(model, (8, 8))["basis"]
    assert shown["values"]["low"] == 0
    assert 14 < shown["values"]["high"] < 20
    assert shown["beyond"] == [True, True]
    assert not shown["signed"]
    assert view_words.BEYOND in view_words.patterns(describe(model, (8, 8)))


@pytest.mark.parametrize("most", [1.0, 255.0])
def test_pictures_in_colours_keep_their_colours(most):
    model = made_up(r=2, m=48)
    model.components_ = np.random.default_rng(0).uniform(0.2, 0.7, (2, 48)) * most
    shown = describe(model, (4, 4, 3))["basis"]["values"]
    assert (shown["low"], shown["high"]) == (0, most)


# -- memberships ----------------------------------------------------------------------------------------------------


def test_maps_have_the_memberships_and_the_clusters_of_their_pixels():
    model = made_up(r=4, n=60)
    H = np.random.default_rng(0).dirichlet(np.full(4, 0.3), 60)
    H[7] = np.nan
    d = describe(model, map_shape=(6, 10), memberships=H)
    found, order = d["maps"], [int(cluster["name"]) for cluster in d["clusters"]]
    values = np.frombuffer(base64.b64decode(found["values"]), np.uint8).reshape(4, 60)
    cluster = np.frombuffer(base64.b64decode(found["cluster"]), np.uint8)
    there = ~np.isnan(H[:, 0])
    np.testing.assert_allclose(values.T[there] / 254, H[there][:, order], atol=0.5 / 254 + 1e-9)
    assert cluster[7] == 255
    assert (values[:, 7] == 255).all()
    clear = there & (np.sort(H, axis=1)[:, -1] - np.sort(H, axis=1)[:, -2] > 0.01)
    np.testing.assert_array_equal(cluster[clear], H[clear][:, order].argmax(axis=1))
    assert found["missing"]


def test_samples_lie_where_their_memberships_put_them():
    model = made_up(r=5, m=30)
    model.membership_sample_ = sample_of(model)
    d = describe(model)
    found, order = d["simplex"], [int(cluster["name"]) for cluster in d["clusters"]]
    rows = np.array(found["row"])
    H = model.membership_sample_.memberships[np.searchsorted(model.membership_sample_.rows, rows)]
    at = H[:, order] @ np.array(found["corners"])
    np.testing.assert_allclose(found["x"], at[:, 0], atol=2e-3)
    np.testing.assert_allclose(found["y"], at[:, 1], atol=2e-3)
    assert max(found["extent"]) == pytest.approx(1)
    np.testing.assert_array_equal([leading[0] for leading in found["leading"]], H[:, order].argmax(axis=1))
    names = [source["name"] for source in d["sources"]]
    codes = model.membership_sample_.source_codes[np.searchsorted(model.membership_sample_.rows, rows)]
    assert [names[code] for code in found["source"]] == [model.sources_[code] for code in codes]


def test_three_patterns_make_a_triangle_of_equal_sides():
    model = made_up(r=3, m=30)
    model.membership_sample_ = sample_of(model)
    d = describe(model)
    order = [int(cluster["name"]) for cluster in d["clusters"]]
    sample = model.membership_sample_
    H = sample.memberships[np.searchsorted(sample.rows, d["simplex"]["row"])]
    found = np.column_stack([d["simplex"]["triangle"]["x"], d["simplex"]["triangle"]["y"]])
    np.testing.assert_allclose(found, H[:, order] @ TRIANGLE, atol=1e-3)


@given(st.integers(2, 8), st.integers(1, 20), st.integers(0, 9))
def test_the_plane_is_that_of_principal_components(r, m, seed):
    rng = np.random.default_rng(seed)
    W, sizes = rng.normal(size=(r, m)), rng.uniform(1, 2, r)
    corners, part = plane(W, sizes, np.arange(r))
    distances = np.linalg.norm(corners[:, None] - corners, axis=2)
    assert (distances <= np.linalg.norm(W[:, None] - W, axis=2) + 1e-9).all()
    assert 0 <= part <= 1 + 1e-9
    if min(r - 1, m) <= 2:  # nothing is lost
        np.testing.assert_allclose(distances, np.linalg.norm(W[:, None] - W, axis=2), atol=1e-8)


def test_without_a_sample_or_with_one_pattern_there_are_no_points():
    assert describe(made_up())["simplex"] is None
    model = made_up(r=1)
    model.membership_sample_ = sample_of(model)
    assert describe(model)["simplex"] is None
    assert 'id="samples"' not in render(model)


# -- the page -------------------------------------------------------------------------------------------------------


def test_all_views_are_bounded_whatever_the_model(large):
    rng = np.random.default_rng(0)
    large.membership_sample_ = sample_of(large, n=9_000)
    found = MembershipMap((256, 256), rng.integers(0, 255, (150, 128, 128)).astype(np.uint8))
    try:
        page = render(large, memberships=found)
    finally:
        del large._membership_sample
    assert len(page.encode()) < 2_000_000
    d = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert len(d["simplex"]["x"]) == 3000
    assert len(json.dumps(d["basis"]["ranked"])) < 600_000


def test_every_view_has_its_sentences_and_its_chart():
    model, options = with_views()
    page = render(model, **options)
    for chart in ("lines", "maps", "simplex", "mix"):
        assert f'data-chart="{chart}"' in page
    d = describe(model, **options)
    for sentences in (view_words.patterns(d), view_words.maps(d), view_words.samples(d)):
        assert sentences
        assert all(sentence.endswith(".") for sentence in sentences)
    assert isinstance(model.membership_sample_, MembershipSample)
