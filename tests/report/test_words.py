"""The sentences say what the numbers say, for any model."""

import re

import pytest
from hypothesis import given

from dbmd.report import words
from dbmd.report.compute import describe
from report.models import made_up
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
