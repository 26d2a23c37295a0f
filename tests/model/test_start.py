from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.data import block, partition
from dbmd.engines.local import Engine
from dbmd.model.start import (
    Draw,
    draw_by_distance,
    draw_uniform,
    exponentials,
    k_means_parallel,
    measure,
    nearest,
    random_samples,
    refine,
    tally,
)
from strategies import cuts, generators, statistics_of

STARTS = {"k-means||": k_means_parallel, "random": random_samples}


def clusters(rng, n=300, m=5, r=4, noise=0.3, distance=6.0):
    """Return samples around r centres, and the centres."""
    centres = distance * rng.normal(size=(r, m))
    return centres[rng.integers(0, r, n)] + noise * rng.normal(size=(n, m)), centres


def engine(Xt, sources=0, n_nodes=1):
    return Engine(partition(Xt, sources, n_nodes), n_threads=1)


def watched(ask, drawn):
    """Return ask, but note in a list the samples of every pass of k-means|| that draws by distance."""

    def watching(function, *broadcast):
        reply = ask(function, *broadcast)
        if getattr(function, "func", function) is draw_by_distance:
            drawn.append([tuple(row) for row in reply.Xt])
        return reply

    return watching


def distances(Xt, W):
    """Return ||x - w||^2 for all rows x and columns w."""
    return ((Xt[:, None, :] - W.T) ** 2).sum(axis=2)


@given(st.integers(0, 2**63), st.integers(0, 2**40), st.lists(st.integers(0, 60), min_size=1, max_size=5), generators())
def test_exponentials_do_not_depend_on_who_asks_for_them(seed, first, sizes, rng):
    edges = [first, *(first + np.cumsum(sizes)).tolist()]
    whole = exponentials(seed, np.arange(first, edges[-1]))
    parts = [exponentials(seed, np.arange(start, stop)) for start, stop in pairwise(edges)]
    assert_array_equal(np.concatenate(parts), whole)
    order = rng.permutation(len(whole))
    assert_array_equal(exponentials(seed, first + order), whole[order])


def test_exponentials_are_exponential_and_differ_by_seed():
    rows = np.arange(20_000)
    for seed, other in ((1, 2), (0, 2**31 - 1), (7, 1007)):
        one, two = exponentials(seed, rows), exponentials(other, rows)
        assert (one >= 0.0).all()
        assert np.isfinite(one).all()
        assert len(np.unique(one)) == len(one)
        assert_allclose([one.mean(), one.std(), np.median(one)], [1.0, 1.0, np.log(2.0)], atol=0.03)
        assert abs(np.corrcoef(one, two)[0, 1]) < 0.03
        assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03


@st.composite
def draws(draw, take):
    keys = sorted(draw(st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 7.0]), max_size=take)))
    return Draw(np.array(keys), draw(generators()).normal(size=(len(keys), 2)), take)


@given(st.integers(0, 5).flatmap(lambda take: st.tuples(draws(take), draws(take), draws(take))))
def test_adding_draws_is_associative_and_keeps_the_smallest_keys(three):
    a, b, c = three
    left, right = (a + b) + c, a + (b + c)
    assert_array_equal(left.keys, right.keys)
    assert_array_equal(left.Xt, right.Xt)
    assert left.take == right.take == a.take
    everything = np.sort(np.concatenate([a.keys, b.keys, c.keys]))
    assert_array_equal(left.keys, everything[: a.take])


@given(generators(), st.integers(0, 30), st.integers(0, 8), st.data())
def test_drawing_among_parts_one_after_the_other_is_drawing_among_all(rng, n, take, data):
    Xt, keys = rng.normal(size=(n, 2)), rng.exponential(size=n)
    keys[rng.random(n) < 0.2] = np.inf  # what has no weight is never drawn
    found = Draw.nothing(2, take)
    for start, stop in pairwise(data.draw(cuts(n))):
        part = Xt[start:stop]
        found = found.among(sparse.csr_array(part) if start % 2 else part, keys[start:stop])
    best = [i for i in np.argsort(keys)[:take] if np.isfinite(keys[i])]
    assert_array_equal(found.keys, keys[best])
    assert_array_equal(found.Xt, Xt[best])
    assert found.Xt.shape == (len(best), 2)


