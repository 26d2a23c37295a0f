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
