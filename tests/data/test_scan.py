from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbmd.data.block import Block, chunk_rows
from dbmd.data.formats import open_reader
from dbmd.data.location import locate
from dbmd.data.recipe import Selection
from dbmd.data.scan import Scan, ScanNode, Unscanned, scan
from dbmd.data.stream import Shard
from tables import PLAIN, table

FLOAT64 = np.dtype(np.float64)


@st.composite
def scans(draw):
    counts = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))
    return Scan(
        rows=draw(st.dictionaries(st.tuples(st.sampled_from(["f", "g"]), st.integers(0, 9)), st.just(5))),
        entries=draw(st.integers(0, 100)),
        values=draw(st.dictionaries(st.sampled_from(["lab", "kind"]), counts)),
        fingerprint=draw(st.integers(0, 2**64 - 1)),
        low=draw(st.floats(-10, 10)),
        high=draw(st.floats(-10, 10)),
        whole=draw(st.booleans()),
    )


@given(scans(), scans(), scans())
def test_adding_is_associative_and_commutative_and_an_empty_scan_is_zero(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Scan() == Scan() + a == a


@given(scans(), scans())
def test_adding_changes_neither(a, b):
    before = repr(a), repr(b)
    _ = a + b
    assert (repr(a), repr(b)) == before


def scanned(written, data, edges=None, *, encoded=(), dtype=FLOAT64):
    """Return what a scan finds, in one piece or split at some rows."""
    reader = open_reader(*locate(written.path))
    selection = Selection(tuple(written.features), tuple(encoded), source=written.source, label=written.label)
    edges = edges or [0, None]
    shards = [Shard(reader, start, stop) for start, stop in pairwise(edges)]
    nodes = [ScanNode("part", rows=Unscanned(shard, selection)) for shard in shards]
    return reduce(add, (scan(node, dtype=dtype)[1] for node in nodes))


def counts(values):
    return {int(value): int((values == value).sum()) for value in np.unique(values)}


@pytest.mark.parametrize("variant", PLAIN)
@pytest.mark.parametrize("kind", ["quarters", "whole"])
def test_a_scan_finds_what_a_plain_look_finds(variant, kind, tmp_path, rng):
    data = table(rng, 700, kind=kind)
    written = PLAIN[variant].write(data, tmp_path, "data")
    found = scanned(written, data)
    assert found.rows == {(written.path, 0): 700}
    stored = data.X[data.X != 0.0] if PLAIN[variant].sparse else data.X
    assert found.entries == stored.size
    assert (found.low, found.high) == (stored.min(), stored.max())
    assert found.whole == (kind == "whole")
    for name, values in ((written.source, data.sources), (written.label, data.classes)):
        assert {int(float(value)): count for value, count in found.values[name].items()} == counts(values)


@pytest.mark.parametrize("variant", ["row groups", "npy", "h5ad", "h5ad, CSR"])
@settings(max_examples=10)
@given(inner=st.lists(st.integers(1, 7), max_size=3, unique=True))
def test_it_does_not_matter_where_files_are_split(variant, inner, tmp_path_factory):
    data = table(np.random.default_rng(1), 8 * 97)
    written = PLAIN[variant].write(data, tmp_path_factory.mktemp("scan"), "data")
    edges = [0, *(97 * i for i in sorted(inner)), 8 * 97]
    whole, parts = scanned(written, data), scanned(written, data, edges)
    assert parts.rows == {(written.path, start): stop - start for start, stop in pairwise(edges)}
    for name in ("entries", "values", "fingerprint", "low", "high", "whole"):
        assert getattr(parts, name) == getattr(whole, name)


def test_the_columns_to_encode_are_counted_too(tmp_path, rng):
    data = table(rng, 100)
    written = PLAIN["csv"].write(data, tmp_path, "data")
    found = scanned(written, data, encoded=["note"])
    assert found.values["note"] == {f"n{i}": sum(note == f"n{i}" for note in data.notes) for i in range(7)}


def test_whole_numbers_that_do_not_fit_in_32_bits_are_not_kept_narrow(tmp_path):
    for value, is_whole in ((2.0**31 - 1, True), (2.0**31, False), (-(2.0**31), True), (-(2.0**31) - 1, False)):
        np.save(tmp_path / "a.npy", np.array([[1.0, value]]))
        reader = open_reader(*locate(tmp_path / "a.npy"))
        node = ScanNode("one", rows=Unscanned(Shard(reader), Selection(("0", "1"))))
        assert scan(node, dtype=FLOAT64)[1].whole == is_whole


def test_numbers_whose_sum_overflows_are_sound(tmp_path):
    np.save(tmp_path / "a.npy", np.full((1000, 2), 1e308))
    np.save(tmp_path / "b.npy", np.full((1000, 2), 3e38, np.float32))
    for name, dtype in (("a", np.float64), ("b", np.float32)):
        reader = open_reader(*locate(tmp_path / f"{name}.npy"))
        node = ScanNode("one", rows=Unscanned(Shard(reader), Selection(("0", "1"))))
        assert scan(node, dtype=np.dtype(dtype))[1].entries == 2000


def test_a_scan_leaves_the_node_alone(tmp_path, rng):
    written = PLAIN["npy"].write(table(rng, 10), tmp_path, "data")
    reader = open_reader(*locate(written.path))
    node = ScanNode("one", rows=Unscanned(Shard(reader), Selection(tuple(written.features))))
    assert partial(scan, dtype=FLOAT64)(node)[0] is node


@pytest.mark.parametrize("row", [0, 1, 511, 512, 5000, 16_384, 19_999])
def test_the_row_of_a_fault_is_right_wherever_batches_and_chunks_end(row, tmp_path):
    from dbmd.errors import DataError

    X = np.ones((20_000, 3))
    assert chunk_rows(X, FLOAT64) < len(X)
    assert len(list(Block(X).chunks())) > 1
    X[row, 2] = np.inf
    np.save(tmp_path / "a.npy", X)
    reader = open_reader(*locate(tmp_path / "a.npy"))
    for start in (0, row):
        node = ScanNode("one", rows=Unscanned(Shard(reader, start), Selection(("0", "2"))))
        with pytest.raises(DataError, match=f"row {row + 1}, column '2' is inf"):
            scan(node, dtype=FLOAT64)