@given(generators(), st.integers(1, 40), st.integers(0, 10), st.data())
def test_a_draw_does_not_depend_on_the_cut_into_nodes(rng, n, take, data):
    Xt = rng.normal(size=(n, 2))
    (whole,) = partition(Xt, 0, 1)
    edges = data.draw(cuts(n))
    _, expected = draw_uniform(whole, seed=5, take=take)
    parts = []
    for start, stop in pairwise(edges):
        part = type(whole)("part", block=block.Block(Xt[start:stop], 0, first_row=start))
        parts.append(draw_uniform(part, seed=5, take=take)[1])
    total = reduce(add, parts)
    assert len(total.keys) == min(take, n)
    assert_array_equal(total.keys, expected.keys)
    assert_array_equal(total.Xt, expected.Xt)


def test_every_sample_is_drawn_equally_often():
    n, repeats = 20, 4000
    Xt = np.arange(float(n))[:, None]
    (node,) = partition(Xt, 0, 1)
    drawn = [draw_uniform(node, seed=seed, take=1)[1].Xt[0, 0] for seed in range(repeats)]
    counts = np.bincount(np.array(drawn, int), minlength=n)
    assert_allclose(counts, repeats / n, atol=6.0 * np.sqrt(repeats / n))


DATA = {
    "dense": lambda Xt: Xt,
    "CSR": sparse.csr_array,
    "float32": lambda Xt: Xt.astype(np.float32),
}


