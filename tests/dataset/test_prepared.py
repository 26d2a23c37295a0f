"""Samples that are prepared while they are read give the fit of samples prepared beforehand, wherever they are."""

from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd import algorithm
from dbmd.config import Config
from dbmd.data.block import Block
from dbmd.data.collection import CollectionLayout, PartitionFunction, array_to_node, scan_partition
from dbmd.data.engine_around import EngineAround
from dbmd.data.features import find_preparation
from dbmd.data.loaded import DeferredBlock
from dbmd.data.preparation import Preparation
from dbmd.dataset import SingleBlock, in_memory, open_data
from dbmd.engines.local import Engine
from dbmd.memberships import MembershipModel, iter_memberships, labels_of, memberships
from dbmd.model.node import Node
from dbmd.sweep import own_labels
from tables import PLAIN, Table

from .common import KEPT, STREAMED, mixed

SCALES = np.array([1.0, 300.0, 0.02, 5.0, 1.0])


def scaled(kind="quarters"):
    """Return a table whose features have different units, exact in every type."""
    table = mixed(n=600, kind=kind)
    factors = 2.0 ** np.round(np.log2(SCALES)) if kind == "quarters" else np.array([1.0, 8.0, 1.0, 3.0, 2.0])
    return Table(table.X * factors, table.sources, table.classes, table.notes)


def fit(engine, dtype=np.float64, **options):
    """Return the result of a fit and the labels."""
    config = Config(3, max_iter=12, tol=0.0, **options)
    result = algorithm.fit(engine, config, n_sources=3, n_features=5, dtype=np.dtype(dtype), seed=0)
    return result, engine.ask(own_labels).values


def prepared_fit(engine, dtype=np.float64, *, scaling=None, log=False, **options):
    preparation = find_preparation(engine, scaling=scaling, log=log)
    return fit(preparation.around(engine), dtype, **options)


def assert_same(one, other, rtol=1e-6):
    (mine, labels), (its, expected) = one, other
    assert_allclose(mine.W, its.W, rtol=rtol, atol=rtol * np.abs(its.W).max())
    assert_allclose(mine.sigma2, its.sigma2, rtol=10 * rtol)
    assert_allclose(mine.objective, its.objective, rtol=rtol)
    assert_array_equal(labels, expected)


def beforehand(X, scaling, log):
    X = np.log1p(X) if log else X
    size = {
        None: 1.0,
        "standard": X.std(axis=0),
        "minmax": np.ptp(X, axis=0),
        "sum": X.sum(axis=1)[:, None],
        "l2": np.sqrt((X**2).sum(axis=1))[:, None],
    }[scaling]
    return X / size


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize(
    ("scaling", "log"), [("standard", False), ("minmax", True), ("sum", False), ("l2", True), (None, True)]
)
def test_every_preparation_gives_the_fit_of_what_it_does(scaling, log, form):
    table = scaled()
    X = np.abs(table.X)
    with in_memory(form(X), np.arange(3), table.sources).on("local", 2, 3) as engine:
        found = prepared_fit(engine, scaling=scaling, log=log)
    with in_memory(form(beforehand(X, scaling, log)), np.arange(3), table.sources).on("local", 3, 3) as engine:
        assert_same(found, fit(engine))


def test_narrow_types_give_the_fit_of_float32():
    table = scaled("whole")
    expected = in_memory((table.X / table.X.std(axis=0)).astype(np.float32), np.arange(3), table.sources)
    with expected.on("local", 2, 3) as engine:
        expected = fit(engine, np.float32)
    for dtype in (np.uint16, np.float32):
        with in_memory(table.X.astype(dtype), np.arange(3), table.sources).on("local", 2, 3) as engine:
            assert_same(prepared_fit(engine, np.float32, scaling="standard"), expected, 1e-2)


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("variant", PLAIN)
def test_files_kept_and_streamed(variant, memory, tmp_path):
    table = scaled(PLAIN[variant].kind)
    written = PLAIN[variant].write(table, tmp_path, "data")
    data = open_data(written.path, columns=written.features, source=written.source, memory=memory, dtype=np.float64)
    # Nodes that keep memberships, for the labels, although the samples are streamed.
    with Engine([Node(node.name, node.block) for node in data.nodes(2, 3)], n_threads=1) as engine:
        found = prepared_fit(engine, scaling="standard")
    with in_memory(table.X / table.X.std(axis=0), np.arange(3), table.sources).on("local", 1, 3) as engine:
        assert_same(found, fit(engine))


