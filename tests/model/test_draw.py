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
from dbmd.model.draw import Chances, Draw, DrawnSamples, draw_fraction, draw_uniform, exponentials, moments
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


def chances(*nodes, fraction):
    """Return the chances of the samples of nodes."""
    return Chances.of(reduce(add, (moments(node)[1] for node in nodes)), fraction)


@given(generators(), st.integers(1, 40), st.sampled_from([0.2, 0.7, 1.0]), st.sampled_from([*DATA]), st.data())
def test_a_fraction_does_not_depend_on_the_nodes_or_their_order(rng, n, fraction, kind, data):
    Xt, sources = DATA[kind](rng.normal(size=(n, 2))), rng.integers(0, 3, n)
    (whole,) = partition(Xt, sources, 1)
    _, expected = draw_fraction(whole, seed=5, chances=chances(whole, fraction=fraction))
    edges = data.draw(st.permutations(list(pairwise(data.draw(cuts(n))))))
    nodes = [Node("part", block.Block(Xt[start:stop], sources[start:stop], start)) for start, stop in edges]
    mine = chances(*nodes, fraction=fraction)
    total = reduce(add, [draw_fraction(node, seed=5, chances=mine)[1] for node in nodes])
    assert sorted(i for numbers, *_ in total.pieces for i in numbers) == sorted(
        i for numbers, *_ in expected.pieces for i in numbers
    )
    if total.pieces:
        (found, its, weights), (alike, theirs, expected_weights) = total.in_order(), expected.in_order()
        assert found.dtype == Xt.dtype
        assert sparse.issparse(found) == (kind == "CSR")
        assert_array_equal(dense(found), dense(alike))
        assert_array_equal(its, theirs)
        assert_allclose(weights, expected_weights, rtol=1e-10)


@pytest.mark.parametrize("kind", DATA)
def test_a_fraction_of_one_is_all_samples_in_their_order_with_their_sources(kind, rng):
    Xt, sources = DATA[kind](rng.normal(size=(50, 3))), np.arange(50) * 7 % 4
    (node,) = partition(Xt, sources, 1)
    found, its, weights = draw_fraction(node, seed=0, chances=chances(node, fraction=1.0))[1].in_order()
    assert_array_equal(dense(found), dense(Xt))
    assert_array_equal(its, sources)
    assert_array_equal(weights, 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9])
@pytest.mark.parametrize("tail", ["none", "light", "heavy"])
def test_a_fraction_is_about_as_large_as_was_asked_for(offset, tail, rng):
    n = 20_000
    Xt = offset + {"none": np.zeros((n, 2)), "light": rng.normal(size=(n, 2)), "heavy": rng.pareto(1.1, (n, 2))}[tail]
    (node,) = partition(Xt, 0, 1)
    for fraction in (0.001, 0.1, 0.5):
        _, found = draw_fraction(node, seed=3, chances=chances(node, fraction=fraction))
        drawn = sum(len(numbers) for numbers, *_ in found.pieces)
        # At most: a sample that is certain to be drawn, and more than that, is drawn once.
        assert drawn - fraction * n < 5.0 * np.sqrt(fraction * n)
        assert drawn - 0.5 * fraction * n > -5.0 * np.sqrt(fraction * n)


@pytest.mark.parametrize("kind", DATA)
def test_what_is_drawn_stands_for_all_of_each_source(kind, rng):
    """Weighted sums over draws are unbiased, and the samples far out are among them."""
    n, sources = 3000, np.arange(3000) % 2
    Xt = rng.normal(size=(n, 2)) * np.where(sources, 30.0, 1.0)[:, None] + np.where(np.arange(n) < 4, 1e4, 0.0)[:, None]
    (node,) = partition(DATA[kind](Xt), sources, 1)
    known = chances(node, fraction=0.1)
    counts, sums, far = [], [], []
    for seed in range(300):
        drawn, its, weights = draw_fraction(node, seed=seed, chances=known)[1].in_order()
        assert weights.max() <= 20.0 * (1.0 + 1e-9)
        assert weights.min() >= 1.0
        counts.append(np.bincount(its, weights))
        sums.append(weights @ dense(drawn))
        far.append((dense(drawn) > 5e3).all(axis=1).sum())
    for found, expected in ((counts, np.bincount(sources)), (sums, Xt.sum(axis=0))):
        error = np.std(found, axis=0) / np.sqrt(len(found))
        assert (np.abs(np.mean(found, axis=0) - expected) < 5.0 * error + 1e-4 * np.abs(expected)).all()
    assert np.mean(far) == 4.0  # all of them, always


def test_drawn_samples_are_added_without_copying_and_can_be_pickled(rng):
    (node,) = partition(rng.normal(size=(9, 2)), 0, 1)
    (thin,) = partition(sparse.csr_array(rng.normal(size=(6, 2))), 1, 1)  # files of several formats may be one source
    both = chances(node, thin, fraction=1.0)
    one, other = (draw_fraction(part, seed=0, chances=both)[1] for part in (node, thin))
    total = one + other
    assert all(mine is its for mine, its in zip(total.pieces, one.pieces + other.pieces, strict=True))
    sent = pickle.loads(pickle.dumps(total, 5)).in_order()
    assert_array_equal(dense(sent[0]), dense(total.in_order()[0]))
    assert_array_equal(np.bincount(sent[1]), [9, 6])


@pytest.mark.parametrize("kind", DATA)
def test_moments_add_and_a_node_may_be_empty(kind, rng):
    Xt = rng.normal(size=(6, 3)) + 2.0
    nodes = [Node("part", block.Block(DATA[kind](Xt[i:j]))) for i, j in ((0, 4), (4, 4), (4, 6))]
    total = reduce(add, (moments(node)[1] for node in nodes))[0]
    assert (total.n, total.stored) == (6, 18)
    assert_allclose(total.total, Xt.sum(axis=0), rtol=1e-6)
    about = Xt.mean(axis=0)
    assert_allclose(total.mean_square(about), ((Xt - about) ** 2).sum(axis=1).mean(), rtol=1e-5)
    assert moments(nodes[1])[1] == {}
    assert draw_fraction(nodes[1], seed=0, chances=chances(*nodes, fraction=1.0))[1] == DrawnSamples()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_drawn_samples_come_in_the_order_of_their_rows(form, rng):
    Xt, numbers = rng.random((12, 3)), rng.permutation(30)[:12]
    cut = pairwise([0, 5, 6, 12])
    pieces = tuple((numbers[i:j], k, form(Xt[i:j]), numbers[i:j] + 0.5) for k, (i, j) in enumerate(cut))
    order = np.argsort(numbers)
    whole = ((numbers[order], 0, form(Xt[order]), np.ones(12)),)
    for some in (pieces, whole):
        found = DrawnSamples(some).in_order()[0]
        assert_array_equal(found.toarray() if sparse.issparse(found) else found, Xt[order])
    _, codes, weights = DrawnSamples(pieces).in_order()
    assert_array_equal(codes, np.repeat([0, 1, 2], [5, 1, 6])[order])
    assert_array_equal(weights, numbers[order] + 0.5)
