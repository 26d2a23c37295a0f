"""Standard deviations of the samples that are kept of a fit: those of the posterior, however the data are divided."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.partition import partition
from dbmd.data.preparation import Preparation
from dbmd.engines.local import Engine
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.model.peaks import Peaks, PeaksOfModel
from dbmd.survey import survey

N, M, R = 900, 12, 3


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("has_dark", [False, True])
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_standard_deviations_are_those_of_the_posterior(n_nodes, has_dark, has_gaps, rng, monkeypatch):
    monkeypatch.setattr("dbmd.model.membership_sample.MOST", 200)
    parts = Parts(R, has_dark=has_dark)
    W = parts.assemble(rng.normal(size=(M, R)))
    Xt = rng.dirichlet(np.full(W.shape[1], 0.5), N) @ W.T + 0.2 * rng.normal(size=(N, M))
    if has_gaps:
        Xt[rng.random(Xt.shape) < 0.1 * (np.arange(N) % 2)[:, None]] = np.nan
    sources, sigma2 = rng.integers(0, 2, N), np.array([0.03, 0.06])
    prior, evidence = np.zeros(W.shape[1]), Evidence((1.0, 1.5))
    model = {"sigma2": sigma2, "prior": prior, "evidence": evidence}
    how = Preparation(fill=np.zeros(M)) if has_gaps else Preparation()
    nodes = [replace(node, block=how.of(node.samples)) for node in partition(Xt, sources, n_nodes)]
    with Engine(nodes) as engine:
        peaks = engine.ask(partial(survey, **model, parts=parts, origin=W.mean(axis=1)), W).peaks
    found = PeaksOfModel.at(peaks, W, **model, parts=parts)
    assert (found.model["W"] is None) == (not has_gaps)  # it may be large
    sample = found.found()

    assert len(sample) == 200
    assert (np.diff(sample.rows) > 0).all()
    everything = partition(Xt, sources, 1)[0]
    samples = how.of(everything.samples)
    h_step, std = HStep.prepare(samples, W, **model), np.empty((N, R))
    for chunk in samples.chunks(h_step.shift):
        chunk = h_step.located(chunk)
        std[chunk.rows] = h_step.posterior(chunk, h_step.memberships(chunk), parts).std
    np.testing.assert_allclose(sample.std, std[sample.rows], atol=1e-9)
    assert sample.std.max() > 0.01


def test_components_may_be_renumbered_more_than_once(rng):
    parts, order, other = Parts(R), np.array([2, 0, 1]), np.array([1, 0, 2])
    peaks = PeaksOfModel.at(Peaks.empty(1, parts), rng.normal(size=(M, R)), parts=parts)
    once, twice = peaks.reordered(order), peaks.reordered(order).reordered(other)
    assert_array_equal(once.order[other], twice.order)