def test_blocks_of_every_kind(tmp_path):
    table = scaled()
    written = PLAIN["row groups"].write(table, tmp_path, "data")
    streamed = open_data(written.path, columns=written.features, source=written.source, memory=STREAMED)
    streams = [node.block for node in streamed.nodes(3, 3)]
    one = SingleBlock(shape=table.X.shape, dtype=table.X.dtype, block=Block(table.X, table.sources), name="adata")
    engines = [
        Engine([Node("a", DeferredBlock(s, np.dtype(np.float64), s.first_row)) for s in streams], n_threads=1),
        Engine([Node("a", DeferredBlock(s, s.dtype, s.first_row).loaded()) for s in streams], n_threads=1),
        one.on("local", None, 3),
        partitions(table),
    ]
    with in_memory(table.X / table.X.std(axis=0), np.arange(3), table.sources).on("local", 1, 3) as engine:
        expected = fit(engine)
    for engine in engines:
        with engine:
            assert_same(prepared_fit(engine, scaling="standard"), expected)


def partitions(table):
    """Return an engine on partitions of a collection, in this process."""
    edges = [0, 100, 100, 350, 600]
    nodes = [array_to_node(table.X[i:j], k, table.sources[i:j]) for k, (i, j) in enumerate(pairwise(edges))]
    found = reduce(add, (scan_partition(node)[1] for node in nodes))
    layout = CollectionLayout.of(found, has_sources=True, has_classes=False, dtype=None)
    return EngineAround(Engine(nodes, n_threads=1), partial(PartitionFunction, layout=layout))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.asfortranarray])
def test_memberships_are_those_of_what_was_prepared(form, rng):
    table = scaled()
    preparation = Preparation(log=True, scale=SCALES)
    model = MembershipModel.plain(rng.random((5, 3)), np.ones(3), np.zeros(3))
    X = np.abs(table.X)
    expected = memberships(Block(np.log1p(X) / SCALES, table.sources), model)
    for sources in (table.sources, 0):
        samples = preparation.of(Block(form(X), sources))
        assert_allclose(memberships(samples, model), expected, atol=1e-7)
        pieces = [Ht for _, Ht, _ in iter_memberships(samples, model, n_threads=2)]
        assert_allclose(np.concatenate(pieces), expected, atol=1e-7)


def test_samples_that_are_left_out_have_no_memberships_and_no_label(rng):
    X = rng.random((50, 5))
    X[::7, 2] = np.nan
    preparation = Preparation(fill=np.zeros(5), drops=True)
    model = MembershipModel.plain(rng.random((5, 3)), np.ones(1), np.zeros(3))
    samples = preparation.of(Block(X))
    expected = memberships(Block(np.delete(X, np.s_[::7], axis=0)), model)
    ((_, pieces, _),) = iter_memberships(samples, model, n_threads=1)
    for Ht in (memberships(samples, model), pieces):
        assert np.isnan(Ht[::7]).all()
        assert_allclose(np.delete(Ht, np.s_[::7], axis=0), expected)
        assert_array_equal(labels_of(Ht)[::7], -1)
        assert_array_equal(np.delete(labels_of(Ht), np.s_[::7]), expected.argmax(axis=1))
    with preparation.around(Engine([Node("a", Block(X))], n_threads=1)) as engine:
        result = algorithm.fit(engine, Config(2), n_sources=1, n_features=5, dtype=np.dtype(float), seed=0)
        labels = engine.ask(own_labels).values
    assert_array_equal(labels == -1, np.isnan(X).any(axis=1))
    assert result.profile.n.sum() == (labels >= 0).sum()
