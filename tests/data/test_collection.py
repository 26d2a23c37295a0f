"""Partitions, each with names of its own, become the blocks of one dataset."""

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

from dbmd.data.collection import (
    CollectionLayout,
    PartitionFunction,
    PartitionScan,
    array_to_node,
    scan_partition,
    table_to_node,
)
from dbmd.errors import DataError
from dbmd.model.node import Node, continues, does_continue
from strategies import cuts, generators
from tables import dense

NAMES = ("x", "y", "z")


@st.composite
def parted(draw):
    """Strategy: samples, sources and classes, and edges of the partitions."""
    n = draw(st.integers(1, 20))
    rng = draw(generators())
    named = draw(st.sampled_from([["b", "a", "c"], [30, 4, 5], ["10", "9", "8"]]))
    Xt = rng.integers(-3, 4, (n, 3)).astype(draw(st.sampled_from([np.float32, np.float64, np.int16])))
    return Xt, [named[i] for i in rng.integers(0, 3, n)], rng.integers(0, 2, n).tolist(), draw(cuts(n))


def as_tables(Xt, sources, classes, edges):
    """Return the partitions as nodes, each from a table of Arrow."""
    nodes = []
    for index, (i, j) in enumerate(pairwise(edges)):
        columns = {name: column[i:j] for name, column in zip(NAMES, Xt.T, strict=True)}
        table = pa.table({**columns, "lab": pa.array(sources[i:j]), "kind": pa.array(classes[i:j], pa.int64())})
        nodes.append(table_to_node(table, index, columns=NAMES, source="lab", label="kind"))
    return nodes


def as_arrays(Xt, sources, classes, edges):
    nodes = []
    for index, (i, j) in enumerate(pairwise(edges)):
        block = sparse.csr_array(Xt[i:j]) if index % 2 else Xt[i:j]
        nodes.append(array_to_node(block, index, np.array(sources[i:j]) if j > i else np.array([], "U1")))
    return nodes


def found_in(nodes):
    return reduce(add, (scan_partition(node)[1] for node in nodes))


@pytest.mark.parametrize("make", [as_tables, as_arrays])
@given(data=parted())
def test_partitions_of_any_sizes_give_the_same_samples_sources_and_classes(make, data):
    Xt, sources, classes, edges = data
    nodes = make(*data)
    found = found_in(nodes)
    has_classes = make is as_tables
    layout = CollectionLayout.of(found, has_sources=True, has_classes=has_classes, dtype=None)
    layout = pickle.loads(pickle.dumps(layout))  # it is sent to workers
    assert layout.shape == Xt.shape
    n = 0
    for node, i, j in zip(nodes, edges, edges[1:], strict=False):
        block = layout.block(node.block)
        assert block.shape == (j - i, 3)
        assert block.first_row == i
        assert block.dtype == layout.dtype
        for chunk in block.chunks():
            rows = block.first_row + chunk.numbers
            n += len(rows)
            assert_array_equal(dense(chunk.Xt), Xt[rows])
            assert {str(layout.source_names[chunk.source_code])} == {str(sources[row]) for row in rows}
            if has_classes:
                assert_array_equal(layout.class_names[chunk.class_codes], np.array(classes)[rows])
    assert n == len(Xt)
    assert list(layout.source_names) == sorted(layout.source_names)


@given(parted())
def test_a_partition_has_the_samples_with_codes_of_its_own(data):
    Xt, sources, classes, edges = data
    for node, i in zip(as_tables(*data), edges[:-1], strict=True):
        partition = node.block
        for chunk in partition.chunks():
            rows = i + chunk.numbers
            assert_array_equal(dense(chunk.Xt), Xt[rows])
            assert {partition.sources.names[chunk.source_code]} == {sources[row] for row in rows}
            assert [partition.classes.names[code] for code in chunk.class_codes] == [classes[row] for row in rows]


@given(parted())
def test_what_is_found_does_not_depend_on_the_order_of_adding(data):
    nodes = as_tables(*data)
    scans = [scan_partition(node)[1] for node in nodes]
    one, other = reduce(add, scans), reduce(add, scans[::-1])
    assert one.rows == other.rows
    assert (one.types, one.sources, one.classes, one.columns) == (
        other.types,
        other.sources,
        other.classes,
        other.columns,
    )
    assert sum(one.rows.values()) == len(data[0])


def test_the_narrowest_type_that_holds_all_partitions_is_computed_with():
    narrow, wide = array_to_node(np.zeros((2, 2), np.float32), 0), array_to_node(np.zeros((2, 2)), 1)
    ask = {"has_sources": False, "has_classes": False}
    assert CollectionLayout.of(found_in([narrow]), **ask, dtype=None).dtype == np.float32
    assert CollectionLayout.of(found_in([narrow, wide]), **ask, dtype=None).dtype == np.float64
    assert CollectionLayout.of(found_in([narrow, wide]), **ask, dtype="float32").dtype == np.float32


