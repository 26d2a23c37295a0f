"""Tests of Matrix Market and of folders of 10x."""

import gzip
import io

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.formats import open_reader
from dbmd.data.formats._tenx import unique
from dbmd.data.location import locate
from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import as_10x, as_10x_h5, contents, dense, table


def opened(folder, text, name="data.mtx", **hints):
    (folder / name).write_bytes(text)
    return open_reader(*locate(folder / name), **hints)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mtx")


def banner(kind, *lines):
    return "\n".join([f"%%MatrixMarket matrix {kind}", *lines, ""]).encode()


@given(data=st.data())
def test_whatever_scipy_writes_is_read_as_scipy_reads_it(folder, data):
    n = data.draw(st.integers(1, 6))
    symmetry = data.draw(st.sampled_from(["general", "symmetric", "skew-symmetric"]))
    field = data.draw(st.sampled_from(["integer", "real", "pattern"] if symmetry != "skew-symmetric" else ["real"]))
    is_dense = field != "pattern" and data.draw(st.booleans())
    m = n if symmetry != "general" else data.draw(st.integers(1, 6))
    values = st.integers(-(2**40), 2**40) if field == "integer" else st.floats(-1e9, 1e9)
    X = np.array(data.draw(st.lists(values, min_size=n * m, max_size=n * m))).reshape(n, m)
    X = X * np.array(data.draw(st.lists(st.booleans(), min_size=n * m, max_size=n * m))).reshape(n, m)
    X = np.tril(X, -1) - np.tril(X, -1).T if symmetry == "skew-symmetric" else X
    X = np.tril(X) + np.tril(X, -1).T if symmetry == "symmetric" else X
    text = io.BytesIO()
    scipy.io.mmwrite(text, X if is_dense else sparse.coo_matrix(X), field=field, symmetry=symmetry, precision=17)
    expected = scipy.io.mmread(io.BytesIO(text.getvalue()))
    turns = data.draw(st.booleans())
    packed = gzip.compress(text.getvalue()) if data.draw(st.booleans()) else text.getvalue()
    reader = opened(folder, packed, transpose=turns)
    assert reader.sparse == (not is_dense)
    found = np.concatenate([dense(batch.Xt) for batch in reader.read(0, None, list(reader.columns))])
    assert_array_equal(found, dense(expected).T if turns else dense(expected))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"1,2\n3,4\n", r"must begin with '%%MatrixMarket matrix', then coordinate or array"),
        (banner("coordinate integer general", "3 2 1", "1 1 5.5"), r"line 3 must have a row .* and a whole number"),
        (
            banner("coordinate real general", "% long " * 20000, "3 2 1", "1 x 5"),
            r"line 4 must have a row and a column",
        ),
        (banner("coordinate real general", "3 2"), r"line 2 must have the numbers of rows, columns and entries\."),
        (
            banner("coordinate integer general", "3 2 2", "1 1 5", "9 2 7"),
            r"line 4 has an entry outside of 3 rows and 2 columns",
        ),
        (banner("coordinate integer general", "3 2 2", "1 1 5"), r"says that it has 2 entries, and 1 are there"),
        (banner("coordinate real general", "3 2 1", "1 1 nan"), r"row 1, column '0' has no number"),
        (banner("coordinate complex general", "1 1 1", "1 1 5 1"), r"must hold real numbers .* Got complex and "),
        (banner("coordinate integer general", f"3 2 {10**12}"), r"takes 16,000,000MB .* write it as h5ad or npz"),
        (banner("coordinate integer general", f"3 {10**12} 1"), r"says that it has 1,000,000,000,000 columns"),
        (banner("coordinate integer general", f"{10**12} 3 1"), r"takes 8,000,000MB or more in memory"),
        (banner("array real general", f"{10**6} {10**6}"), r"takes 8,000,000MB or more in memory"),
    ],
)
def test_malformed_files_are_refused_in_one_sentence(text, match, tmp_path):
    (tmp_path / "a.mtx").write_bytes(text)
    with pytest.raises(DataError, match=match) as caught:
        open_data(tmp_path / "a.mtx")
    assert str(caught.value).startswith(f"{tmp_path / 'a.mtx'}: ")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fields_may_be_padded_and_lines_may_be_empty_and_entries_may_be_there_twice(end, tmp_path):
    lines = [
        "%%MatrixMarket matrix coordinate integer general",
        "% x",
        "",
        " 300  2 4",
        "  1    1   200",
        "\t1 1\t100 ",
    ]
    lines += ["", "  300 2 -7", " 2 1 3"]
    reader = opened(tmp_path, end.join([*lines, ""]).encode())
    X = np.concatenate([dense(batch.Xt) for batch in reader.read(0, None, ["0", "1"])])
    assert X[0].tolist() == [300, 0]
    assert X[299].tolist() == [0, -7]
    assert X.sum() == 296


