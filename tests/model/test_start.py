import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from clusters import DATA, clusters, clusters_of_two_sources, engine, squared_distances
from dbmd.data import block, partition
from dbmd.engines.local import Engine
from dbmd.model import start as starts
from dbmd.model.draw import DrawnSamples, moments
from dbmd.model.low_rank import LowRank
from dbmd.model.measure import draw_by_distance
from dbmd.model.node import Node
from dbmd.model.start import (
    STARTS,
    draw_sample,
    k_means,
    k_means_of_a_sample,
    k_means_parallel,
    nearest,
    random_samples,
    refine,
)
from strategies import cuts, generators, statistics_of


def drawn(engine, seed):
    return draw_sample(engine.ask, engine.ask(moments), 4, seed)


WIDE = 80  # features, so many that four clusters are looked for in fewer dimensions
clustering = pytest.mark.parametrize("start", ["k-means++", "k-means||"])


def watched(ask, drawn):
    """Return ask, but note in a list the samples of every pass of k-means|| that draws by distance."""

    def watching(function, *broadcast):
        reply = ask(function, *broadcast)
        if getattr(function, "func", function) is draw_by_distance:
            drawn.append([tuple(row) for row in reply.Xt])
        return reply

    return watching


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
        assert_allclose(W, found[0], rtol=1e-5 if kind == "float32" else 1e-9, atol=1e-5 if kind == "float32" else 0.0)


@settings(max_examples=15)
@given(generators(), st.sampled_from([*STARTS]), st.sampled_from([*DATA]), st.integers(1, 3), st.data())
def test_one_seed_gives_one_start_for_any_cut_into_nodes_and_any_order_of_them(rng, start, kind, n_threads, data):
    Xt, labels = DATA[kind](clusters(rng, n=120)[0]), rng.integers(0, 3, 120)
    edges = data.draw(st.permutations(list(pairwise(data.draw(cuts(120))))))
    nodes = [Node("part", block.Block(Xt[i:j], labels[i:j], i)) for i, j in edges]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "SAMPLE", 60)
        patch.setattr(starts, "SAMPLE_EACH", 1)
        expected = STARTS[start](engine(Xt, labels).ask, 4, seed=7)
        with Engine(nodes, n_threads) as cut:
            found = STARTS[start](cut.ask, 4, seed=7)
    assert_allclose(found, expected, rtol=1e-4 if kind == "float32" else 1e-9)


@pytest.mark.parametrize("start", STARTS)
def test_questions_and_answers_can_be_sent_to_another_process(start, rng):
    Xt, _ = clusters(rng)
    labels = np.arange(len(Xt)) % 2
    inner = engine(Xt, labels, 3)

    def ask(*question):
        return pickle.loads(pickle.dumps(inner.ask(*pickle.loads(pickle.dumps(question, 5))), 5))

    assert_array_equal(STARTS[start](ask, 4, seed=3), STARTS[start](engine(Xt, labels, 3).ask, 4, seed=3))


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
def test_the_width_of_sparse_indices_is_irrelevant(start, rng):
    narrow = sparse.csr_array(clusters(rng)[0])
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    one, other = (STARTS[start](engine(data).ask, 4, seed=3) for data in (narrow, wide))
    assert_array_equal(other, one)


@pytest.mark.parametrize("sources", ["one", "alternating"])
@pytest.mark.parametrize("kind", DATA)
def test_one_seed_gives_one_start_of_wide_samples_however_they_are_cut_stored_or_shared_by_threads(kind, sources, rng):
    Xt = clusters(rng, n=400, m=WIDE)[0]
    labels = 0 if sources == "one" else np.arange(400) % 3
    expected = k_means_of_a_sample(engine(Xt, labels).ask, 4, seed=5)
    data = DATA[kind](Xt)
    for n_nodes in (1, 3):
        sample = drawn(engine(data, labels, n_nodes), seed=5)
        with ThreadPoolExecutor(n_nodes) as pool:
            W, seen, _ = k_means(sample, 4, 5, pool.map)
        assert isinstance(seen, LowRank)
        assert_allclose(W, expected, rtol=1e-3 if kind == "float32" else 1e-9, atol=1e-4 if kind == "float32" else 1e-9)