def test_a_partition_without_rows_has_the_width_of_the_others():
    empty = table_to_node(pa.table({}), 0, columns=("x",), source=None, label=None)
    full = array_to_node(np.ones((2, 5)), 1)
    layout = CollectionLayout.of(found_in([empty, full]), has_sources=False, has_classes=False, dtype=None)
    assert layout.block(empty.block).shape == (0, 5)
    assert list(layout.block(empty.block).chunks()) == []


def test_names_of_features_are_kept_unless_a_column_holds_vectors():
    table = pa.table({"a": [1.0], "b": [2.0], "v": [[1.0, 2.0]], "one": [[1.0]]})
    options = {"source": None, "label": None}
    assert found_in([table_to_node(table, 0, columns=("b", "a"), **options)]).columns == ("b", "a")
    assert found_in([table_to_node(table, 0, columns=("v",), **options)]).columns is None
    assert found_in([table_to_node(table, 0, columns=("one",), **options)]).columns is None


def fails(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_messages_name_the_partition_the_row_and_the_column():
    bad = np.ones((4, 3))
    bad[2, 1] = np.nan
    fails(lambda: scan_partition(array_to_node(bad, 7)), r"^partition 7: row 3, column 1 has no number")
    fails(
        lambda: scan_partition(array_to_node(sparse.csr_array(bad), 7)), r"^partition 7: row 3, column 1 has no number"
    )
    table = pa.table({"x": [1.0, np.inf], "lab": ["a", None]})
    fails(
        lambda: scan_partition(table_to_node(table, 2, columns=("x",), source=None, label=None)),
        r"^partition 2: row 2, column 'x' is inf",
    )
    fails(
        lambda: table_to_node(table, 2, columns=("x",), source="lab", label=None),
        r"^partition 2: row 2, column 'lab' is empty",
    )
    fails(lambda: scan_partition(array_to_node(np.array([["a"]]), 1)), "^partition 1: entries must be numbers")
    fails(lambda: array_to_node(np.ones(3), 5), r"^partition 5: must have two dimensions.* Got shape \(3,\)")
    fails(
        lambda: array_to_node(np.ones((3, 1)), 5, np.array(["a"])),
        "^partition 5: there must be a source for each of its 3",
    )


def layout_of(found, **options):
    return CollectionLayout.of(found, **{"has_sources": False, "has_classes": False, "dtype": None} | options)


def test_messages_about_all_partitions():
    one, two = array_to_node(np.ones((2, 3)), 0), array_to_node(np.ones((2, 4)), 1)
    fails(lambda: layout_of(found_in([one, two])), r"Got 3 \(partition 0\) and 4 \(partition 1\)")
    fails(lambda: layout_of(found_in([array_to_node(np.ones((0, 3)), 0)])), "no rows")
    many = PartitionScan({0: 1}, {1: 0}, frozenset(), frozenset(range(10_001)), frozenset(), None)
    fails(lambda: layout_of(many, has_sources=True), "10,001 sources")
    fails(lambda: layout_of(found_in([one]), dtype="int8"), "float32 or float64")


def test_a_partition_that_comes_out_different_is_refused():
    layout = layout_of(found_in([array_to_node(np.ones((2, 3)), 0)]))
    fails(lambda: layout.block(array_to_node(np.ones((3, 3)), 0).block), "had 2 rows and, computed again, has 3")


def shape_of(node):
    return node, node.block.shape


@continues
def remember(node, what):
    return Node(node.name, node.block, scratch=what), 0


def test_functions_on_blocks_get_blocks_and_leave_partitions():
    node = array_to_node(np.ones((2, 3)), 0)
    layout = layout_of(found_in([node]))
    same, shape = PartitionFunction(shape_of, layout)(node)
    assert same is node  # so an engine knows that there is no cache to keep
    assert shape == (2, 3)
    changed, _ = PartitionFunction(remember, layout)(node, "it")
    assert changed.block is node.block
    assert changed.scratch == "it"
    assert does_continue(PartitionFunction(remember, layout))
    assert not does_continue(PartitionFunction(shape_of, layout))


def test_duplicate_entries_are_added():
    one = sparse.csr_array(np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 2.0]]))
    parts = sparse.csr_array(
        (np.array([2.0, 1.0, 1.0, 2.0]), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3)
    )
    found = [scan_partition(array_to_node(Xt, 0))[1].fingerprint for Xt in (one, parts)]
    assert found[0] == found[1]