@pytest.mark.parametrize("sources", ["one", "sorted", "alternating"])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("start", STARTS)
def test_one_seed_gives_one_start_whatever_the_number_of_nodes(start, kind, sources, rng):
    Xt, _ = clusters(rng, n=230)
    labels = {"one": 0, "sorted": np.arange(230) // 100, "alternating": np.arange(230) % 3}[sources]
    found = [STARTS[start](engine(DATA[kind](Xt), labels, n_nodes).ask, 4, seed=11) for n_nodes in (1, 2, 3, 7)]
    for W in found:
        assert W.shape == (5, 4)
        assert W.dtype == np.float64
        assert_allclose(W, found[0], rtol=1e-5 if kind == "float32" else 1e-9)


@pytest.mark.parametrize("start", STARTS)
def test_the_size_of_the_chunks_is_irrelevant(start, rng, monkeypatch):
    Xt, _ = clusters(rng)
    labels = np.arange(len(Xt)) % 2
    expected = STARTS[start](engine(Xt, labels).ask, 4, seed=3)
    monkeypatch.setattr(block, "MIN_ROWS", 10)
    monkeypatch.setattr(block, "CHUNK_BYTES", 1)
    assert_allclose(STARTS[start](engine(Xt, labels).ask, 4, seed=3), expected, rtol=1e-9)


@pytest.mark.parametrize("start", STARTS)
def test_dense_and_sparse_data_give_the_same_start(start, rng):
    Xt, _ = clusters(rng)
    dense, csr = (STARTS[start](engine(data, 0, 2).ask, 4, seed=3) for data in (Xt, sparse.csr_matrix(Xt)))
    assert_allclose(csr, dense, rtol=1e-9)


@pytest.mark.parametrize("start", STARTS)
def test_another_seed_gives_another_start(start, rng):
    Xt = rng.normal(size=(300, 5))
    one, other = (STARTS[start](engine(Xt).ask, 4, seed=seed) for seed in (1, 2))
    assert np.abs(one - other).max() > 1e-3


def test_a_random_start_consists_of_different_samples(rng):
    Xt = np.repeat(rng.normal(size=(12, 3)), 30, axis=0)
    W = random_samples(engine(Xt).ask, 4, seed=0)
    assert len(np.unique(W, axis=1).T) == 4
    assert (distances(Xt, W).min(axis=0) == 0.0).all()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("distinct", [1, 2, 3])
@pytest.mark.parametrize("n_nodes", [1, 3])
def test_fewer_distinct_samples_than_components_are_all_used(start, distinct, n_nodes, rng):
    values = rng.normal(size=(distinct, 4))
    Xt = values[np.arange(60) % distinct]
    W = STARTS[start](engine(Xt, 0, n_nodes).ask, 5, seed=1)
    assert W.shape == (4, 5)
    assert_allclose(distances(values, W).min(axis=1), 0.0, atol=1e-20)
    assert_allclose(distances(W.T, values.T).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_as_few_samples_as_there_are_components_or_fewer_will_do(start, n, rng):
    Xt = rng.normal(size=(n, 3))
    W = STARTS[start](engine(Xt, 0, 2).ask, 5, seed=1)
    assert W.shape == (3, 5)
    assert_allclose(distances(Xt, W).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("start", STARTS)
def test_data_of_zeros_give_zeros(start):
    assert_array_equal(STARTS[start](engine(np.zeros((20, 3)), 0, 2).ask, 4, seed=0), 0.0)


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
    assert distances(drawn.Xt, candidates.T).min() > 0.0
    assert len(np.unique(drawn.Xt, axis=0)) == 8


def test_what_k_means_parallel_has_drawn_it_does_not_draw_in_a_later_pass(rng):
    values = rng.normal(size=(40, 3))
    Xt = values[rng.integers(0, 40, 2000)]
    passes = []
    k_means_parallel(watched(engine(Xt, 0, 3).ask, passes), 5, seed=0)
    drawn = [set(rows) for rows in passes if rows]
    assert len(drawn) >= 2
    assert sum(len(rows) for rows in drawn) == len(set().union(*drawn))


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


def clusters_of_two_sources(rng, ratio, n=2000, m=6, r=4):
    """Return samples of which every other is ``ratio`` times as noisy, their sources, and the centres."""
    centres = 5.0 * rng.normal(size=(r, m))
    source = np.arange(n) % 2
    noise = 0.1 * np.where(source == 1, ratio, 1.0)[:, None] * rng.normal(size=(n, m))
    return centres[rng.integers(0, r, n)] + noise, source, centres


@pytest.mark.parametrize("ratio", [30.0, 100.0])
def test_a_noisy_source_does_not_supply_most_of_the_candidates(ratio, rng):
    Xt, source, _ = clusters_of_two_sources(rng, ratio)
    own = {tuple(row): c for row, c in zip(Xt, source, strict=True)}
    drawn = []
    for seed in range(10):
        passes = []
        k_means_parallel(watched(engine(Xt, source).ask, passes), 4, seed)
        drawn += [own[row] for rows in passes[1:] for row in rows]  # at first, what is noisy cannot be known
    assert len(drawn) >= 100
    assert np.mean(drawn) < 0.5


@given(generators(), st.integers(1, 30), st.integers(1, 3), st.booleans(), st.data())
def test_measured_in_several_calls_or_one_the_distances_are_to_the_nearest_candidate(rng, n, n_nodes, keeps, data):
    Xt, candidates = rng.normal(size=(n, 3)), rng.normal(size=(6, 3))
    labels = np.arange(n) % 2
    inner = engine(Xt, labels, n_nodes)
    inner.nodes = [replace(node, keeps_rows=keeps) for node in inner.nodes]
    for stop in [i for i in data.draw(cuts(6)) if i] or [6]:
        found = inner.ask(measure, candidates[:stop])
    expected = distances(Xt, candidates.T)
    if keeps:
        d2 = np.concatenate([node.memory.d2 for node in inner.nodes])
        near = np.concatenate([node.memory.near for node in inner.nodes])
        assert_allclose(d2, expected.min(axis=1), rtol=1e-9, atol=1e-12)
        assert_array_equal(near, expected.argmin(axis=1))
        assert {node.memory.n_candidates for node in inner.nodes} == {6}
    else:
        assert all(node.memory is None for node in inner.nodes)
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
    near = distances(Xt, candidates.T).argmin(axis=1)
    own = np.array([precision[c] for c in labels])
    assert_allclose(found, [own[near == k].sum() for k in range(5)])
    assert all(node.memory is None for node in inner.nodes)


class Forgetful:
    """An engine whose nodes lose what they remember after some of the questions."""

    def __init__(self, inner, every):
        self.inner, self.every, self.asked = inner, every, 0

    def ask(self, *question):
        reply = self.inner.ask(*question)
        self.asked += 1
        if self.asked % self.every == 0:
            self.inner.nodes = [replace(node, memory=None) for node in self.inner.nodes]
        return reply


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("kind", DATA)
def test_the_start_is_the_same_if_nodes_keep_nothing_or_lose_it(kind, every, rng):
    Xt, _ = clusters(rng)
    Xt, labels = DATA[kind](Xt), np.arange(len(Xt)) % 2
    expected = k_means_parallel(engine(Xt, labels, 2).ask, 4, seed=3)
    forgetful = Forgetful(engine(Xt, labels, 2), every)
    without = engine(Xt, labels, 2)
    without.nodes = [replace(node, keeps_rows=False) for node in without.nodes]
    rtol = 1e-5 if kind == "float32" else 1e-9
    assert_allclose(k_means_parallel(forgetful.ask, 4, seed=3), expected, rtol=rtol)
    assert_allclose(k_means_parallel(without.ask, 4, seed=3), expected, rtol=rtol)


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found_although_half_of_the_samples_are_noisy(seed, rng):
    Xt, source, centres = clusters_of_two_sources(rng, ratio=30.0)
    W = k_means_parallel(engine(Xt, source, 2).ask, 4, seed)
    assert np.sqrt(distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_clusters_far_from_the_origin_are_found(seed, dtype, rng):
    # 1000 from the origin, 1.5 from each other: float32 resolves 6e-5 there.
    centres = 1000.0 + 1.5 * np.eye(3)
    Xt = (centres[rng.integers(0, 3, 600)] + 0.1 * rng.normal(size=(600, 3))).astype(dtype)
    W = k_means_parallel(engine(Xt, 0, 2).ask, 3, seed)
    assert np.sqrt(distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("n_nodes", [1, 3])
def test_separate_clusters_are_found(n_nodes, rng):
    Xt, centres = clusters(rng, n=2000, r=6, m=8, noise=0.1, distance=10.0)
    W = k_means_parallel(engine(Xt, 0, n_nodes).ask, 6, seed=0)
    assert np.sqrt(distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_nearest_sends_the_statistics_of_hard_memberships(kind, n_nodes, rng):
    Xt, _ = clusters(rng)
    W, labels = rng.normal(size=(5, 4)), np.arange(len(Xt)) % 2
    hard = np.eye(4)[distances(Xt, W).argmin(axis=1)]
    found = engine(DATA[kind](Xt), labels, n_nodes).ask(nearest, W)
    assert sorted(found) == [0, 1]
    for c, stats in found.items():
        expected = statistics_of(Xt[labels == c], hard[labels == c])
        assert_allclose(stats.XHt, expected.XHt, rtol=1e-5, atol=1e-5 * np.abs(expected.XHt).max())
        assert_array_equal(stats.HHt, expected.HHt)
        assert_allclose(stats.sq_norm, expected.sq_norm, rtol=1e-5)
        assert stats.n == expected.n


def test_a_pass_of_refinement_is_a_pass_of_k_means(rng):
    Xt, _ = clusters(rng)
    W = Xt[:4].T.copy()
    near = distances(Xt, W).argmin(axis=1)
    expected = np.stack([Xt[near == k].mean(axis=0) for k in range(4)], axis=1)
    assert_allclose(refine(engine(Xt, 0, 3).ask, W, 1), expected, rtol=1e-9)


def test_refinement_does_not_raise_the_sum_of_distances(rng):
    Xt = rng.normal(size=(300, 4))
    W = Xt[:6].T.copy()
    ask = partial(refine, engine(Xt, 0, 2).ask)
    sums = [distances(Xt, ask(W, passes)).min(axis=1).sum() for passes in range(6)]
    assert all(after <= before * (1.0 + 1e-12) for before, after in pairwise(sums))
    assert sums[-1] < sums[0]


@pytest.mark.parametrize("start", STARTS)
def test_neither_data_nor_nodes_are_changed(start, rng):
    Xt, _ = clusters(rng)
    copy, nodes = Xt.copy(), partition(Xt, 0, 2)
    STARTS[start](Engine(nodes, n_threads=1).ask, 4, seed=0)
    assert_array_equal(Xt, copy)
    assert all(node.memory is None for node in nodes)
