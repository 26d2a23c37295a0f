"""Weights of samples, from a column or an array, wherever the samples are."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dbmd.data.collection import CollectionLayout, array_to_node, scan_partition, table_to_node
from dbmd.data.loaded import DeferredBlock
from dbmd.dataset import in_memory, open_data
from dbmd.errors import DataError
from strategies import cuts, generators
from tables import PLAIN, table

from .common import KEPT, STREAMED, blocks


def weights_of(parts):
    """Return the weights of the samples of blocks, in order."""
    n = sum(block.shape[0] for block in parts)
    found = np.full(n, np.nan)
    for block in parts:
        for chunk in block.chunks():
            found[block.first_row + chunk.numbers] = chunk.weights
    return found


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("variant", PLAIN)
def test_a_column_of_weights_is_no_feature(variant, memory, tmp_path, rng):
    """The classes of the table, which all formats have as an annotation or as a column, are the weights."""
    made = table(rng, n=400)
    written = PLAIN[variant].write(made, tmp_path, "data")
    options = {"source": written.source, "drop": [written.note] if written.note and "h5ad" not in variant else []}
    data = open_data(written.path, sample_weight=written.label, memory=memory, **options)
    assert data.shape == made.X.shape
    assert_array_equal(weights_of(blocks(data)), made.classes)
    without = open_data(written.path, label=written.label, memory=memory, **options)
    assert without.about["fingerprint"] != data.about["fingerprint"]
    assert all(chunk.weights is None for block in blocks(without) for chunk in block.chunks())


def test_workers_load_the_weights_too(tmp_path, rng):
    written = PLAIN["row groups"].write(made := table(rng, n=400), tmp_path, "data")
    data = open_data(written.path, columns=written.features, sample_weight=written.label, memory=STREAMED)
    streams = [DeferredBlock(block, np.dtype(np.float32), block.first_row) for block in blocks(data, 3)]
    assert_array_equal(weights_of([stream.loaded() for stream in streams]), made.classes)


@given(generators(), st.integers(1, 30), st.data())
def test_partitions_of_any_sizes_have_the_weights_and_the_fingerprint_of_the_whole(rng, n, data):
    Xt, weights = rng.integers(-3, 4, (n, 2)) / 4.0, rng.integers(0, 5, n) / 2.0
    found = set()
    for edges in ([0, n], data.draw(cuts(n))):
        for make in (of_arrays, of_tables):
            nodes = [make(Xt[i:j], weights[i:j], index) for index, (i, j) in enumerate(pairwise(edges))]
            scan = reduce(add, (scan_partition(node)[1] for node in nodes))
            layout = CollectionLayout.of(scan, has_sources=False, has_classes=False, dtype=None)
            assert_array_equal(weights_of([layout.block(node.block) for node in nodes]), weights)
            assert scan.weight == weights.sum()
            found.add(scan.fingerprint)
    assert len(found) == 1


def of_arrays(Xt, weights, index):
    return array_to_node(Xt, index, None, weights)


def of_tables(Xt, weights, index):
    rows = pa.table({"x": Xt[:, 0], "y": Xt[:, 1], "w": weights})
    return table_to_node(rows, index, columns=("x", "y"), source=None, label=None, sample_weight="w")


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_weights_are_refused_wherever_they_are(bad, tmp_path):
    weights = np.array([1.0, bad, 2.0])
    with pytest.raises(ValueError, match=rf"^sample_weight must be finite and not negative. Got {bad} for sample 1.$"):
        in_memory(np.ones((3, 2)), sample_weight=weights)
    for make in (of_arrays, of_tables):
        with pytest.raises(DataError, match=r"^partition 4: row 2, column '(w|sample_weight)' is .* must be finite"):
            make(np.ones((3, 2)), weights, 4)
    path = tmp_path / "a.csv"
    path.write_text("x,w\n" + "".join(f"1,{w}\n" for w in weights))
    with pytest.raises(DataError, match=rf"a.csv: line 3, column 'w' is '{bad}'. Weights of samples must be finite"):
        open_data(path, sample_weight="w")


@pytest.mark.parametrize(("text", "shown"), [("", "empty"), ("much", "'much'"), ("1e999", "'1e999'")])
def test_text_that_is_no_weight_is_refused_with_its_line(text, shown, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"x,w\n1,1\n1,{text}\n")
    with pytest.raises(DataError, match=f"a.csv: line 3, column 'w' is {shown}. Weights"):
        open_data(path, sample_weight="w")


def test_weights_that_leave_nothing_or_have_no_place_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,w\n1,0\n2,0\n")
    with pytest.raises(DataError, match=r"a.csv: column 'w': All weights of samples are zero"):
        open_data(path, sample_weight="w")
    with pytest.raises(ValueError, match=r"^All weights of samples are zero, so that no sample is left to fit.$"):
        in_memory(np.ones((2, 1)), sample_weight=[0, 0])
    with pytest.raises(ValueError, match=r"shape \(2,\). Got shape \(3,\)"):
        in_memory(np.ones((2, 1)), sample_weight=[1, 2, 3])
    with pytest.raises(TypeError, match="must be numbers"):
        in_memory(np.ones((2, 1)), sample_weight=["a", "b"])
    with pytest.raises(DataError, match="column 'w' is asked for as a feature, and also as source, label, weight"):
        open_data(path, columns=["w", "x"], sample_weight="w")
    with pytest.raises(DataError, match="has no column 'v'"):
        open_data(path, sample_weight="v")
    with pytest.raises(DataError, match="are named by a column"):
        open_data(path, sample_weight=[1, 2])
    with pytest.raises(DataError, match="there must be a weight for each of its 3 samples"):
        array_to_node(np.ones((3, 2)), 0, None, np.ones(2))
