"""The same samples give the same fit, wherever they are."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd import load
from dbmd.dataset import open_data
from tables import LABEL, PLAIN, VARIANTS, Table, as_csv, as_npy, as_parquet

from .common import KEPT, STREAMED, assert_same_fit, blocks, fitted, mixed, opened


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*PLAIN, *(name for name in VARIANTS if name.endswith("elsewhere"))])
def test_kept_and_streamed_files_and_arrays_give_the_same_fit(variant, tmp_path):
    table = mixed(kind=VARIANTS[variant].kind)
    written = VARIANTS[variant].write(table, tmp_path, "data")
    expected = fitted(table.X, source=table.sources)
    for memory in (KEPT, STREAMED):
        model = fitted(opened(written, memory=memory, dtype=np.float64))
        assert_same_fit(model, expected)
        assert hasattr(model, "labels_") == bool(memory)
        if memory:
            assert_array_equal(model.labels_, expected.labels_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"inference": "map", "alpha": 1.5},
        {"solver": "admm"},
        {"lam": 2.0},
        {"noise": "shared"},
        {"n_init": 2, "init": "random", "max_iter": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("variant", ["row groups", "h5ad, CSR"])
def test_kept_and_streamed_give_the_same_fit_whatever_the_model(variant, options, tmp_path):
    table = mixed()
    written = PLAIN[variant].write(table, tmp_path, "data")
    expected = fitted(table.X, source=table.sources, **options)
    for memory in (KEPT, STREAMED):
        assert_same_fit(fitted(opened(written, memory=memory), **options), expected)


def test_float32_gives_the_same_fit_as_far_as_it_can_tell(memory, tmp_path):
    table = mixed()
    written = as_parquet(lambda values: pa.array(values, pa.float32())).write(table, tmp_path, "data")
    model = fitted(opened(written, memory=memory))
    assert model.components_.dtype == np.float32
    assert_same_fit(model, fitted(table.X, source=table.sources), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("arrangement", "n_sources"), [("sorted", 150), ("at random", 60), ("each file", 40)])
def test_streamed_data_of_many_sources_give_the_fit_of_the_arrays(arrangement, n_sources, tmp_path, rng):
    table = mixed(n=1200)
    sources = (
        np.sort(rng.integers(0, n_sources, 1200)) if arrangement != "at random" else rng.integers(0, n_sources, 1200)
    )
    _, sources = np.unique(sources, return_inverse=True)
    many = Table(table.X, sources, table.classes, table.notes)
    if arrangement == "each file":
        files = [
            as_npy().write(Table(many.X[own], sources[own], many.classes[own], ()), tmp_path, f"{c:03}")
            for c in range(sources.max() + 1)
            for own in [sources == c]
        ]
        data = open_data([file.path for file in files], columns=files[0].features, source="@file", memory=STREAMED)
    else:
        data = opened(as_parquet(row_group_size=100).write(many, tmp_path, "data"), memory=STREAMED)
    assert data.n_sources == sources.max() + 1
    assert_same_fit(fitted(data), fitted(many.X, source=sources))


@pytest.mark.parametrize("n_nodes", [1, 2, 7])
def test_the_number_of_nodes_does_not_matter_to_a_streamed_fit(n_nodes, tmp_path):
    table = mixed()
    data = opened(as_parquet(row_group_size=50).write(table, tmp_path, "data"), memory=STREAMED)
    assert_same_fit(fitted(data, n_nodes=n_nodes), fitted(table.X, source=table.sources, n_nodes=1))


def test_known_classes_are_set_against_the_clusters_and_change_nothing(memory, tmp_path):
    table = mixed()
    written = as_csv().write(table, tmp_path, "data")
    plain, labelled = fitted(opened(written, memory=memory)), fitted(opened(written, label=LABEL, memory=memory))
    assert_array_equal(plain.components_, labelled.components_)
    assert plain.profile_.contingency.shape == (0, 3)
    assert labelled.fit_info_["classes"] == [0, 1, 2]
    clusters = fitted(table.X, source=table.sources).labels_
    expected = [[((table.classes == c) & (clusters == k)).sum() for k in range(3)] for c in range(3)]
    assert_array_equal(labelled.profile_.contingency, expected)


def test_sparse_files_stay_sparse(memory, tmp_path):
    for variant in ("npz", "h5ad, CSR"):
        data = opened(PLAIN[variant].write(mixed(), tmp_path, "data"), memory=memory)
        assert all(sparse.issparse(chunk.Xt) for block in blocks(data) for chunk in block.chunks())


def in_halves(X):
    """Return a CSR matrix with each entry split in two halves, in no order."""
    order = np.concatenate([np.r_[i:j, i:j][::-1] for i, j in pairwise(X.indptr)])
    return sparse.csr_matrix((X.data[order] / 2, X.indices[order], 2 * X.indptr), shape=X.shape)


def test_duplicate_entries_are_added(tmp_path):
    X = sparse.csr_matrix(mixed().X * (np.random.default_rng(0).random((400, 5)) < 0.6))
    halves = in_halves(X)
    assert (halves != X).nnz == 0
    for name, matrix in (("one", X), ("halves", halves)):
        sparse.save_npz(tmp_path / f"{name}.npz", matrix)
    expected = fitted(X).components_
    assert_array_equal(fitted(halves).components_, expected)
    assert halves.nnz == 2 * X.nnz  # the caller's matrix is unchanged
    for memory in (KEPT, STREAMED):
        one, other = (open_data(tmp_path / f"{name}.npz", memory=memory) for name in ("one", "halves"))
        assert one.about["fingerprint"] == other.about["fingerprint"]
        assert_array_equal(fitted(other).components_, fitted(one).components_)


@pytest.mark.parametrize("labels", [[-1, 2**63 - 1, 2**63], ["a", "a\0", "b"]])
def test_sources_that_numpy_takes_for_the_same_are_several(labels, tmp_path):
    data = mixed()
    of_each = [labels[i] for i in data.sources]
    model = fitted(data.X, source=of_each)
    assert model.sources_.tolist() == labels
    assert_array_equal(model.noise_variance_, fitted(data.X, source=data.sources).noise_variance_)
    model.partial_fit(data.X, source=of_each)
    assert model.sources_.tolist() == labels
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").sources_.tolist() == labels
