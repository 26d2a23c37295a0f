from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.data.recipe import Recipe, Selection
from dbmd.data.split_files import MOST_NODES, row_ranges, split_files
from dbmd.data.stream import ignore

FLOAT64 = np.dtype(np.float64)


class File:
    """As much of a reader as splitting needs."""

    def __init__(self, name, n_rows, seekable_rows):
        self.location, self.n_rows, self.seekable_rows = name, n_rows, seekable_rows

    def __repr__(self):
        return f"File({self.location!r}, {self.n_rows}, {self.seekable_rows})"


@st.composite
def files(draw, name="file"):
    n = draw(st.integers(0, 60))
    kind = draw(st.sampled_from(["anywhere", "nowhere", "row groups", "unknown length"]))
    if kind == "anywhere":
        return File(name, n, None), n
    if kind == "row groups":
        return File(name, n, [0, *sorted(draw(st.sets(st.integers(1, max(n - 1, 1)), max_size=6)) if n > 1 else [])]), n
    return File(name, None if kind == "unknown length" else n, (0,)), n


@given(files(), st.integers(1, 12))
def test_ranges_follow_each_other_cover_all_rows_and_begin_where_they_may(file, parts):
    reader, _ = file
    found = row_ranges(reader, parts)
    assert 1 <= len(found) <= parts
    assert found[0][0] == 0
    assert found[-1][1] == reader.n_rows
    for (_, stop), (start, _) in pairwise(found):
        assert stop == start
        assert reader.seekable_rows is None or start in reader.seekable_rows
    if len(found) > 1:
        assert all(stop > start for start, stop in found)


@given(st.integers(1, 1000), st.integers(1, 12))
def test_a_file_that_may_be_cut_anywhere_is_cut_evenly(n, parts):
    sizes = [stop - start for start, stop in row_ranges(File("one", n, None), parts)]
    assert len(sizes) == min(n, parts)
    assert max(sizes) - min(sizes) <= 1


@st.composite
def collections(draw):
    many = draw(st.integers(1, 8))
    return [draw(files(f"file {i}")) for i in range(many)]


def split(collection, n_threads, n_nodes):
    rows = {(reader.location, 0): n for reader, n in collection}
    readers, recipe = [reader for reader, _ in collection], Recipe(Selection(("x",)))
    return split_files(readers, recipe, FLOAT64, rows, n_threads, ignore, n_nodes)


def cover(blocks):
    """Return the rows of all blocks in order: (file, row)."""
    return [
        (shard.reader.location, row)
        for block in blocks
        for shard in block.shards
        for row in range(shard.start, shard.stop)
    ]


@given(collections(), st.integers(1, 5), st.none() | st.integers(1, 100))
def test_nodes_cover_all_rows_once_and_in_order(collection, n_threads, n_nodes):
    blocks = split(collection, n_threads, n_nodes)
    assert cover(blocks) == [(reader.location, row) for reader, n in collection for row in range(n)]
    first = 0
    for block in blocks:
        assert block.first_row == first
        assert block.shape == (sum(stop - start for _, start, stop in block.shards), 1)
        assert block.shape[0] > 0
        first += block.shape[0]


@given(collections(), st.integers(1, 5), st.none() | st.integers(1, 100))
def test_a_file_is_read_from_where_reading_may_start(collection, n_threads, n_nodes):
    sizes = {reader.location: n for reader, n in collection}
    for block in split(collection, n_threads, n_nodes):
        for reader, start, stop in block.shards:
            if reader.seekable_rows is not None:
                assert start in reader.seekable_rows
                assert stop == sizes[reader.location] or stop in reader.seekable_rows


@given(collections(), st.integers(1, 5), st.integers(1, 100))
def test_there_are_no_more_nodes_than_asked_for(collection, n_threads, n_nodes):
    assert len(split(collection, n_threads, n_nodes)) <= n_nodes


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 20))
def test_files_that_may_be_cut_anywhere_are_cut_evenly(sizes, n_nodes):
    collection = [(File(f"file {i}", n, None), n) for i, n in enumerate(sizes)]
    n = sum(sizes)
    found = [block.shape[0] for block in split(collection, 1, n_nodes)]
    assert len(found) == min(n, n_nodes)
    assert max(found) - min(found) <= 1


def test_by_default_each_file_is_a_node():
    collection = [(File(f"file {i}", 10 * (i + 1), None), 10 * (i + 1)) for i in range(5)]
    blocks = split(collection, 3, None)
    assert [block.name for block in blocks] == [f"file {i}" for i in range(5)]


def test_by_default_few_files_are_cut_for_all_threads():
    assert len(split([(File("one", 100, None), 100)], 4, None)) == 4


def test_by_default_many_files_are_put_together():
    collection = [(File(f"file {i}", 3, (0,)), 3) for i in range(500)]
    blocks = split(collection, 4, None)
    assert len(blocks) == MOST_NODES
    assert blocks[0].name == f"file 0 and {len(blocks[0].shards) - 1} more"


@pytest.mark.parametrize("n_nodes", [None, 1, 3])
def test_a_file_of_unknown_length_is_one_piece(n_nodes):
    (block,) = split([(File("one", None, (0,)), 100)], 4, n_nodes)
    assert [tuple(shard[1:]) for shard in block.shards] == [(0, 100)]