# -- folders of 10x ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
def test_a_folder_of_10x_is_one_dataset(old, tmp_path, rng):
    data = table(rng, 20, kind="whole")
    as_10x(old=old).write(data, tmp_path, "run1")
    as_10x(old=old).write(data, tmp_path, "run2")
    found = open_data(tmp_path / "run1", drop=["lab", "kind"])
    assert found.feature_names == data.names
    assert found.dtype == np.float32  # small whole numbers are kept as such
    assert_array_equal(contents(found)[0], data.X)
    found = open_data(tmp_path, source="@file", drop=["lab", "kind"])
    assert found.source_names.tolist() == ["run1", "run2"]
    assert_array_equal(contents(found)[0], np.vstack([data.X, data.X]))
    reader = open_reader(*locate(tmp_path / "run1" / ("matrix.mtx" if old else "matrix.mtx.gz")))
    (batch,) = reader.read(0, None, data.names, ["barcode"])
    assert reader.row_names == "barcode"
    assert batch.others["barcode"].to_pylist() == [f"c{i}-1" for i in range(20)]
    assert reader.where(3) == "column 4 ('c3-1')"


@pytest.mark.parametrize("old", [False, True])
def test_a_file_of_10x_in_hdf5_is_what_the_folder_is(old, tmp_path, rng):
    data = table(rng, 20, kind="whole")
    (one, other) = (each(old=old).write(data, tmp_path, "run") for each in (as_10x, as_10x_h5))
    found = [open_reader(*locate(written.path)) for written in (one, other)]
    assert list(found[0].columns) == list(found[1].columns)
    batches = [next(reader.read(0, None, data.names, [reader.row_names])) for reader in found]
    assert_array_equal(dense(batches[0].Xt), dense(batches[1].Xt))
    assert batches[0].others["barcode"].to_pylist() == batches[1].others["barcode"].to_pylist()


def tenx(folder, features, barcodes=("a", "b"), sample=""):
    X = np.arange(1, 1 + len(features) * 2).reshape(len(features), 2)
    scipy.io.mmwrite(folder / f"{sample}matrix.mtx", sparse.coo_matrix(X))
    (folder / f"{sample}barcodes.tsv").write_text("".join(f"{name}\n" for name in barcodes))
    (folder / f"{sample}features.tsv").write_text("".join("\t".join(row) + "\n" for row in features))
    return X.T


def test_features_that_are_no_genes_are_taken_only_if_they_are_named(tmp_path):
    rows = [("1", "A", "Gene Expression"), ("2", "CD3", "Antibody Capture"), ("3", "A", "Gene Expression")]
    X = tenx(tmp_path, rows, sample="GSM1_")
    data = open_data(tmp_path)
    assert data.feature_names == ["A", "A-1"]
    assert_array_equal(contents(data)[0], X[:, [0, 2]])
    assert_array_equal(contents(open_data(tmp_path, columns=["CD3", "A"]))[0], X[:, [1, 0]])


@given(st.lists(st.sampled_from(["a", "a-1", "a-2", "b", "a-1-1"]), max_size=8))
def test_names_are_made_unique_and_those_that_are_stay_as_they_are(names):
    found = unique(names)
    assert len(set(found)) == len(names)
    for j, (name, new) in enumerate(zip(names, found, strict=True)):
        assert new == name or (name in names[:j] and new.startswith(f"{name}-"))


def test_a_folder_of_10x_that_is_not_whole_is_refused(tmp_path):
    tenx(tmp_path, [("1", "A"), ("2", "B")], barcodes=["a", "b", "c"])
    with pytest.raises(DataError, match=r"matrix\.mtx: has 2 columns, and there are 3 barcodes beside it"):
        open_data(tmp_path)
    (tmp_path / "barcodes.tsv").unlink()
    with pytest.raises(DataError, match=r"has .*features\.tsv beside it, but no barcodes\.tsv\. 10x writes both"):
        open_data(tmp_path)
    (tmp_path / "features.tsv").unlink()
    assert open_data(tmp_path).shape == (2, 2)  # any matrix
    tenx(tmp_path, [("1", "A"), ("2", "B")])
    with pytest.raises(DataError, match=r"matrix.mtx: says itself what is a sample"):
        open_data(tmp_path, transpose=True)
