import pickle
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from clusters import DATA
from dbmd.data import block, partition
from dbmd.model.draw import Draw, Share, Size, count, draw_share, draw_uniform, exponentials
from dbmd.model.node import Node
from strategies import cuts, generators


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


def dense(Xt):
    return Xt.toarray() if sparse.issparse(Xt) else Xt


@given(generators(), st.integers(1, 40), st.sampled_from([0.2, 0.7, 1.0]), st.sampled_from([*DATA]), st.data())
def test_a_share_does_not_depend_on_the_cut_into_nodes_or_their_order(rng, n, share, kind, data):
    Xt, sources = DATA[kind](rng.normal(size=(n, 2))), rng.integers(0, 3, n)
    (whole,) = partition(Xt, sources, 1)
    _, expected = draw_share(whole, seed=5, share=share)
    edges = data.draw(cuts(n))
    parts = [
        draw_share(Node("part", block.Block(Xt[start:stop], sources[start:stop], start)), seed=5, share=share)[1]
        for start, stop in data.draw(st.permutations(list(pairwise(edges))))
    ]
    total = reduce(add, parts)
    assert sorted(i for numbers, _, _ in total.pieces for i in numbers) == sorted(
        i for numbers, _, _ in expected.pieces for i in numbers
    )
    if total.pieces:
        (found, its), (alike, theirs) = total.in_order(), expected.in_order()
        assert found.dtype == np.float64
        assert sparse.issparse(found) == (kind == "CSR")
        assert_array_equal(dense(found), dense(alike))
        assert_array_equal(its, theirs)


@pytest.mark.parametrize("kind", DATA)
def test_a_share_of_one_is_all_samples_in_their_order_with_their_sources(kind, rng):
    Xt, sources = DATA[kind](rng.normal(size=(50, 3))), np.arange(50) * 7 % 4
    (node,) = partition(Xt, sources, 1)
    found, its = draw_share(node, seed=0, share=1.0)[1].in_order()
    assert_array_equal(dense(found), dense(Xt))
    assert_array_equal(its, sources)


def test_a_share_is_about_as_large_as_was_asked_for():
    n = 20_000
    (node,) = partition(np.zeros((n, 1)), 0, 1)
    for share in (0.001, 0.1, 0.9):
        drawn = sum(len(numbers) for numbers, _, _ in draw_share(node, seed=3, share=share)[1].pieces)
        assert abs(drawn - share * n) < 5.0 * np.sqrt(share * (1.0 - share) * n)


def test_shares_are_added_without_copying_and_survive_the_way_to_the_centre(rng):
    (node,) = partition(rng.normal(size=(9, 2)), 0, 1)
    (thin,) = partition(sparse.csr_array(rng.normal(size=(6, 2))), 1, 1)  # files of several formats may be one source
    one, other = (draw_share(part, seed=0, share=1.0)[1] for part in (node, thin))
    total = one + other
    assert all(mine is its for mine, its in zip(total.pieces, one.pieces + other.pieces, strict=True))
    sent = pickle.loads(pickle.dumps(total, 5)).in_order()
    assert_array_equal(dense(sent[0]), dense(total.in_order()[0]))
    assert_array_equal(np.bincount(sent[1]), [9, 6])


def test_sizes_add_and_a_node_may_be_empty():
    nodes = [Node("part", block.Block(np.zeros((n, 3)))) for n in (4, 0, 2)]
    assert reduce(add, (count(node)[1] for node in nodes)) == Size(6, 3)
    assert draw_share(nodes[1], seed=0, share=1.0)[1] == Share()
