"""Figures show the numbers of the model, on the axes that they are given."""

from copy import copy

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from dbmd import DBMD, pl
from dbmd.estimator._choice import Choice

mpl.use("agg")


@pytest.fixture(scope="module")
def made_up():
    rng = np.random.default_rng(0)
    W = np.cumsum(np.cumsum(rng.normal(size=(3, 42)), axis=1), axis=1) / 5.0  # smooth, as spectra are
    X = rng.dirichlet(np.full(3, 0.4), 300) @ W + 0.1 * rng.normal(size=(300, 42))
    source = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, 300)]
    return X, source, DBMD(3, random_state=0).fit(X, source=source)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_every_public_function_is_tested_here():
    tested = {"agreement", "choice", "convergence", "maps", "noise", "patterns", "simplex", "sources", "ternary"}
    assert {*pl.__all__} == tested


def test_lines_are_the_components_at_the_names_of_the_features(made_up):
    X, _, model = made_up
    ax = pl.patterns(model)
    assert_array_equal([line.get_ydata() for line in ax.lines], model.components_)
    at = np.linspace(400.0, 2500.0, 42)
    assert_array_equal(pl.patterns(model, x=at, components=[2]).lines[0].get_xdata(), at)
    import pandas as pd

    named = DBMD(3, random_state=0).fit(pd.DataFrame(X, columns=[f"{each:.1f}" for each in at]))
    assert_allclose(pl.patterns(named).lines[0].get_xdata(), at, atol=0.06)
    with pytest.raises(ValueError, match=r"x must have shape \(n_features,\) = \(42,\)\. Got \(3,\)"):
        pl.patterns(model, x=[1, 2, 3])


def test_bars_name_the_features_that_stand_out(made_up):
    model = made_up[2]
    panels = pl.patterns(model, kind="bars", n_top=4)
    assert panels.shape == (3,)
    difference = model.components_ - np.average(model.components_, axis=0, weights=model.cluster_sizes_)
    for k, ax in enumerate(panels):
        top = np.argsort(-np.abs(difference[k]))[:4]
        assert [text.get_text() for text in ax.get_yticklabels()] == [f"feature {j}" for j in top[::-1]]
        assert_allclose([bar.get_width() for bar in ax.patches], difference[k, top[::-1]])


def test_pictures_have_one_scale(made_up):
    model = made_up[2]
    panels = pl.patterns(model, image_shape=(6, 7))
    assert_array_equal([ax.images[0].get_array().ravel() for ax in panels], model.components_)
    assert len({ax.images[0].get_clim() for ax in panels}) == 1
    with pytest.raises(ValueError, match="image_shape"):
        pl.patterns(model, image_shape=(5, 7))
    with pytest.raises(ValueError, match="Pictures need their shape"):
        pl.patterns(model, kind="images")
    with pytest.raises(ValueError, match="kind must be 'auto'"):
        pl.patterns(model, kind="pies")


def test_bars_of_sources_are_their_memberships(made_up):
    X, source, model = made_up
    ax = pl.sources(model)
    H = model.transform(X, source=source)
    expected = [H[source == name].mean(axis=0) for name in model.sources_]
    widths = np.array([bar.get_width() for bar in ax.patches]).reshape(3, 4).T
    assert_allclose(widths, expected, atol=1e-9)


@pytest.mark.parametrize("draw", [pl.ternary, pl.simplex])
@pytest.mark.parametrize("color", ["cluster", "source"])
def test_points_lie_at_the_means_of_the_corners(made_up, draw, color):
    X, source, model = made_up
    ax = draw(model, color=color)
    drawn = np.concatenate([points.get_offsets() for points in ax.collections])
    corners = np.array([text.xy for text in ax.texts])
    expected = model.membership_sample_.memberships @ corners
    assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0), atol=1e-12)
    own = draw(model, model.transform(X, source=source), color=X[:, 0], ax=ax)
    assert own is ax


def test_what_cannot_be_drawn_is_said(made_up):
    X, _, model = made_up
    with pytest.raises(ValueError, match=r"known of model\.membership_sample_ only"):
        pl.simplex(model, model.transform(X), color="source")
    with pytest.raises(ValueError, match="known classes"):
        pl.simplex(model, color="class")
    with pytest.raises(ValueError, match=r"color must have shape \(300,\)"):
        pl.simplex(model, color=[1, 2])
    with pytest.raises(ValueError, match="color must be 'cluster'"):
        pl.simplex(model, color="weight")
    with pytest.raises(ValueError, match=r"components must be numbers from 0 to 2\. Got \[3\]"):
        pl.patterns(model, components=[3])
    with pytest.raises(ValueError, match="fit with halves=True"):
        pl.agreement(model)
    with pytest.raises(ValueError, match="3 components, and this one has 2"):
        pl.ternary(DBMD(2, random_state=0).fit(X))


def test_maps_are_the_memberships_of_pixels(made_up):
    X, _, model = made_up
    H = model.transform(X)
    panels = pl.maps(model, H, (15, 20))
    assert_array_equal([ax.images[0].get_array().ravel() for ax in panels], H.T)
    assert {ax.images[0].get_clim() for ax in panels} == {(0.0, 1.0)}
    with pytest.raises(ValueError, match=r"\(300, 3\)\. Got \(299, 3\)"):
        pl.maps(model, H[1:], (15, 20))


def test_figures_of_the_fit(made_up):
    model = made_up[2]
    assert_allclose(np.sort(np.sqrt(model.noise_variance_)), pl.noise(model).lines[0].get_xdata())
    objective = [record.objective for record in model.history_]
    assert_array_equal(pl.convergence(model).lines[0].get_ydata(), objective)
    known = copy(model)
    known.agreement_ = np.array([0.99, 0.2, 0.95])
    bars = pl.agreement(known).patches
    assert_allclose([bar.get_width() for bar in bars], known.agreement_)
    assert bars[1].get_facecolor() != bars[0].get_facecolor() == bars[2].get_facecolor()


def test_the_curve_of_a_choice_has_all_numbers_that_were_tried():
    worst = [[0.99, np.nan], [0.96, 0.98], [0.2, np.nan]]  # NaN: a split that was not needed
    agreement = tuple(np.array(each)[:, None].repeat(r, axis=1) for r, each in zip((2, 3, 4), worst, strict=True))
    choice = Choice(3, True, (2, 3, 4), agreement, np.array([0.5, 0.6, 0.65]), 0.95, 100)
    drawn = pl.choice(choice).lines
    assert_allclose(drawn[0].get_ydata(), [0.99, 0.97, 0.2])
    assert_array_equal(drawn[2].get_ydata(), choice.explained)


def test_many_components_have_many_colours():
    assert len({tuple(np.atleast_1d(colour)) for colour in dbmd.pl._axes.colours(40)}) == 40
