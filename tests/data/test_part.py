"""Parts that know only themselves become the blocks of one dataset."""

import pickle
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.part import Numbering, OnBlocks, Stock, of_array, of_table, take_stock
from dbmd.errors import DataError
from dbmd.model.node import Node, continues, does_continue
from strategies import cuts, generators
from tables import dense

NAMES = ("x", "y", "z")


@st.composite
def parted(draw):
    """Strategy: samples, sources and classes, and edges of the parts that they are cut into."""
    n = draw(st.integers(1, 20))
    rng = draw(generators())
    named = draw(st.sampled_from([["b", "a", "c"], [30, 4, 5], ["10", "9", "8"]]))
    Xt = rng.integers(-3, 4, (n, 3)).astype(draw(st.sampled_from([np.float32, np.float64, np.int16])))
    return Xt, [named[i] for i in rng.integers(0, 3, n)], rng.integers(0, 2, n).tolist(), draw(cuts(n))


def as_tables(Xt, sources, classes, edges):
    """Return the parts as nodes, each from a table of Arrow."""
    nodes = []
    for index, (i, j) in enumerate(pairwise(edges)):
        columns = {name: column[i:j] for name, column in zip(NAMES, Xt.T, strict=True)}
        table = pa.table({**columns, "lab": pa.array(sources[i:j]), "kind": pa.array(classes[i:j], pa.int64())})
        nodes.append(of_table(table, index, columns=NAMES, source="lab", label="kind"))
    return nodes


def as_arrays(Xt, sources, classes, edges):
    nodes = []
    for index, (i, j) in enumerate(pairwise(edges)):
        block = sparse.csr_array(Xt[i:j]) if index % 2 else Xt[i:j]
        nodes.append(of_array(block, index, np.array(sources[i:j]) if j > i else np.array([], "U1")))
    return nodes


def stock_of(nodes):
    return reduce(add, (take_stock(node)[1] for node in nodes))


@pytest.mark.parametrize("make", [as_tables, as_arrays])
@given(data=parted())
def test_parts_of_any_cut_give_the_same_samples_sources_and_classes(make, data):
    Xt, sources, classes, edges = data
    nodes = make(*data)
    stock = stock_of(nodes)
    has_classes = make is as_tables
    numbering = Numbering.of(stock, has_sources=True, has_classes=has_classes, dtype=None)
    numbering = pickle.loads(pickle.dumps(numbering))  # it travels
    assert numbering.shape == Xt.shape
    n = 0
    for node, i, j in zip(nodes, edges, edges[1:], strict=False):
        block = numbering.block(node.block)
        assert block.shape == (j - i, 3)
        assert block.first_row == i
        assert block.dtype == numbering.dtype
        for chunk in block.chunks():
            rows = block.first_row + chunk.numbers
            n += len(rows)
            assert_array_equal(dense(chunk.Xt), Xt[rows])
            assert {str(numbering.source_names[chunk.source_code])} == {str(sources[row]) for row in rows}
            if has_classes:
                assert_array_equal(numbering.classes[chunk.classes], np.array(classes)[rows])
    assert n == len(Xt)
    assert list(numbering.source_names) == sorted(numbering.source_names)


@given(parted())
def test_what_there_is_does_not_depend_on_the_order_of_adding(data):
    nodes = as_tables(*data)
    stocks = [take_stock(node)[1] for node in nodes]
    one, other = reduce(add, stocks), reduce(add, stocks[::-1])
    assert one.rows == other.rows
    assert (one.types, one.sources, one.classes, one.columns) == (
        other.types,
        other.sources,
        other.classes,
        other.columns,
    )
    assert sum(one.rows.values()) == len(data[0])


def test_the_least_type_that_holds_all_parts_is_computed_with():
    narrow, wide = of_array(np.zeros((2, 2), np.float32), 0), of_array(np.zeros((2, 2)), 1)
    ask = {"has_sources": False, "has_classes": False}
    assert Numbering.of(stock_of([narrow]), **ask, dtype=None).dtype == np.float32
    assert Numbering.of(stock_of([narrow, wide]), **ask, dtype=None).dtype == np.float64
    assert Numbering.of(stock_of([narrow, wide]), **ask, dtype="float32").dtype == np.float32


