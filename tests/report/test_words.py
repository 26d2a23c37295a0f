"""The sentences say what the numbers say, for any model."""

import re

import pytest
from hypothesis import given

from dbmd.report import words
from dbmd.report.compute import describe
from dbmd.report.page import render
from report.models import made_up, warned, with_parts
from report.test_compute import models

SECTIONS = ("summary", "noise", "clusters", "mix", "basis", "memberships", "convergence")


@given(models)
def test_there_are_whole_sentences_for_any_model(model):
    d = describe(model)
    found = [sentence for section in SECTIONS for sentence in getattr(words, section)(d)]
    found += words.classes(d) if d["classes"] else []
    for sentence in found:
        assert re.search(r"[.]\s*$", sentence), sentence
        assert not re.search(r"is None|nan\b|inf\b|\{|\b1 (samples|clusters|sources|iterations)\b", sentence), sentence


def test_the_noisiest_source_is_named_with_its_factor_and_weight():
    model = made_up(sources=("lab A", "lab B"))
    model.noise_variance_[:] = [1.0, 16.0]
    d = describe(model)
    said = " ".join(words.noise(d))
    assert "The noisiest source is lab B: its noise is 4 times that of lab A" in said
    assert "Relative to a sample of lab A, a sample of lab B has the weight 0.062" in said


def test_sources_that_are_alike_are_said_to_be():
    model = made_up(sources=("lab A", "lab B"))
    model.noise_variance_[:] = [1.0, 1.01]
    assert "equally noisy" in words.noise(describe(model))[0]


@pytest.mark.parametrize(("noise", "said"), [("shared", "one noise level for all"), (1.0, "was given, not inferred")])
def test_a_level_that_was_not_inferred_is_not_read_as_if(noise, said):
    model = made_up()
    model.noise, model.noise_variance_[:] = noise, 1.0
    d = describe(model)
    assert said in words.noise(d)[0]
    assert not any("noisiest" in sentence for sentence in words.summary(d))


def test_a_fit_that_did_not_converge_says_what_to_do():
    assert "did not converge" in words.summary(describe(made_up(converged=False)))[-1]
    assert "Raise max_iter" in words.convergence(describe(made_up(converged=False)))[0]


def test_the_headline_counts():
    assert words.headline(describe(made_up(n=1797, r=10))) == "10 clusters in 1,797 samples from 3 sources"
    assert words.headline(describe(made_up(r=1, n=1, sources=["a"]))) == "1 cluster in 1 sample"


def visible(page):
    """Return the text of a page without its styles, scripts and data."""
    return re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)


@pytest.mark.parametrize("kind", ["variance", "identifier", "noise", "source", "pattern", "check"])
def test_a_fit_that_is_warned_of_is_not_praised(kind):
    praised = re.compile(r"crisp|explain|99.9%|not noise", re.IGNORECASE)
    page = visible(render(warned(kind)))
    assert "Before you rely on this fit" in page
    assert not praised.search(page), praised.search(page)
    model = warned(kind)
    model.fit_info_["warnings"] = []
    page = visible(render(model))
    assert "Before you rely" not in page
    assert "Memberships are crisp" in page
    assert "99.9% of the variation" in page


def test_what_to_do_is_said_in_the_words_of_where_the_fit_was_made():
    assert "Set --scaling standard." in visible(render(warned()))
    model = warned()
    del model.fit_info_["command"]
    assert "Set scaling=&#34;standard&#34;." in visible(render(model))


def test_parts_of_a_model_are_shown_where_one_would_look():
    page = visible(render(with_parts()))
    for said in (
        "each feature was divided by its standard deviation",
        "2 patterns were known; the other 3 patterns were found",
        "Each sample has a brightness",
        "Each source has an offset",
        "How the sources are offset",
        "in units of standard deviations",
        "tree",
        "pattern 3",
    ):
        assert said in page
    assert "Cluster 0" not in page
    assert page.count("units of the data") == 1  # of the offsets, which are not divided by the scales
    by_row = with_parts()
    by_row.set_params(scaling="sum")
    assert "units of the data" not in visible(render(by_row))
    plain = visible(render(made_up()))
    assert "Cluster 0" in plain
    assert not re.search("brightness between|has an offset|was divided|missing;", plain)


def test_missing_values_are_counted():
    model = made_up(missing_fraction=0.12)
    model.missing = "allow"
    assert "About 12% of the values are missing; those that are there were used." in words.summary(describe(model))
    model = made_up(n=200)
    model.missing, model.fit_info_["n_samples"] = "drop", 230
    assert "30 samples were left out, because values are missing or their weight is zero." in words.summary(
        describe(model)
    )


def test_offsets_are_described_by_size_and_by_their_largest_features():
    model = with_parts(m=4, features=list("wxyz"))
    model.offsets_[1] = [0.0, -3.0, 0.0, 4.0]
    found = {source["name"]: source for source in describe(model)["offsets"]}
    assert found["b"]["size"] == 2.5
    assert [feature["name"] for feature in found["b"]["top"]] == ["z", "x"]
    assert found["a"] == {"name": "a", "size": 0.0, "top": []}
