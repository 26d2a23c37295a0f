"""One-hot coded columns, and the types that numbers are kept in and computed with."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.dataset import in_memory, open_data
from tables import LABEL, PLAIN, SOURCE, VARIANTS, as_csv, as_h5ad, as_npz, as_parquet, contents

from .common import KEPT, STREAMED, blocks, fitted, mixed, opened

# -- encoding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "column"), [("csv", "note"), ("row groups", "note"), ("csv", LABEL), ("npz", "6")])
def test_an_encoded_column_is_one_hot(variant, column, memory, tmp_path):
    table = mixed()
    written = PLAIN[variant].write(table, tmp_path, "data")
    data = open_data(written.path, columns=written.features, encode=[column], memory=memory)
    values = np.array(table.notes) if column == "note" else table.classes
    categories = np.unique(values)
    assert data.shape == (400, 5 + len(categories))
    assert [name.split("=")[0] for name in data.feature_names[5:]] == [column] * len(categories)
    X, _, _ = contents(data)
    assert_array_equal(X[:, :5], table.X)
    assert_array_equal(X[:, 5:], values[:, None] == categories)


def test_encoded_text_gives_the_fit_of_indicators_by_hand(memory, tmp_path):
    table = mixed()
    written = as_csv().write(table, tmp_path, "data")
    data = open_data(written.path, columns=written.features, encode=["note"], memory=memory)
    notes = np.array(table.notes)
    by_hand = np.hstack([table.X, notes[:, None] == np.unique(notes)])
    assert_allclose(fitted(data).components_, fitted(by_hand).components_, atol=1e-6)


def test_categories_may_be_given_and_others_are_none_of_them(memory, tmp_path):
    (tmp_path / "a.csv").write_text("x,e\n1,u\n2,v\n3,w\n")
    data = open_data(tmp_path / "a.csv", encode={"e": ["v", "z", "u"]}, memory=memory)
    assert data.feature_names == ["x", "e=v", "e=z", "e=u"]
    assert_array_equal(contents(data)[0], [[1, 0, 0, 1], [2, 1, 0, 0], [3, 0, 0, 0]])


@pytest.mark.parametrize("variant", ["csv", "row groups", "h5ad"])
def test_what_is_recorded_opens_the_same_data_again(variant, tmp_path):
    table = mixed()
    written = PLAIN[variant].write(table, tmp_path, "data")
    encode = [SOURCE] if variant != "h5ad" else []
    data = open_data(written.path, columns=written.features, encode=encode, label=LABEL)
    about = data.about
    names = ("source", "label", "encode", "header", "delimiter")
    again = open_data(about["paths"], columns=written.features, **{name: about[name] for name in names})
    assert again.feature_names == data.feature_names
    assert again.about == about
    assert_array_equal(contents(again)[0], contents(data)[0])


# -- types ---------------------------------------------------------------------------------------------------------

TYPES = {
    "csv of whole numbers": (as_csv(), "whole", "uint8", "float64"),
    "csv": (as_csv(), "quarters", "float64", "float64"),
    "int8 in parquet": (VARIANTS["int8 in parquet"], "whole", "int8", "float32"),
    "float32 in parquet": (VARIANTS["float32 in parquet"], "quarters", "float32", "float32"),
    "whole numbers of float64 in parquet": (as_parquet(), "whole", "uint8", "float64"),
    "uint64 in parquet": (VARIANTS["uint64 in parquet"], "whole", "uint64", "float64"),
    "decimals": (VARIANTS["decimals"], "quarters", "float64", "float64"),
    "npz of int16": (VARIANTS["npz of int16"], "whole", "int16", "float32"),
    "npz": (as_npz(), "quarters", "float64", "float64"),
    "h5ad of float32": (as_h5ad(dtype="<f4"), "quarters", "float32", "float32"),
    "h5ad, CSR of integers": (VARIANTS["h5ad, CSR of integers"], "whole", "int32", "float64"),
}


@pytest.mark.parametrize("name", TYPES)
def test_numbers_are_kept_in_the_narrowest_type_and_computed_with_in_the_least_that_holds_them(name, tmp_path):
    variant, kind, stored, computed = TYPES[name]
    written = variant.write(mixed(kind=kind), tmp_path, "data")
    for memory in (KEPT, STREAMED):
        data = opened(written, memory=memory)
        assert data.dtype == computed
        for block in blocks(data):
            assert block.dtype == computed
            assert {chunk.Xt.dtype for chunk in block.chunks()} == {np.dtype(computed)}
            if memory:
                assert block.Xt.dtype == stored


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("asked", ["float32", "float64"])
def test_the_type_to_compute_with_may_be_asked_for(asked, name, memory, tmp_path):
    variant, kind, _, _ = TYPES[name]
    table = mixed(kind=kind)
    written = variant.write(table, tmp_path, "data")
    data = opened(written, dtype=asked, memory=memory)
    assert data.dtype == asked
    for block in blocks(data):
        assert {chunk.Xt.dtype for chunk in block.chunks()} == {np.dtype(asked)}
        if memory:
            assert block.Xt.dtype.itemsize <= np.dtype(asked).itemsize
    assert_array_equal(contents(data)[0], table.X)


@pytest.mark.parametrize(
    ("dtype", "computed"), [("<f2", "float32"), (">f4", "float32"), ("<i4", "float64"), ("u1", "float32")]
)
def test_a_local_array_stays_on_disk_as_it_is(dtype, computed, tmp_path):
    X = mixed(kind="whole").X.astype(dtype)
    np.save(tmp_path / "a.npy", X)
    data = open_data(tmp_path / "a.npy")
    assert data.dtype == computed
    for block in blocks(data):
        (window,) = block.windows()
        assert window.Xt.dtype == dtype
        assert not window.Xt.flags.owndata
    assert_array_equal(contents(data)[0], X.astype(float))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.float16, bool])
def test_arrays_in_memory_stay_narrow(dtype, rng):
    X = rng.integers(0, 2, (50, 3)).astype(dtype)
    data = in_memory(X)
    assert data.dtype == np.float32
    for block in blocks(data, 3):
        assert block.Xt.dtype == dtype
        assert np.shares_memory(block.Xt, X)