def test_the_start_of_wide_samples_moves_and_grows_with_them(rng):
    Xt, vector = clusters(rng, n=400, m=WIDE)[0], 100.0 * rng.normal(size=WIDE)
    one, other = (k_means_of_a_sample(engine(data).ask, 4, seed=5) for data in (Xt, 7.0 * Xt + vector))
    assert_allclose(other, 7.0 * one + vector[:, None], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("distinct", [1, 3])
def test_fewer_distinct_wide_samples_than_components_are_all_used(distinct, rng):
    values = rng.normal(size=(distinct, WIDE))
    W = k_means_of_a_sample(engine(values[np.arange(300) % distinct], np.arange(300) % 2).ask, 5, seed=1)
    assert_allclose(squared_distances(values, W).min(axis=1), 0.0, atol=1e-20)
    assert_allclose(squared_distances(W.T, values.T).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_wide_samples_of_zeros_give_zeros(form):
    assert_array_equal(k_means_of_a_sample(engine(form(np.zeros((200, WIDE)))).ask, 4, seed=0), 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_clusters_of_wide_samples_are_found_although_half_of_them_are_so_noisy_that_they_hide_the_directions(seed, rng):
    Xt, source, centres = clusters_of_two_sources(rng, 300.0, m=WIDE)
    W = k_means_of_a_sample(engine(Xt, source, 2).ask, 4, seed)
    assert np.sqrt(squared_distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("start", STARTS)
def test_another_seed_gives_another_start(start, rng):
    Xt = rng.normal(size=(300, 5))
    one, other = (STARTS[start](engine(Xt).ask, 4, seed=seed) for seed in (1, 2))
    assert np.abs(one - other).max() > 1e-3


def test_a_random_start_consists_of_different_samples(rng):
    Xt = np.repeat(rng.normal(size=(12, 3)), 30, axis=0)
    W = random_samples(engine(Xt).ask, 4, seed=0)
    assert len(np.unique(W, axis=1).T) == 4
    assert (squared_distances(Xt, W).min(axis=0) == 0.0).all()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("distinct", [1, 2, 3])
@pytest.mark.parametrize("n_nodes", [1, 3])
def test_fewer_distinct_samples_than_components_are_all_used(start, distinct, n_nodes, rng):
    values = rng.normal(size=(distinct, 4))
    Xt = values[np.arange(60) % distinct]
    W = STARTS[start](engine(Xt, np.arange(60) // 7 % 2, n_nodes).ask, 5, seed=1)
    assert W.shape == (4, 5)
    assert_allclose(squared_distances(values, W).min(axis=1), 0.0, atol=1e-20)
    assert_allclose(squared_distances(W.T, values.T).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_as_few_samples_as_there_are_components_or_fewer_will_do(start, n, rng):
    Xt = rng.normal(size=(n, 3))
    W = STARTS[start](engine(Xt, 0, 2).ask, 5, seed=1)
    assert W.shape == (3, 5)
    assert_allclose(squared_distances(Xt, W).min(axis=1), 0.0, atol=1e-20)


@pytest.mark.parametrize("start", STARTS)
def test_data_of_zeros_give_zeros(start):
    assert_array_equal(STARTS[start](engine(np.zeros((20, 3)), 0, 2).ask, 4, seed=0), 0.0)


def test_what_k_means_parallel_has_drawn_it_does_not_draw_in_a_later_pass(rng):
    values = rng.normal(size=(40, 3))
    Xt = values[rng.integers(0, 40, 2000)]
    passes = []
    k_means_parallel(watched(engine(Xt, 0, 3).ask, passes), 5, seed=0)
    drawn = [set(rows) for rows in passes if rows]
    assert len(drawn) >= 2
    assert sum(len(rows) for rows in drawn) == len(set().union(*drawn))


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


class Forgetful:
    """An engine whose nodes lose what they remember after some of the questions."""

    def __init__(self, inner, every):
        self.inner, self.every, self.asked = inner, every, 0

    def ask(self, *question):
        reply = self.inner.ask(*question)
        self.asked += 1
        if self.asked % self.every == 0:
            self.inner.nodes = [replace(node, scratch=None) for node in self.inner.nodes]
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


@clustering
@pytest.mark.parametrize("ratio", [30.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found_although_half_of_the_samples_are_noisy(start, seed, ratio, rng):
    Xt, source, centres = clusters_of_two_sources(rng, ratio)
    W = STARTS[start](engine(Xt, source, 2).ask, 4, seed)
    assert np.sqrt(squared_distances(centres, W).min(axis=1)).max() < 0.1


@clustering
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_clusters_far_from_the_origin_are_found(start, seed, dtype, rng):
    # 1000 from the origin, 1.5 from each other: float32 resolves 6e-5 there.
    centres = 1000.0 + 1.5 * np.eye(3)
    Xt = (centres[rng.integers(0, 3, 600)] + 0.1 * rng.normal(size=(600, 3))).astype(dtype)
    W = STARTS[start](engine(Xt, 0, 2).ask, 3, seed)
    assert np.sqrt(squared_distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("m", [5, 40])
def test_only_a_bounded_part_of_the_samples_travels(m, rng, monkeypatch):
    monkeypatch.setattr(starts, "SAMPLE", 400)
    monkeypatch.setattr(starts, "SAMPLE_NUMBERS", 4000)
    monkeypatch.setattr(starts, "SAMPLE_EACH", 30)
    inner, replies = engine(rng.normal(size=(5000, m)), np.arange(5000) % 2, 3), []

    def ask(*question):
        replies.append(inner.ask(*question))
        return replies[-1]

    for r, expected in ((2, min(400, 4000 // m)), (20, 600)):
        replies.clear()
        k_means_of_a_sample(ask, r, seed=0)
        (drawn_samples,) = (reply for reply in replies if isinstance(reply, DrawnSamples))
        assert abs(len(drawn_samples.in_order()[0]) - expected) < 5.0 * np.sqrt(expected)
        assert len(replies) == 2  # besides, the moments are asked for


def test_most_of_the_samples_are_all_of_them(rng, monkeypatch):
    monkeypatch.setattr(starts, "SAMPLE", 60)
    monkeypatch.setattr(starts, "SAMPLE_EACH", 1)
    Xt = rng.normal(size=(119, 3))
    sample = drawn(engine(Xt, 0, 2), seed=0)
    assert sample.n_of_all == len(sample.Xt)
    assert_array_equal(sample.Xt, Xt)
    assert_array_equal(sample.weights, 1.0)
    more = drawn(engine(np.tile(Xt, (2, 1)), 0, 2), seed=0)
    assert more.n_of_all == 2 * len(Xt) > len(more.Xt)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_wide_samples_are_fewer_and_not_worth_a_fit_of_the_peak_but_zeros_do_not_count(form, rng, monkeypatch):
    monkeypatch.setattr(starts, "SAMPLE", 400)
    monkeypatch.setattr(starts, "SAMPLE_NUMBERS", 8000)
    monkeypatch.setattr(starts, "SAMPLE_EACH", 1)
    Xt = rng.normal(size=(2000, 100)) * (rng.random((2000, 100)) < 0.1)
    sample = drawn(engine(form(Xt), 0, 2), seed=0)
    expected = 80 if form is np.asarray else 400
    assert abs(sample.Xt.shape[0] - expected) < 5.0 * np.sqrt(expected)
    assert sample.is_worth_a_peak_fit == (form is sparse.csr_array)


def test_samples_of_every_source_are_drawn_however_far_noise_spreads_another(rng, monkeypatch):
    monkeypatch.setattr(starts, "SAMPLE", 400)
    monkeypatch.setattr(starts, "SAMPLE_EACH", 1)
    labels = np.arange(4000) % 2
    Xt = rng.normal(size=(4000, 3)) * np.where(labels, 100.0, 1.0)[:, None]
    sample = drawn(engine(Xt, labels, 3), seed=0)
    assert_allclose(np.bincount(sample.source_codes), 200, atol=60)


@clustering
def test_the_start_with_one_component_is_the_mean(start, rng):
    Xt = 100.0 + rng.normal(size=(200, 3))
    assert_allclose(STARTS[start](engine(Xt, 0, 2).ask, 1, seed=0)[:, 0], Xt.mean(axis=0), rtol=1e-9)


@clustering
@pytest.mark.parametrize("n_nodes", [1, 3])
def test_separate_clusters_are_found(start, n_nodes, rng):
    Xt, centres = clusters(rng, n=2000, r=6, m=8, noise=0.1, distance=10.0)
    W = STARTS[start](engine(Xt, 0, n_nodes).ask, 6, seed=0)
    assert np.sqrt(squared_distances(centres, W).min(axis=1)).max() < 0.1


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_nearest_sends_the_statistics_of_hard_memberships(kind, n_nodes, rng):
    Xt, _ = clusters(rng)
    W, labels = rng.normal(size=(5, 4)), np.arange(len(Xt)) % 2
    hard = np.eye(4)[squared_distances(Xt, W).argmin(axis=1)]
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
    near = squared_distances(Xt, W).argmin(axis=1)
    expected = np.stack([Xt[near == k].mean(axis=0) for k in range(4)], axis=1)
    assert_allclose(refine(engine(Xt, 0, 3).ask, W, 1), expected, rtol=1e-9)


def test_refinement_does_not_raise_the_sum_of_squared_distances(rng):
    Xt = rng.normal(size=(300, 4))
    W = Xt[:6].T.copy()
    ask = partial(refine, engine(Xt, 0, 2).ask)
    sums = [squared_distances(Xt, ask(W, passes)).min(axis=1).sum() for passes in range(6)]
    assert all(after <= before * (1.0 + 1e-12) for before, after in pairwise(sums))
    assert sums[-1] < sums[0]


@pytest.mark.parametrize("start", STARTS)
def test_neither_data_nor_nodes_are_changed(start, rng):
    Xt, _ = clusters(rng)
    copy, nodes = Xt.copy(), partition(Xt, 0, 2)
    STARTS[start](Engine(nodes, n_threads=1).ask, 4, seed=0)
    assert_array_equal(Xt, copy)
    assert all(node.scratch is None for node in nodes)
