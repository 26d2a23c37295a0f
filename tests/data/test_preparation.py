"""What a user would do to the samples beforehand, and what a preparation does while they are read, are the same."""

import pickle
from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.data import partition
from dbmd.data.block import Block
from dbmd.data.features import FeatureMoments, find_preparation
from dbmd.data.preparation import Preparation, PreparedFunction
from dbmd.engines.local import Engine
from dbmd.errors import DataError
from dbmd.model.draw import Chances, draw_fraction, moments
from dbmd.model.node import Node, continues, does_continue
from dbmd.model.start import nearest
from profiles import examples
from strategies import cuts, generators
from tables import dense

M = 5
KINDS = {
    "dense": np.asarray,
    "Fortran order": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "CSR": sparse.csr_array,
    "CSR of float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "int16": lambda X: X.astype(np.int16),
}


def of_rows(X, size):
    return X / np.where(size > 0.0, size, 1.0)[:, None]


def of_columns(X, size):
    return X / np.where(np.ptp(X, axis=0) > 0.0, size, 1.0)


BY_HAND = {
    None: lambda X: X,
    "standard": lambda X: of_columns(X, X.std(axis=0)),
    "minmax": lambda X: of_columns(X, np.ptp(X, axis=0)),
    "sum": lambda X: of_rows(X, X.sum(axis=1)),
    "l2": lambda X: of_rows(X, np.sqrt((X**2).sum(axis=1))),
}


def by_hand(X, scaling, log):
    return BY_HAND[scaling](np.log1p(X) if log else X)


@st.composite
def counts(draw, max_rows=40):
    """Strategy: whole numbers, of which many are zero, a column that never changes, and sources."""
    n, rng = draw(st.integers(1, max_rows)), draw(generators())
    X = rng.integers(0, 50, (n, M)) * (rng.random((n, M)) < 0.6) * 1.0
    X[:, 2] = draw(st.sampled_from([0.0, 7.0]))
    return X, rng.integers(0, 2, n)


def found(Xt, sources=0, n_nodes=1, weights=None, **options):
    with Engine(partition(Xt, sources, n_nodes, weights=weights), n_threads=1) as engine:
        return find_preparation(engine, **options)


def read(samples, shift=None):
    """Return all samples as their chunks have them."""
    X = np.full(samples.shape, np.nan)
    for chunk in samples.chunks(shift):
        assert chunk.Xt.dtype == samples.dtype
        assert sparse.issparse(chunk.Xt) == samples.is_sparse
        X[chunk.rows] = dense(chunk.Xt)
    return X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("scaling", BY_HAND)
@given(counts(), st.integers(1, 4))
def test_chunks_are_what_a_user_would_make_beforehand(scaling, log, kind, data, n_nodes):
    X, sources = data
    Xt = KINDS[kind](X)
    preparation = found(Xt, sources, n_nodes, scaling=scaling, log=log)
    if preparation is None:
        assert scaling is None
        assert not log
        return
    expected = by_hand(X, scaling, log)
    rtol = 1e-6 if "float32" in kind or kind == "int16" else 1e-12
    before = dense(Xt).copy()
    for codes in (0, sources):
        samples = preparation.of(Block(Xt, codes))
        assert samples.shape == X.shape
        assert_allclose(read(samples), expected, rtol=rtol, atol=rtol)
        shift = np.arange(M) / 4.0
        assert_allclose(read(samples, shift), expected - (0 if samples.is_sparse else shift), rtol=rtol, atol=10 * rtol)
    assert_array_equal(dense(Xt), before)  # nobody else's numbers change
    assert_allclose(dense(preparation.apply(X)), expected, rtol=1e-12, atol=1e-12)
    assert_allclose(dense(preparation.apply(Xt)), expected, rtol=rtol, atol=rtol)
    assert_array_equal(dense(Xt), before)


@given(counts(), st.sampled_from(["standard", "minmax"]), st.booleans())
def test_components_return_to_the_units_of_the_data(data, scaling, log):
    X, _ = data
    preparation = found(X, scaling=scaling, log=log)
    assert_allclose(preparation.to_data_units(preparation.apply(X)), X, atol=1e-9)


