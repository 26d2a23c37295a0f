"""Entries that are missing: where they come from, where they are allowed, and what is said where they are not."""

import io
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.collection import CollectionLayout, array_to_node, scan_partition, table_to_node
from dbmd.data.features import find_preparation
from dbmd.data.fingerprint import fingerprint, multipliers
from dbmd.data.finite import first_unusable, with_nan
from dbmd.dataset import InMemory, in_memory, open_data
from dbmd.errors import DataError
from strategies import cuts, generators
from tables import VARIANTS, contents, table

from .common import KEPT, STREAMED

DENSE = ["csv", "csv.gz", "csv without header", "row groups", "npy", "npy of float16", "h5ad", "h5ad of float32"]
TEXTS = ["", "NaN", "nan", "NA", "null"]
NULLS = {
    "floats": (pa.float32(), np.float32),
    "int8": (pa.int8(), np.float32),
    "int32": (pa.int32(), np.float64),
    "bool": (pa.bool_(), np.float32),
    "decimals": (pa.decimal128(5, 2), np.float64),
}


def holed(rng, X, fraction=0.2):
    """Return samples with gaps, of which no row is empty."""
    X = np.where(rng.random(X.shape) < fraction, np.nan, X)
    X[:, 0] = np.where(np.isnan(X).all(axis=1), 1.0, X[:, 0])
    return X


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("variant", DENSE)
def test_files_of_every_dense_format_may_have_gaps(variant, memory, tmp_path, rng):
    made = table(rng, n=300)
    made.X[:] = holed(rng, made.X)
    written = VARIANTS[variant].write(made, tmp_path, "data")
    with open_data(
        written.path, columns=written.features, source=written.source, memory=memory, missing="allow"
    ) as data:
        X, sources, _ = contents(data)
        assert data.missing == "allow"
    assert_array_equal(X, made.X)
    assert_array_equal(sources, made.sources)


@pytest.mark.parametrize("text", TEXTS)
def test_text_for_a_missing_number(text, tmp_path):
    (tmp_path / "a.csv").write_text(f"x,y\n1,2\n{text},4\n5,{text}\n")
    for memory in (KEPT, STREAMED):
        X, _, _ = contents(open_data(tmp_path / "a.csv", missing="allow", memory=memory))
        assert_array_equal(X, [[1.0, 2.0], [np.nan, 4.0], [5.0, np.nan]])


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("kind", NULLS)
def test_nulls_of_parquet_in_columns_of_every_type(kind, memory, tmp_path):
    stored, dtype = NULLS[kind]
    y = pa.array([True, None, False, True] if kind == "bool" else [1, None, 0, 1], stored)
    pq.write_table(pa.table({"x": pa.array([1, 2, 3, 4], pa.int8()), "y": y}), tmp_path / "a.parquet")
    data = open_data(tmp_path / "a.parquet", missing="allow", memory=memory)
    assert data.dtype == dtype
    assert isinstance(data, InMemory) == bool(memory)
    assert_array_equal(contents(data)[0], [[1, 1], [2, np.nan], [3, 0], [4, 1]])


def test_files_without_gaps_are_opened_as_ever(tmp_path, rng):
    np.savetxt(tmp_path / "a.csv", rng.integers(0, 9, (50, 3)), fmt="%d", delimiter=",", header="x,y,z", comments="")
    one, other = open_data(tmp_path / "a.csv"), open_data(tmp_path / "a.csv", missing="allow")
    assert one.Xt.dtype == other.Xt.dtype == np.uint8  # as narrow as before
    assert one.about["fingerprint"] == other.about["fingerprint"]