def test_a_part_without_rows_has_the_width_of_the_others():
    empty = of_table(pa.table({}), 0, columns=("x",), source=None, label=None)
    full = of_array(np.ones((2, 5)), 1)
    numbering = Numbering.of(stock_of([empty, full]), has_sources=False, has_classes=False, dtype=None)
    assert numbering.block(empty.block).shape == (0, 5)
    assert list(numbering.block(empty.block).chunks()) == []


def test_names_of_features_are_kept_unless_a_column_holds_vectors():
    table = pa.table({"a": [1.0], "b": [2.0], "v": [[1.0, 2.0]], "one": [[1.0]]})
    options = {"source": None, "label": None}
    assert stock_of([of_table(table, 0, columns=("b", "a"), **options)]).columns == ("b", "a")
    assert stock_of([of_table(table, 0, columns=("v",), **options)]).columns is None
    assert stock_of([of_table(table, 0, columns=("one",), **options)]).columns is None


def fails(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_messages_name_the_partition_the_row_and_the_column():
    bad = np.ones((4, 3))
    bad[2, 1] = np.nan
    fails(lambda: take_stock(of_array(bad, 7)), r"^partition 7: row 3, column 1 has no number")
    fails(lambda: take_stock(of_array(sparse.csr_array(bad), 7)), r"^partition 7: row 3, column 1 has no number")
    table = pa.table({"x": [1.0, np.inf], "lab": ["a", None]})
    fails(
        lambda: take_stock(of_table(table, 2, columns=("x",), source=None, label=None)),
        r"^partition 2: row 2, column 'x' is inf",
    )
    fails(
        lambda: of_table(table, 2, columns=("x",), source="lab", label=None),
        r"^partition 2: row 2, column 'lab' is empty",
    )
    fails(lambda: take_stock(of_array(np.array([["a"]]), 1)), "^partition 1: entries must be numbers")
    fails(lambda: of_array(np.ones(3), 5), r"^partition 5: must have two dimensions.* Got shape \(3,\)")
    fails(
        lambda: of_array(np.ones((3, 1)), 5, np.array(["a"])), "^partition 5: there must be a source for each of its 3"
    )


def numbered(stock, **options):
    return Numbering.of(stock, **{"has_sources": False, "has_classes": False, "dtype": None} | options)


def test_messages_about_all_parts():
    one, two = of_array(np.ones((2, 3)), 0), of_array(np.ones((2, 4)), 1)
    fails(lambda: numbered(stock_of([one, two])), r"Got 3 \(partition 0\) and 4 \(partition 1\)")
    fails(lambda: numbered(stock_of([of_array(np.ones((0, 3)), 0)])), "no rows")
    many = Stock({0: 1}, {1: 0}, frozenset(), frozenset(range(10_001)), frozenset(), None)
    fails(lambda: numbered(many, has_sources=True), "10,001 sources")
    fails(lambda: numbered(stock_of([one]), dtype="int8"), "float32 or float64")


def test_a_part_that_comes_out_different_is_not_taken():
    numbering = numbered(stock_of([of_array(np.ones((2, 3)), 0)]))
    fails(lambda: numbering.block(of_array(np.ones((3, 3)), 0).block), "had 2 rows and, computed again, has 3")


def shape_of(node):
    return node, node.block.shape


@continues
def remember(node, what):
    return Node(node.name, node.block, scratch=what), 0


def test_functions_on_blocks_see_blocks_and_leave_parts():
    node = of_array(np.ones((2, 3)), 0)
    numbering = numbered(stock_of([node]))
    same, shape = OnBlocks(shape_of, numbering)(node)
    assert same is node  # so an engine sees that nothing is to be kept
    assert shape == (2, 3)
    changed, _ = OnBlocks(remember, numbering)(node, "it")
    assert changed.block is node.block
    assert changed.scratch == "it"
    assert does_continue(OnBlocks(remember, numbering))
    assert not does_continue(OnBlocks(shape_of, numbering))


def test_entries_in_parts_are_what_they_are_in_one():
    one = sparse.csr_array(np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 2.0]]))
    parts = sparse.csr_array(
        (np.array([2.0, 1.0, 1.0, 2.0]), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )
    found = [take_stock(of_array(Xt, 0))[1].fingerprint for Xt in (one, parts)]
    assert found[0] == found[1]
