"""The sentences say what the numbers say, for any model."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd import DBMD
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.profile import Profile
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


def mixed(fractions, n):
    """A model whose sources hold these parts of each cluster, and so many samples."""
    fractions, n = np.asarray(fractions, float), np.asarray(n)
    model = made_up(r=fractions.shape[1], sources=[f"lab {c}" for c in range(len(n))])
    profile = Profile.zero(*fractions.shape)
    profile.n[:], profile.sizes[:] = n, fractions * n[:, None]
    profile.counts[:] = np.rint(profile.sizes)
    model.profile_, model.cluster_sizes_ = profile, profile.sizes.sum(axis=0)
    model.noise_variance_[:] = np.arange(1, len(n) + 1)
    return describe(model)


def test_sources_are_compared_with_each_other_and_not_with_the_mix_of_all():
    """Each of these is within a tenth of the mean; they are not alike."""
    said = " ".join(words.mix(mixed([[0.39, 0.61], [0.30, 0.70], [0.22, 0.78]], [100, 100, 100])))
    assert "nearly the same" not in said
    assert "39% of the memberships of lab 0, and 22% of those of lab 2" in said or "78%" in said
    alike = " ".join(words.mix(mixed([[0.39, 0.61], [0.41, 0.59]], [100, 100])))
    assert "nearly the same mix of clusters: no cluster's part of the memberships differs by more than 2 perc" in alike
    assert "there is none" in alike


def test_a_small_cluster_of_one_source_is_found_and_a_source_of_few_samples_says_nothing():
    said = " ".join(words.mix(mixed([[0.48, 0.48, 0.04], [0.5, 0.5, 0.0]], [1000, 1000])))
    assert "Hardly any source but lab 0 has cluster 2." in said
    assert "there is none" not in said
    said = " ".join(words.mix(mixed([[0.5, 0.5], [0.49, 0.51], [1.0, 0.0]], [100, 100, 2])))
    assert "All sources of 20 samples or more have nearly the same mix" in said


def test_a_pattern_is_said_to_look_like_a_sample_only_where_there_is_one_that_pure():
    model = made_up(r=3, m=64)
    histogram = model.profile_.memberships
    alone = "a sample that belongs to this cluster alone looks like it"
    histogram[:], histogram[:, -1] = 0, 4
    assert words.basis(describe(model, (8, 8)))[0] == f"Each picture is one pattern: {alone}."
    histogram[1] = np.roll(histogram[1], -10)
    some = words.basis(describe(model, (8, 8)))
    assert alone in some[0]
    assert "Pattern 1 is extrapolated from mixtures" in some[1]
    histogram[:], histogram[:, 30] = 0, 4
    said = " ".join(words.basis(describe(model, (8, 8))))
    assert alone not in said
    assert "none looks quite like" in said


def test_with_weights_it_is_said_what_they_change():
    X = np.random.default_rng(0).dirichlet([0.2] * 3, 60)
    model = DBMD(3, random_state=0, tol=0.5).fit(X)
    assert "A dot beyond the bar" in words.clusters(describe(model))[-1]
    for weights in (np.full(60, 3.0), np.tile([0.5, 1.5], 30)):  # the latter sum to the number of samples
        d = describe(model.fit(X, sample_weight=weights))
        assert "dots count samples by their largest membership, each once" in words.clusters(d)[-1]
        assert "without weights" in render(model)


def test_classes_without_a_cluster_of_their_own_are_named():
    model = made_up(r=2, classes=list("xyz"))
    model.profile_.contingency[:] = [[9, 0], [3, 0], [5, 0]]
    d = describe(model)
    assert d["classes"]["pairs"] == 1
    assert words.classes(d)[-1] == "2 classes have no cluster of their own: y, z."


def with_std(std):
    """Two sources: peaks of the quiet one between corners, of the noisy one in corners; std of the noisy one."""
    model = made_up(r=3, sources=("quiet", "noisy"))
    model.noise_variance_[:] = [1.0, 100.0]
    H = np.repeat([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]], 60, axis=0)
    codes = np.repeat([0, 1], 60)
    spread = np.where(codes[:, None] == 0, 0.01, std) * np.ones((120, 3))
    none = np.full(120, -1)
    model.membership_sample_ = MembershipSample(np.arange(120), codes, none, H, spread, 1500)
    model.profile_ = Profile.zero(2, 3)
    for c in range(2):
        model.profile_.count(H[codes == c], c)
    model.cluster_sizes_, model.fit_info_["n_samples"] = H.sum(axis=0), 120
    return model


def test_noise_does_not_make_a_source_look_crisp():
    d = describe(with_std(0.3))
    quiet, noisy = d["sources"]
    assert noisy["crispness"]["clear"] == 1  # by its peaks
    assert noisy["certain"]["unclear"] == 1
    assert quiet["certain"] == quiet["certain"] | {"mostly": 1, "clear": 0, "unclear": 0}
    assert d["memberships"]["certain"]["unclear"] == pytest.approx(0.5)
    said = " ".join(words.memberships(d))
    assert "50% are too noisy to say" in said
    assert "of noisy, all look clear" in said
    assert "too noisy to say" in visible(render(with_std(0.3)))
    assert not any(cluster["pure"] for cluster in d["clusters"])  # noise alone put samples into this corner
    assert describe(with_std(0.001))["clusters"][0]["pure"]


@given(st.floats(0.0, 1e-4))
def test_memberships_that_are_certain_are_as_crisp_as_they_look(std):
    d = describe(with_std(std))
    for source in d["sources"]:
        kinds = {kind: source["certain"][kind] for kind in ("clear", "mostly", "mixed")}
        assert kinds == source["crispness"]
        assert source["certain"]["unclear"] == 0


def test_without_standard_deviations_it_is_said_what_noise_may_do():
    d = describe(made_up())
    assert d["memberships"]["certain"] is None
    assert "noisy samples may look clearer than they are" in words.memberships(d)[-1]
    assert "too noisy to say" not in visible(render(made_up()))


def test_patterns_that_two_halves_do_not_agree_on_are_marked():
    model = made_up(r=4)
    assert not any("halves" in sentence for sentence in words.summary(describe(model)))
    model.agreement_ = np.array([0.99, 0.97, 0.5, 0.95])
    d = describe(model)
    assert [cluster["name"] for cluster in d["clusters"] if cluster["doubtful"]] == ["2"]
    assert any("do not agree on 1 pattern of 4, marked with a question mark: 2." in said for said in words.summary(d))
    page = visible(render(model))
    assert "0.50?" in page
    assert "two halves of the data do not agree on this pattern" in page
    model.agreement_[:] = 0.2
    assert any("agree on none of the patterns" in said for said in words.summary(describe(model)))
    model.agreement_[:] = 1.0
    assert any("agree on all patterns" in said for said in words.summary(describe(model)))