@given(generators(), st.integers(1, 30), st.data())
def test_the_fingerprint_does_not_depend_on_the_kind_of_nan_nor_on_how_data_are_cut(rng, n, data):
    X = holed(rng, rng.integers(-3, 4, (n, 3)) / 4.0)
    other = np.where(np.isnan(X), -np.float64(np.nan), X)  # other bits
    found = {fingerprint(values, multipliers(3)) for values in (X, other)}
    for values, edges in ((X, data.draw(cuts(n))), (other, data.draw(cuts(n)))):
        for make in (of_arrays, of_tables):
            nodes = [make(values[i:j], index) for index, (i, j) in enumerate(pairwise(edges))]
            scan = reduce(add, (scan_partition(node, missing="allow")[1] for node in nodes))
            layout = CollectionLayout.of(scan, has_sources=False, has_classes=False, dtype=None)
            blocks = [layout.block(node.block) for node in nodes]
            read = [chunk.Xt for block in blocks for chunk in block.chunks()]
            assert_array_equal(np.concatenate(read), X)
            found.add(scan.fingerprint)
    assert len(found) == 1
    X[0, 0] = 0.25 if np.isnan(X[0, 0]) else np.nan
    assert fingerprint(X, multipliers(3)) not in found


def of_arrays(Xt, index):
    return array_to_node(Xt, index)


def of_tables(Xt, index):
    columns = {f"x{j}": pa.array(Xt[:, j], mask=np.isnan(Xt[:, j])) for j in range(3)}
    return table_to_node(pa.table(columns), index, columns=tuple(columns), source=None, label=None)


def test_rows_without_any_number_are_refused_unless_they_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n,\n3,\n")
    with pytest.raises(DataError, match=r"a.csv: line 3 has no number at all. Leave out such rows with missing='drop'"):
        open_data(tmp_path / "a.csv", missing="allow")
    for memory in (KEPT, STREAMED):
        data = open_data(tmp_path / "a.csv", missing="drop", memory=memory)
        assert data.shape == (3, 2)
        with data.on("local", 1, 1) as engine:
            preparation = find_preparation(engine, missing="drop")
        (node,) = data.nodes(1, 1)
        (chunk,) = preparation.of(node.block).chunks()
        assert_array_equal(chunk.weights, [1.0, 0.0, 0.0])
    gap = np.array([[1.0, np.nan], [np.nan, np.nan]])
    with pytest.raises(DataError, match=r"^partition 3: row 2 has no number at all"):
        scan_partition(array_to_node(gap, 3), missing="allow")
    scan_partition(array_to_node(gap, 3), missing="drop")


def test_a_row_with_a_category_is_not_empty(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n,b\n")
    assert_array_equal(
        contents(open_data(tmp_path / "a.csv", encode="y", missing="allow"))[0], [[1, 1, 0], [np.nan, 0, 1]]
    )


@pytest.mark.parametrize("missing", ["allow", "drop"])
def test_what_is_infinite_or_sparse_is_refused_whatever_is_allowed(missing, tmp_path):
    X = np.ones((5, 3))
    X[2, 1], X[3, 1] = np.nan, np.inf
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match=r"a.npy: row 4, column '1' is inf. Only finite numbers can be fitted"):
        open_data(tmp_path / "a.npy", missing=missing)
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(X))
    with pytest.raises(DataError, match=r"a.npz: row 3, column '1' has no number .* sparse data cannot be missing"):
        open_data(tmp_path / "a.npz", missing=missing)
    with pytest.raises(DataError, match=r"^partition 0: row 3, column 1 has no number .* sparse data"):
        scan_partition(array_to_node(sparse.csr_array(X), 0), missing=missing)


def test_the_option_has_three_values():
    with pytest.raises(ValueError, match=r"^missing must be 'error', 'allow' or 'drop'. Got 'ignore'.$"):
        open_data(io.StringIO(), missing="ignore")
    assert in_memory(np.ones((2, 1)), missing="drop").missing == "drop"


@given(generators(), st.sampled_from([np.float64, np.float32, np.int16, np.int64, np.bool_]))
def test_masked_arrays_are_floats_with_nan(rng, dtype):
    X, mask = rng.integers(0, 2, (7, 3)).astype(dtype), rng.random((7, 3)) < 0.3
    found = with_nan(np.ma.masked_array(X, mask))
    assert type(found) is np.ndarray
    assert_array_equal(found, np.where(mask, np.nan, X) if mask.any() else X)
    if mask.any():
        assert found.dtype == (np.float64 if dtype in (np.float64, np.int64) else np.float32)
    assert with_nan(X) is X
    assert first_unusable(np.asarray(found, float), "allow") is None
