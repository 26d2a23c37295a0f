"""Tests of h5ad alone."""

import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.formats import open_reader
from dbmd.data.location import locate
from dbmd.dataset import open_data
from dbmd.errors import DataError

N = 6
OBS = {
    "text": (["b", "a", "b", "c", "a", "b"], ["b", "a", "b", "c", "a", "b"]),
    "categories": (pd.Categorical(["b", "a", "b", "c", "a", "b"]), ["b", "a", "b", "c", "a", "b"]),
    "categories that are numbers": (pd.Categorical([5, 3, 5, 9, 3, 5]), [5, 3, 5, 9, 3, 5]),
    "integers": (np.arange(N), list(range(N))),
    "truth": (np.arange(N) % 2 == 0, [True, False] * 3),
    "numbers": (np.arange(N) / 2.0, [i / 2.0 for i in range(N)]),
    "integers, some missing": (pd.array([1, None, 3, 1, 1, 3], dtype="Int64"), [1, None, 3, 1, 1, 3]),
    "truth, some missing": (pd.array([True, None, False] * 2, dtype="boolean"), [True, None, False] * 2),
    "categories, some missing": (pd.Categorical(["b", None, "a"] * 2), ["b", None, "a"] * 2),
}


def written(folder, X, **obs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [f"g{j}" for j in range(X.shape[1])]
        rows = [f"c{i}" for i in range(X.shape[0])]
        data = anndata.AnnData(X, obs=pd.DataFrame(obs, index=rows), var=pd.DataFrame(index=names))
        data.write_h5ad(folder / "data.h5ad")
    return folder / "data.h5ad"


def opened(path):
    return open_reader(*locate(path))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("kind", OBS)
def test_annotations_are_as_they_were_written(kind, form, tmp_path):
    values, expected = OBS[kind]
    reader = opened(written(tmp_path, form(np.ones((N, 2))), kind=values))
    assert reader.annotations == ("kind",)
    assert "kind" not in reader.columns
    found = [batch.others["kind"].to_pylist() for batch in reader.read(1, 5, ["g0"], ["kind"])]
    assert [value for part in found for value in part] == expected[1:5]


def test_an_annotation_is_read_by_slices(tmp_path, monkeypatch):
    """Reading a dataset of HDF5 entry by entry is a thousand times slower."""

    def refuse(self):
        raise AssertionError("entry by entry")

    reader = opened(written(tmp_path, np.ones((N, 2)), **{"text": OBS["text"][0], "number": np.arange(N)}))
    monkeypatch.setattr(h5py.Dataset, "__iter__", refuse)
    (batch,) = reader.read(0, None, ["g0"], ["text", "number"])
    assert batch.others["number"].to_pylist() == list(range(N))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_variable_may_be_a_source(form, tmp_path):
    X = np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]])
    data = open_data(written(tmp_path, form(X)), source="g1")
    assert data.source_names.tolist() == [0.0, 5.0]
    assert data.feature_names == ["g0"]


def test_rows_without_entries_are_rows(tmp_path):
    X = np.zeros((N, 3))
    X[2, 1] = 4.0
    reader = opened(written(tmp_path, sparse.csr_matrix(X)))
    for start, stop in ((0, N), (0, 2), (2, 3), (3, N), (5, 6)):
        batches = [batch.Xt.toarray() for batch in reader.read(start, stop, list(reader.columns))]
        assert_array_equal(np.concatenate(batches), X[start:stop])


@pytest.mark.parametrize("number", [-1, 2, 10**6])
def test_entries_outside_the_matrix_are_refused(number, tmp_path):
    path = written(tmp_path, sparse.csr_matrix(np.ones((N, 2))))
    with h5py.File(path, "a") as file:
        file["X"]["indices"][3] = number
    with pytest.raises(DataError, match=r"is not a sound CSR matrix. Its indices must be from 0 to 1, .* Got"):
        open_data(path)


def test_codes_outside_the_categories_are_refused(tmp_path):
    path = written(tmp_path, np.ones((N, 2)), kind=OBS["categories"][0])
    with h5py.File(path, "a") as file:
        file["obs"]["kind"]["codes"][3] = 100
    with pytest.raises(DataError, match=r"data.h5ad: is not a sound h5ad file, .* anew \("):
        open_data(path, source="kind")


def test_an_annotation_that_is_too_short_is_refused(tmp_path):
    path = written(tmp_path, np.ones((N, 2)), kind=np.arange(N))
    with h5py.File(path, "a") as file:
        del file["obs"]["kind"]
        file["obs"]["kind"] = np.arange(N - 2)
    with pytest.raises(DataError, match=r"data.h5ad: column 'kind' of obs is shorter than X\."):
        open_data(path, source="kind")


def test_categories_as_older_versions_wrote_them_are_categories(tmp_path):
    path = written(tmp_path, np.ones((N, 2)), kind=np.array([1, 0, 1, 2, 0, -1], np.int8))
    with h5py.File(path, "a") as file:
        file["obs"]["__categories/kind"] = np.array([b"a", b"b", b"c"])
        file["obs"]["kind"].attrs["categories"] = file["obs"]["__categories/kind"].ref
    (batch,) = opened(path).read(0, None, ["g0"], ["kind"])
    assert batch.others["kind"].to_pylist() == ["b", "a", "b", "c", "a", None]


