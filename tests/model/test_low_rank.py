from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import qr

from dbmd.data import partition
from dbmd.engines.local import Engine
from dbmd.model.low_rank import LowRank
from dbmd.model.start import nearest
from dbmd.model.statistics import squared_norms
from dbmd.sweep import sweep
from strategies import statistics

ASKED = {"nearest": nearest, "sweep": partial(sweep, sigma2=np.ones(3), prior=np.zeros(4))}


def low_rank(rng, n=30, m=12, k=3):
    """Return a low-rank array, the plain one that it stands for in products, and that with what is off the space."""
    Q = qr(rng.normal(size=(m, m)))[0]
    directions, others = Q[:, :k], Q[:, k:]
    scores, rest, offset = rng.normal(size=(n, k)), rng.normal(size=(n, m - k)), rng.normal(size=m)
    plain = offset + scores @ directions.T
    return LowRank(scores, directions, offset, (rest**2).sum(axis=1)), plain, plain + rest @ others.T


def test_products_are_those_of_the_array_that_it_stands_for(rng):
    short, plain, _ = low_rank(rng)
    W, Ht = rng.normal(size=(12, 4)), rng.normal(size=(30, 4))
    assert short.shape == plain.shape
    assert_allclose(short @ W, plain @ W, rtol=1e-12, atol=1e-12)
    assert_allclose(Ht.T @ short, Ht.T @ plain, rtol=1e-12, atol=1e-12)
    assert_allclose(short @ W[:, 0], plain @ W[:, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_a_basis_are_of_its_type_and_sums_are_not(dtype, rng):
    short, plain, _ = low_rank(rng)
    W, Ht = rng.normal(size=(12, 4)).astype(dtype), rng.random((30, 4)).astype(dtype)
    assert (short @ W).dtype == dtype
    assert_allclose(short @ W, plain @ W.astype(float), rtol=1e-5, atol=1e-5)
    assert (Ht.T @ short).dtype == np.float64
    assert_allclose(Ht.T @ short, Ht.T.astype(float) @ plain, rtol=1e-12, atol=1e-12)


def test_norms_count_what_is_off_the_space_about_any_origin_in_it(rng):
    short, _, whole = low_rank(rng)
    for coordinates in (np.zeros(3), rng.normal(size=3)):
        vector = short.offset + short.directions @ coordinates
        assert_allclose(squared_norms(short - vector), ((whole - vector) ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("rows", [slice(3, 9), np.array([4, 0, 17])])
def test_some_rows_are_those_of_the_array(rows, rng):
    short, plain, whole = low_rank(rng)
    W, middle = rng.normal(size=(12, 4)), short.offset
    assert_allclose(short[rows] @ W, plain[rows] @ W, rtol=1e-12, atol=1e-12)
    assert_allclose(squared_norms(short[rows] - middle), ((whole[rows] - middle) ** 2).sum(axis=1), rtol=1e-12)


def test_statistics_of_whole_samples_and_of_low_rank_ones_leave_the_same_squares_at_a_basis_in_the_space(rng):
    short, _, whole = low_rank(rng)
    Ht, weights, origin = rng.dirichlet(np.ones(4), 30), rng.random(30) + 0.5, short.offset
    W = short.offset[:, None] + short.directions @ rng.normal(size=(3, 4))
    one, other = (statistics(Xt - origin, Ht, np.zeros(12), weights=weights) for Xt in (short, whole))
    assert_allclose(one.squares(W, origin), other.squares(W, origin), rtol=1e-10)


@pytest.mark.parametrize("function", ASKED)
@pytest.mark.parametrize("sources", ["one", "alternating"])
def test_nodes_answer_as_with_whole_samples_at_a_basis_in_the_space(function, sources, rng):
    short, _, whole = low_rank(rng, n=60)
    labels = np.zeros(60, int) if sources == "one" else np.arange(60) % 3
    W = short.offset[:, None] + short.directions @ rng.normal(size=(3, 4))
    origin, found = W.mean(axis=1), []
    for Xt in (short, whole):
        with Engine(partition(Xt, labels, 2, np.dtype(np.float64)), 1) as centre:
            found.append(centre.ask(partial(ASKED[function], origin=origin), W))
    assert sorted(found[0]) == sorted(found[1]) == sorted(set(labels))
    for c, one in found[0].items():
        assert_allclose(one.HHt, found[1][c].HHt, rtol=1e-6, atol=1e-6)
        assert_allclose(one.sq_norm, found[1][c].sq_norm, rtol=1e-10)
        assert_allclose(one.squares(W, origin), found[1][c].squares(W, origin), rtol=1e-6)
