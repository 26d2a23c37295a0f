"""Tables with features in rows: read transposed, they are what the other way round would be."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.io
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.formats import _held, open_reader
from dbmd.data.location import locate
from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import contents, dense

M, N = 7, 30  # genes, cells
GENES, CELLS = [f"gene {j}" for j in range(M)], [f"cell {i}" for i in range(N)]


@pytest.fixture
def X(rng):
    return rng.integers(-8, 900, (N, M)) * (rng.random((N, M)) < 0.6) / 4.0


def table(X, **index):
    return pd.DataFrame(X.T, index=pd.Index(GENES, **index), columns=CELLS)


WRITERS = {  # of genes x cells: how to write it, and whether it has names
    "indexed.csv": (lambda X, path: table(X).to_csv(path), True),
    "named.csv": (lambda X, path: table(X, name="gene").to_csv(path), True),
    "r.txt": (lambda X, path: path.write_text(as_r(X)), True),
    "plain.tsv": (lambda X, path: np.savetxt(path, X.T, delimiter="\t", fmt="%.17g"), False),
    "named.parquet": (lambda X, path: table(X).to_parquet(path), True),
    "c.npy": (lambda X, path: np.save(path, np.ascontiguousarray(X.T)), False),
    "f.npy": (lambda X, path: np.save(path, np.asfortranarray(X.T)), False),
    "array.npz": (lambda X, path: np.savez(path, X.T), False),
    "csr.npz": (lambda X, path: sparse.save_npz(path, sparse.csr_matrix(X.T)), False),
    "csc.npz": (lambda X, path: sparse.save_npz(path, sparse.csc_matrix(X.T)), False),
    "thin.mtx": (lambda X, path: scipy.io.mmwrite(path, sparse.coo_matrix(X.T)), False),
    "dense.mtx": (lambda X, path: scipy.io.mmwrite(path, X.T), False),
}


def as_r(X):
    """Return a table as R's write.table writes it."""
    lines = [" ".join(f'"{cell}"' for cell in CELLS)]
    lines += [" ".join([f'"{gene}"', *map(repr, row.tolist())]) for gene, row in zip(GENES, X.T, strict=True)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_the_columns_of_the_file(name, X, tmp_path, monkeypatch):
    write, has_names = WRITERS[name]
    write(X, tmp_path / name)
    reader = open_reader(*locate(tmp_path / name), transpose=True)
    features = GENES if has_names else [str(j) for j in range(M)]
    assert list(reader.columns) == features
    for again in (reader, pickle.loads(pickle.dumps(reader))):
        batches = list(again.read(0, None, features[::-1], features[:1]))
        assert_array_equal(np.concatenate([dense(batch.Xt) for batch in batches]), X[:, ::-1])
        assert_array_equal(np.concatenate([batch.others[features[0]].to_numpy() for batch in batches]), X[:, 0])
    if has_names:
        assert reader.row_names == "sample"
        batches = reader.read(0, None, features, ["sample"])
        assert [name for batch in batches for name in batch.others["sample"].to_pylist()] == CELLS
        assert reader.where(2) == "sample 3 ('cell 2')"
    data = open_data(tmp_path / name, transpose=True)
    assert data.shape == (N, M)
    assert_array_equal(contents(data)[0], X)
    assert data.about["transpose"] is True


def test_files_of_cells_may_name_their_genes_in_different_orders(X, tmp_path):
    table(X).to_csv(tmp_path / "a.csv")
    table(X).iloc[::-1].to_csv(tmp_path / "b.csv")
    data = open_data([tmp_path / "a.csv", tmp_path / "b.csv"], source="@file", transpose=True)
    assert_array_equal(contents(data)[0], np.vstack([X, X]))
    assert data.source_names.tolist() == ["a.csv", "b.csv"]


def test_an_array_is_not_read_but_mapped(X, tmp_path):
    np.save(tmp_path / "a.npy", np.ascontiguousarray(X.T))
    reader = open_reader(*locate(tmp_path / "a.npy"), transpose=True)
    (batch,) = reader.read(3, 9, list(reader.columns))
    assert not reader.decodes
    assert not batch.Xt.flags.owndata
    assert_array_equal(batch.Xt, X[3:9])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "gene,kind,s1\na,x,1\n",
            r"a\.csv: column 'kind' does not hold numbers \('x' in line 2\)\. With transpose=True",
        ),
        ("gene,s1\na,1\na,2\n", r"a\.csv: two rows are called 'a'\. Rename one of them\."),
        ("gene,s1,s2\na,1,\nb,1,2\n", r"a\.csv: sample 2 \('s2'\), column 'a' has no number"),
    ],
)
def test_what_cannot_be_transposed_is_said(text, match, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=match):
        open_data(tmp_path / "a.csv", transpose=True)


def test_a_table_that_does_not_fit_is_refused(X, tmp_path, monkeypatch):
    monkeypatch.setattr(_held, "DEFAULT_MEMORY", 1000)
    table(X).to_csv(tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"a\.csv: takes 0MB or more in memory.* write it as npy.*more with memory=\."):
        open_data(tmp_path / "a.csv", transpose=True, memory=0)
    assert open_data(tmp_path / "a.csv", transpose=True, memory=10**6).shape == (N, M)


def test_h5ad_says_itself_what_is_a_sample(X, tmp_path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(X).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(DataError, match=r"a.h5ad: says itself what is a sample .* Leave out transpose=True"):
        open_data(tmp_path / "a.h5ad", transpose=True)