def test_names_of_variables_may_be_of_a_type_with_missing_values(tmp_path):
    path = written(tmp_path, np.ones((N, 2)))
    with h5py.File(path, "a") as file:
        del file["var"]["_index"]
        file["var"]["_index/values"] = np.array([b"one", b"two"])
        file["var"]["_index/mask"] = np.zeros(2, bool)
    assert list(opened(path).columns) == ["one", "two"]


def external_link(file, X):
    file["X"] = h5py.ExternalLink("other.h5", "/X")


def soft_link_to_an_external_one(file, X):
    file["deep/out"] = h5py.ExternalLink("other.h5", "/")
    file["X"] = h5py.SoftLink("/deep/out/X")


def external_storage(file, X):
    X.tofile("other.bin")
    file.create_dataset("X", X.shape, X.dtype, external=[("other.bin", 0, X.nbytes)])


def virtual_dataset(file, X):
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("other.h5", "X", X.shape)
    file.create_virtual_dataset("X", layout)


def entries_by_an_external_link(file, X):
    file["X/indices"], file["X/indptr"] = np.arange(2), np.array([0, 2])
    file["X/data"] = h5py.ExternalLink("other.h5", "/X")


@pytest.mark.parametrize(
    ("put", "name"),
    [
        (external_link, "X"),
        (soft_link_to_an_external_one, "deep/out"),
        (external_storage, "X"),
        (virtual_dataset, "X"),
        (entries_by_an_external_link, "X/data"),
    ],
)
def test_numbers_in_another_file_are_not_read(put, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.arange(2.0 * N).reshape(N, 2)
    with h5py.File("other.h5", "w") as file:
        file["X"] = X
    written(tmp_path, X)
    with h5py.File("data.h5ad", "a") as file:
        del file["X"]
        put(file, X)
    with pytest.raises(DataError, match=rf"h5ad: /{name} is stored in another file, which is not read\. Write it"):
        open_data("data.h5ad")


def test_a_link_inside_the_file_is_followed(tmp_path):
    path = written(tmp_path, np.arange(2.0 * N).reshape(N, 2))
    with h5py.File(path, "a") as file:
        file.move("X", "layers/raw")
        file["X"] = h5py.SoftLink("/layers/raw")
    assert open_data(path).shape == (N, 2)


@pytest.mark.parametrize("packing", [{}, {"compression": "gzip"}, {"compression": "lzf"}, {"scaleoffset": 0}])
def test_numbers_that_take_next_to_no_room_are_read(packing, tmp_path):
    path = written(tmp_path, np.ones((1, 2)))
    with h5py.File(path, "a") as file:
        del file["X"], file["obs"]
        file.create_group("obs")
        file.create_dataset("X", data=np.zeros((100_000, 2), int), chunks=(50_000, 2), shuffle=True, **packing)
    assert open_data(path).shape == (100_000, 2)


# -- layers, obsm, highly variable genes ---------------------------------------------------------------------------


@pytest.fixture
def cells(tmp_path):
    """An AnnData file with layers, obsm, and two of three variables highly variable."""
    X = np.arange(3.0 * N).reshape(N, 3)
    data = anndata.AnnData(X, obs=pd.DataFrame({"lab": ["a", "b"] * 3}, index=[f"c{i}" for i in range(N)]))
    data.var_names = ["g0", "g1", "g2"]
    data.var["highly_variable"] = [True, False, True]
    data.layers["dense"], data.layers["csr"], data.layers["csc"] = -X, sparse.csr_matrix(X * 2), sparse.csc_matrix(X)
    data.obsm["X_pca"] = X[:, :2] + 0.5
    data.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad", X


@pytest.mark.parametrize(
    ("options", "expected", "names"),
    [
        ({"layer": "dense"}, lambda X: -X, ["g0", "g1", "g2"]),
        ({"layer": "csr"}, lambda X: X * 2, ["g0", "g1", "g2"]),
        ({"hvg": True}, lambda X: X[:, [0, 2]], ["g0", "g2"]),
        ({"hvg": True, "layer": "csr"}, lambda X: 2 * X[:, [0, 2]], ["g0", "g2"]),
        ({"obsm": "X_pca"}, lambda X: X[:, :2] + 0.5, ["X_pca-0", "X_pca-1"]),
    ],
)
def test_what_is_asked_for_is_read(options, expected, names, cells):
    path, X = cells
    data = open_data(path, source="lab", **options)
    Xt = data.Xt.toarray() if sparse.issparse(data.Xt) else data.Xt
    assert_array_equal(Xt, expected(X))
    assert data.feature_names == names
    assert data.source_names.tolist() == ["a", "b"]
    assert {name: data.about[name] for name in options} == options
    assert not {"layer", "obsm", "hvg"} & (data.about.keys() - options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "counts"}, r"has no layer 'counts'. layers has 'csc', 'csr', 'dense'\."),
        ({"obsm": "X_umap"}, r"has no entry of obsm 'X_umap'. obsm has 'X_pca'\."),
        ({"layer": "csc"}, r"layers\['csc'\] must be dense or CSR, .* adata.layers\['csc'\] = .*\.tocsr\(\)"),
        ({"layer": "dense", "obsm": "X_pca"}, r"an entry of obsm has neither layers nor"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(options, message, cells):
    with pytest.raises(DataError, match=message):
        open_data(cells[0], **options)


def test_highly_variable_genes_must_be_known(tmp_path):
    with pytest.raises(DataError, match=r"var has no column 'highly_variable'\. Choose such genes first: scanpy"):
        open_data(written(tmp_path, np.ones((N, 2))), hvg=True)
    np.save(tmp_path / "X.npy", np.ones((N, 2)))
    with pytest.raises(DataError, match=r"X\.npy: only h5ad files have layers"):
        open_data(tmp_path / "X.npy", layer="counts")


def test_names_of_cells_are_read_like_a_column(cells):
    (batch,) = opened(cells[0]).read(1, 4, ["g0"], ["obs_names", "lab"])
    assert batch.others["obs_names"].to_pylist() == ["c1", "c2", "c3"]


# -- files of older versions ---------------------------------------------------------------------------------------


def text_type(kind):
    return h5py.string_dtype() if kind == "vlen" else "S4"


def records(index, kind, **columns):
    """Return an array of records whose first field names the rows, as anndata wrote obs and var before 0.7."""
    types = {
        name: text_type(kind) if np.asarray(each).dtype.kind == "U" else np.asarray(each).dtype
        for name, each in columns.items()
    }
    rows = np.zeros(len(index[1]), [(index[0], text_type(kind)), *types.items()])
    rows[index[0]] = [name.encode() for name in index[1]]
    for name, each in columns.items():
        rows[name] = [value.encode() if isinstance(value, str) else value for value in each]
    return rows


@pytest.mark.parametrize("index", ["index", "barcode"])
@pytest.mark.parametrize("kind", ["bytes", "vlen"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_files_of_older_versions_are_read(form, kind, index, tmp_path):
    X = np.arange(2.0 * N).reshape(N, 2) * (np.arange(N) % 2)[:, None]
    text, codes, depth = ["b", "a", "b", "c", "a", "b"], np.array([1, 0, 1, 1, 0, -1], np.int8), np.arange(N) / 2.0
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        cells, genes = (index, [f"c{i}" for i in range(N)]), ("index", ["g0", "g1"])
        file["obs"] = records(cells, kind, text=text, lab=codes, depth=depth, one=np.zeros(N, np.int8))
        file["var"] = records(genes, kind, highly_variable=np.array([False, True]))
        file["uns/lab_categories"] = np.array([b"oslo", b"rome"])
        file["uns/one_categories"] = "lima"
        file["obsm"] = np.array([(row,) for row in X], [("X_pca", float, 2)])
        if form == "dense":
            file["X"] = X
        else:
            whole = sparse.csr_matrix(X)
            for part in ("data", "indices", "indptr"):
                file[f"X/{part}"] = getattr(whole, part)
            file["X"].attrs["h5sparse_format"], file["X"].attrs["h5sparse_shape"] = b"csr", X.shape
    reader = opened(tmp_path / "old.h5ad")
    assert reader.annotations == ("text", "lab", "depth", "one")
    assert list(reader.columns) == ["g0", "g1"]
    (batch,) = reader.read(1, N, ["g1", "g0"], ["obs_names", *reader.annotations])
    assert_array_equal(batch.Xt.toarray() if form == "csr" else batch.Xt, X[1:, ::-1])
    others = {name: column.to_pylist() for name, column in batch.others.items()}
    assert others == {
        "obs_names": [f"c{i}" for i in range(1, N)],
        "text": text[1:],
        "lab": ["oslo", "rome", "rome", "oslo", None],
        "depth": depth[1:].tolist(),
        "one": ["lima"] * (N - 1),
    }
    assert open_data(tmp_path / "old.h5ad", source="text", hvg=True).feature_names == ["g1"]
    assert_array_equal(open_data(tmp_path / "old.h5ad", obsm="X_pca").Xt, X)
    # anndata agrees: it still reads such files, if not all of them.
    if index == "index":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = anndata.read_h5ad(tmp_path / "old.h5ad")
        assert theirs.obs["lab"].astype(object).where(theirs.obs["lab"].notna(), None).tolist()[1:] == others["lab"]
        assert theirs.obs_names.tolist()[1:] == others["obs_names"]


def test_a_table_that_is_none_is_refused(tmp_path):
    path = written(tmp_path, np.ones((N, 2)))
    with h5py.File(path, "a") as file:
        del file["obs"]
        file["obs"] = np.arange(N)
    with pytest.raises(DataError, match=r"is not a sound h5ad file, .*obs must be a table, not an array of int64"):
        open_data(path)
