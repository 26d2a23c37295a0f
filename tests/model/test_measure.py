from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from clusters import DATA, engine, squared_distances
from dbmd.data import partition
from dbmd.model.measure import draw_by_distance, measure, tally
from strategies import cuts, generators


@pytest.mark.parametrize("offset", [0.0, 50.0])
@pytest.mark.parametrize("m", [3, 400])
@pytest.mark.parametrize("kind", DATA)
def test_a_sample_equal_to_a_candidate_is_never_drawn(kind, m, offset, rng):
    values = (offset + rng.normal(size=(20, m))).astype(np.float32)  # exact in both types
    Xt = DATA[kind](values[rng.integers(0, 20, 400)].astype(np.float64))
    candidates = values[:12].astype(np.float64)
    (node,) = partition(Xt, 0, 1)
    node, _ = measure(node, candidates)
    _, drawn = draw_by_distance(node, candidates, seed=0, take=400, precision={0: 1.0})
    assert squared_distances(drawn.Xt, candidates.T).min() > 0.0
    assert len(np.unique(drawn.Xt, axis=0)) == 8


def test_far_samples_are_more_likely_to_be_drawn(rng):
    Xt = np.concatenate([rng.normal(size=(990, 2)), 1000.0 + rng.normal(size=(10, 2))])
    (node,) = partition(Xt, 0, 1)
    candidates = np.zeros((1, 2))
    node, _ = measure(node, candidates)
    hits = 0
    for seed in range(50):
        _, drawn = draw_by_distance(node, candidates, seed=seed, take=1, precision={0: 1.0})
        hits += bool(drawn.Xt[0, 0] > 500.0)
    assert hits == 50


@given(generators(), st.integers(1, 30), st.integers(1, 3), st.booleans(), st.data())
def test_measured_in_several_calls_or_one_the_distances_are_to_the_nearest_candidate(rng, n, n_nodes, keeps, data):
    Xt, candidates = rng.normal(size=(n, 3)), rng.normal(size=(6, 3))
    labels = np.arange(n) % 2
    inner = engine(Xt, labels, n_nodes)
    inner.nodes = [replace(node, keeps_rows=keeps) for node in inner.nodes]
    for stop in [i for i in data.draw(cuts(6)) if i] or [6]:
        found = inner.ask(measure, candidates[:stop])
    expected = squared_distances(Xt, candidates.T)
    if keeps:
        d2 = np.concatenate([node.scratch.d2 for node in inner.nodes])
        near = np.concatenate([node.scratch.near for node in inner.nodes])
        assert_allclose(d2, expected.min(axis=1), rtol=1e-9, atol=1e-12)
        assert_array_equal(near, expected.argmin(axis=1))
        assert {node.scratch.n_candidates for node in inner.nodes} == {6}
    else:
        assert all(node.scratch is None for node in inner.nodes)
    for c, summary in found.items():
        assert_allclose(summary.squares, expected.min(axis=1)[labels == c].sum(), rtol=1e-9, atol=1e-12)
        assert summary.n == (labels == c).sum()


@given(generators(), st.integers(1, 40), st.integers(1, 3), st.data())
def test_tally_sends_the_precision_that_each_candidate_is_nearest_to(rng, n, n_nodes, data):
    Xt, candidates = rng.normal(size=(n, 3)), rng.normal(size=(5, 3))
    labels, precision = np.arange(n) % 2, {0: 0.5, 1: 3.0}
    inner = engine(Xt, labels, n_nodes)
    known = data.draw(st.integers(0, 5), "how many were measured before")
    if known:
        inner.ask(measure, candidates[:known])
    found = inner.ask(partial(tally, precision=precision), candidates)
    near = squared_distances(Xt, candidates.T).argmin(axis=1)
    own = np.array([precision[c] for c in labels])
    assert_allclose(found, [own[near == k].sum() for k in range(5)])
    assert all(node.scratch is None for node in inner.nodes)