@examples(5, 20)
@given(generators(), st.sampled_from([1e-6, 1.0, 1e9]), st.data())
def test_moments_of_features_have_their_digits_far_from_zero_however_they_are_cut(rng, far, data):
    n = 60
    X = far + rng.normal(size=(n, M))
    X[:, 1] = far
    for form in (np.asarray, sparse.csr_array):
        edges = data.draw(cuts(n))
        parts = [FeatureMoments.of(form(X[i:j])) for i, j in pairwise(edges)]
        features = reduce(add, parts, FeatureMoments.nothing(M))
        assert_allclose(features.mean, X.mean(axis=0), rtol=1e-13, atol=1e-14)
        if form is np.asarray:
            assert_allclose(features.standard, np.where(np.arange(M) == 1, 1.0, X.std(axis=0)), rtol=1e-7)
        assert_array_equal(features.range, np.where(np.arange(M) == 1, 1.0, np.ptp(X, axis=0)))


@pytest.mark.parametrize("kind", ["dense", "CSR"])
@given(counts(), st.data())
def test_weights_count_as_repetitions(kind, data, more):
    X, sources = data
    often = np.array(more.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
    often[0] += 1
    for scaling in ("standard", "minmax"):
        one = found(KINDS[kind](X), sources, 2, often.astype(float), scaling=scaling)
        assert_allclose(one.scale, found(np.repeat(X, often, axis=0), scaling=scaling).scale, rtol=1e-9)


# -- entries that are missing ------------------------------------------------------------------------------------------


def with_gaps(rng, X, fraction=0.3):
    """Return samples of which some entries are missing; the first one is complete."""
    X = np.where(rng.random(X.shape) < fraction, np.nan, X)
    X[0] = np.arange(1.0, M + 1.0)
    return X


@pytest.mark.parametrize("kind", ["dense", "Fortran order", "float32"])
@pytest.mark.parametrize("scaling", [None, "standard", "minmax"])
@given(counts(), generators(), st.integers(1, 3))
def test_gaps_are_known_and_filled_with_the_means_of_what_is_there(scaling, kind, data, rng, n_nodes):
    X, sources = data
    X = with_gaps(rng, X)
    gaps = np.isnan(X)
    preparation = found(KINDS[kind](X), sources, n_nodes, scaling=scaling, missing="allow")
    spread = {None: np.ones(M), "standard": np.nanstd(X, axis=0), "minmax": np.nanmax(X, 0) - np.nanmin(X, 0)}[scaling]
    scaled = X / np.where(spread > 0.0, spread, 1.0)
    rtol = 1e-5 if kind == "float32" else 1e-9
    assert_allclose(preparation.fill, np.nanmean(scaled, axis=0), rtol=rtol, atol=1e-12)
    samples = preparation.of(Block(KINDS[kind](X), sources))
    for shift in (None, np.ones(M)):
        seen = np.zeros(gaps.shape, bool)
        for chunk in samples.chunks(shift):
            if chunk.gaps is not None:
                assert chunk.gaps.any()
                seen[chunk.rows] = chunk.gaps
        assert_array_equal(seen, gaps)
        expected = np.where(gaps, preparation.fill, scaled) - (0.0 if shift is None else shift)
        assert_allclose(read(samples, shift), expected, rtol=rtol, atol=rtol)


@given(counts(), generators())
def test_samples_with_gaps_are_as_if_they_were_not_there(data, rng):
    X, sources = data
    X = with_gaps(rng, X, 0.1)
    there = ~np.isnan(X).any(axis=1)
    preparation = found(X, sources, 2, scaling="standard", missing="drop")
    assert_allclose(preparation.scale, found(X[there], scaling="standard").scale)
    W = rng.normal(size=(M, 3))
    with (
        preparation.around(Engine(partition(X, sources, 2), n_threads=1)) as one,
        preparation.around(Engine(partition(X[there], sources[there], 1), n_threads=1)) as other,
    ):
        for asked in ((moments,), (nearest, W)):
            mine, its = one.ask(*asked), other.ask(*asked)
            assert mine.keys() == its.keys()
            for c, each in mine.items():
                for value, expected in zip(vars(each).values(), vars(its[c]).values(), strict=True):
                    assert_allclose(value, expected, atol=1e-9)
    dropped = preparation.of(Block(X, sources)).dropped()
    assert_array_equal(np.zeros(len(X), bool) if dropped is None else dropped, ~there)


def test_drawn_samples_have_their_gaps_again(rng):
    X = with_gaps(rng, rng.normal(size=(50, M)))
    preparation = found(X, missing="allow")
    with preparation.around(Engine(partition(X, 0, 2), n_threads=1)) as engine:
        drawn = engine.ask(partial(draw_fraction, seed=0, chances=Chances(1.0, np.zeros(M), {})))
    assert_array_equal(drawn.in_order()[0], X)


@given(generators())
def test_sums_and_norms_of_what_is_there_are_those_of_equal_entries(rng):
    X = np.where(rng.random((9, M)) < 0.4, np.nan, 3.0)
    X[:, 0] = 3.0
    for by_sample, size in (("sum", 3.0 * M), ("l2", 3.0 * np.sqrt(M))):
        assert_allclose(Preparation(by_sample=by_sample).apply(X), X / size)


# -- engines -----------------------------------------------------------------------------------------------------------


@continues
def remembered(node, *numbers):
    return node, [node.scratch]


def remember(node, number):
    assert type(node.block).__name__ == "PreparedSamples"
    return Node(node.name, node.block, scratch=number), [node.block.first_row]


def test_nodes_keep_their_samples_as_they_are_and_their_cache(rng):
    X = rng.random((6, M))
    preparation = Preparation(log=True)
    engine = Engine(partition(X, 0, 2), n_threads=1)
    with preparation.around(engine) as prepared:
        assert prepared.n_nodes == 2
        assert prepared.ask(remember, 5) == [0, 3]
        assert prepared.ask(remembered) == [5, 5]
        assert engine.ask(lambda node: (node, [type(node.block)])) == [Block, Block]
    assert does_continue(PreparedFunction(remembered, preparation))
    assert not does_continue(PreparedFunction(remember, preparation))
    assert pickle.loads(pickle.dumps(PreparedFunction(remember, preparation))).preparation == preparation
    driver = Node("driver")
    assert PreparedFunction(lambda node: (node, 1), preparation)(driver) == (driver, 1)


def test_what_is_not_prepared_is_not_wrapped(rng):
    block, engine = Block(rng.random((3, 2))), Engine([])
    assert Preparation().is_identity
    assert Preparation().of(block) is block
    assert Preparation().around(engine) is engine
    assert found(block.Xt) is None


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_has_no_logarithm_or_a_negative_sum_is_refused(form):
    X = np.ones((9, 3))
    X[7, 1] = -5.0
    for n_nodes in (1, 3):
        with Engine(partition(form(X), 0, n_nodes), n_threads=1) as engine:
            with pytest.raises(DataError, match=r"greater than -1. Got -5 in row 7, column 1, counted from 0"):
                Preparation(log=True).around(engine).ask(moments)
            with pytest.raises(DataError, match=r"must not be negative. Got -3 in row 7, counted from 0"):
                Preparation(by_sample="sum").around(engine).ask(moments)
            with pytest.raises(DataError, match="greater than -1"):
                find_preparation(engine, scaling="standard", log=True)


def test_features_without_numbers_or_scale_are_named():
    X = np.array([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(DataError, match=r"^Feature 'y' has no number in any sample. Leave it out.$"):
        found(X, missing="allow", feature_names=["x", "y"])
    with pytest.raises(DataError, match=r"^Every sample has a missing entry, so that none is left"):
        found(X, missing="drop")
    for scale in (1e-200, 1e200):
        with pytest.raises(DataError, match=r"^Feature 0 cannot be scaled"):
            found(np.array([[1.0], [2.0]]) * scale, scaling="standard")
        assert found(np.array([[1.0], [2.0]]) * scale, scaling="minmax").scale == scale
