"""Columns of Arrow that hold vectors, compared with the same numbers as a matrix."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.row_labels import PartitionRows
from dbmd.data.vectors import SPARSE_BELOW, is_vector, to_rows
from dbmd.errors import DataError
from strategies import generators
from tables import dense

PLACE = PartitionRows("partition 3")
# As pyspark.ml writes vectors: type 0 is sparse, 1 dense.
ML = pa.struct(
    [
        pa.field("type", pa.int8()),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.int32())),
        pa.field("values", pa.list_(pa.float64())),
    ]
)


def ml_vector(x, *, is_sparse):
    if not is_sparse:
        return {"type": 1, "size": None, "indices": None, "values": x.tolist()}
    places = np.flatnonzero(x)
    return {"type": 0, "size": len(x), "indices": places.tolist(), "values": x[places].tolist()}


@st.composite
def matrices(draw):
    """Strategy: a matrix with more or fewer zeros."""
    rng = draw(generators())
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    return rng.normal(size=shape) * (rng.random(shape) < draw(st.sampled_from([0.0, 0.05, 0.5, 1.0])))


def chunked(values, kind, cut):
    """Return a table with one column in two pieces."""
    cut = min(cut, len(values))
    return pa.table({"v": pa.chunked_array([pa.array(values[:cut], kind), pa.array(values[cut:], kind)], kind)})


@given(matrices(), st.lists(st.booleans(), min_size=12, max_size=12), st.integers(0, 12))
def test_vectors_dense_and_sparse_in_any_mixture_are_the_matrix(X, is_sparse, cut):
    table = chunked([ml_vector(x, is_sparse=s) for x, s in zip(X, is_sparse, strict=False)], ML, cut)
    found = to_rows(table, ["v"], PLACE)
    assert_array_equal(dense(found), X)
    assert found.dtype == np.float64
    stored = sum(X.shape[1] if not s else np.count_nonzero(x) for x, s in zip(X, is_sparse, strict=False))
    assert sparse.issparse(found) == (any(is_sparse[: len(X)]) and stored < SPARSE_BELOW * X.size)


@given(
    matrices(),
    st.sampled_from(["list", "large", "fixed"]),
    st.sampled_from([pa.float32(), pa.float64(), pa.int16()]),
    st.integers(0, 12),
)
def test_lists_of_numbers_of_any_type_are_the_matrix(X, form, number, cut):
    X = np.rint(4 * X)  # exact in all of them
    kind = {"list": pa.list_(number), "large": pa.large_list(number), "fixed": pa.list_(number, X.shape[1])}[form]
    values = [[int(x) for x in row] for row in X]
    found = to_rows(chunked(values, kind, cut), ["v"], PLACE)
    assert_array_equal(found, X)
    assert found.dtype == number.to_pandas_dtype()


@given(matrices(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_of_a_column_is_the_slice_of_the_matrix(X, start, length):
    rows = slice(start, start + length)
    for values, kind in (
        ([ml_vector(x, is_sparse=i % 2) for i, x in enumerate(X)], ML),
        (X.tolist(), pa.list_(pa.float64())),
    ):
        table = pa.table({"v": pa.array(values, kind)}).slice(start, length)
        found = to_rows(table, ["v"], PLACE)
        assert found.shape[0] == len(X[rows])
        if len(X[rows]):
            assert_array_equal(dense(found), X[rows])


def test_columns_of_numbers_stand_side_by_side_in_the_order_asked_for():
    table = pa.table({"a": [1, 2], "b": [0.5, None], "c": [True, False]})
    assert_array_equal(to_rows(table, ["c", "b", "a"], PLACE), [[1.0, 0.5, 1.0], [0.0, np.nan, 2.0]])


def test_no_rows_are_no_rows_of_any_width():
    assert to_rows(pa.table({"v": pa.array([], ML)}), ["v"], PLACE).shape == (0, 0)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (ML, True),
        (pa.list_(pa.int8()), True),
        (pa.large_list(pa.float32()), True),
        (pa.list_(pa.float64(), 3), True),
        (pa.list_(pa.string()), False),
        (pa.struct([pa.field("type", pa.int8())]), False),
        (pa.float64(), False),
        (pa.string(), False),
    ],
    ids=str,
)
def test_what_a_vector_is(kind, answer):
    assert is_vector(kind) is answer


def fails(table, columns, message):
    with pytest.raises(DataError, match=message):
        to_rows(table, columns, PLACE)


def test_messages_name_the_partition_the_row_and_the_column():
    numbers = pa.list_(pa.float64())
    two, three = np.ones(2), np.ones(3)
    fails(
        pa.table({"v": pa.array([[1.0, 2.0], [1.0, 2.0], [1.0]], numbers)}),
        ["v"],
        "^partition 3: row 3, column 'v' has 1 numbers, the first row has 2",
    )
    for is_sparse in (False, True):
        vectors = [ml_vector(two, is_sparse=False), ml_vector(three, is_sparse=is_sparse)]
        fails(pa.table({"v": pa.array(vectors, ML)}), ["v"], "row 2, column 'v' has a vector of size 3.*of size 2")
    for values, kind in (([[1.0], None], numbers), ([ml_vector(two, is_sparse=False), None], ML)):
        fails(pa.table({"v": pa.array(values, kind)}), ["v"], "^partition 3: row 2, column 'v' is empty")
    fails(pa.table({"t": ["a"]}), ["t"], "^partition 3: column 't' does not hold numbers")
    table = pa.table({"v": pa.array([[1.0]], numbers), "x": [1.0]})
    fails(table, ["v", "x"], "column 'v' does not hold numbers.*Name it alone")


def test_a_number_that_is_missing_in_a_list_is_seen():
    found = to_rows(pa.table({"v": pa.array([[1.0, None]], pa.list_(pa.float64()))}), ["v"], PLACE)
    assert_array_equal(found, [[1.0, np.nan]])
    whole = to_rows(pa.table({"v": pa.array([[1, None]], pa.list_(pa.int32()))}), ["v"], PLACE)
    assert_array_equal(whole, [[1.0, np.nan]])
