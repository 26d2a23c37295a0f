"""Data to fit, wherever they are: the same samples give the same fit."""

import re
import warnings
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD, load
from dbmd.data.block import Block
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.data.stream import Stream
from dbmd.dataset import in_memory, open_data
from dbmd.errors import DataError
from tables import (
    LABEL,
    PLAIN,
    SOURCE,
    VARIANTS,
    Table,
    as_csv,
    as_h5ad,
    as_npy,
    as_npz,
    as_parquet,
    contents,
    readers_at_work,
    remote,
)

KEPT, STREAMED = DEFAULT_MEMORY, 0


@cache
def mixed(n=400, m=5, r=3, kind="quarters", seed=3):
    """Return a table of samples that are mixtures, of three sources of different noise."""
    rng = np.random.default_rng(seed)
    sources, classes = rng.integers(0, 3, n), rng.integers(0, r, n)
    Ht = 0.8 * np.eye(r)[classes] + 0.2 * rng.dirichlet(np.ones(r), n)
    centres = 8.0 + 4.0 * rng.normal(size=(r, m))
    X = Ht @ centres + np.array([0.3, 0.7, 1.5])[sources, None] * rng.normal(size=(n, m))
    X = np.clip(np.round(X), 0, 100) if kind == "whole" else np.round(4 * X) / 4
    return Table(X, sources, classes, tuple(f"n{i % 7}" for i in range(n)))


def fitted(X, **options):
    parameters = {"n_components": 3, "random_state": 0, "max_iter": 15, "tol": 0.0}
    source = options.pop("source", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**parameters | options).fit(X, source=source)


def opened(written, **options):
    return open_data(written.path, columns=written.features, source=written.source, **options)


def blocks(data, n_nodes=None):
    return [node.block for node in data.nodes(n_nodes, 1)]


@pytest.fixture(params=[KEPT, STREAMED], ids=["kept", "streamed"])
def memory(request):
    return request.param


# -- what is in it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_dataset_holds_the_samples_of_the_file_in_order_with_sources_and_classes(variant, memory, tmp_path):
    table = mixed(kind=VARIANTS[variant].kind)
    written = VARIANTS[variant].write(table, tmp_path, "data")
    data = opened(written, label=written.label, memory=memory)
    assert data.shape == table.X.shape
    assert data.feature_names == written.features
    assert [float(name) for name in data.source_names] == [0.0, 1.0, 2.0]
    assert [float(name) for name in data.classes] == [0.0, 1.0, 2.0]
    assert data.n_sources == 3
    for n_nodes in (None, 1, 3):
        X, sources, classes = contents(data, n_nodes)
        assert_array_equal(X, table.X)
        assert_array_equal(sources, table.sources)
        assert_array_equal(classes, table.classes)


@pytest.mark.parametrize("variant", PLAIN)
def test_small_data_are_kept_and_large_data_are_read_in_every_pass(variant, tmp_path):
    written = PLAIN[variant].write(mixed(), tmp_path, "data")
    local_array = PLAIN[variant].format == "npy"  # the system keeps what it maps
    for memory, kind in ((KEPT, Stream if local_array else Block), (STREAMED, Stream)):
        assert {type(block) for block in blocks(opened(written, memory=memory))} == {kind}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The same table cut into files that may be cut in their turn, or not."""
    folder = tmp_path_factory.mktemp("parts")
    table = mixed()
    kinds = {
        "csv": as_csv(),
        "row groups": as_parquet(row_group_size=13),
        "npy": as_npy(),
        "h5ad": as_h5ad(),
        "npz": as_npz(),
    }
    return {
        name: [variant.write(table.rows(i, j), folder, f"{name}-{i}") for i, j in ((0, 90), (90, 91), (91, 400))]
        for name, variant in kinds.items()
    }


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("kind", ["csv", "row groups", "npy", "h5ad", "npz"])
@settings(max_examples=6)
@given(n_nodes=st.integers(1, 40))
def test_nodes_cover_all_rows_once_and_in_order_for_any_number_of_nodes(kind, memory, n_nodes, parts):
    written, table = parts[kind], mixed()
    data = open_data(
        [one.path for one in written],
        columns=written[0].features,
        source=written[0].source,
        label=written[0].label,
        memory=memory,
    )
    nodes = data.nodes(n_nodes, 1)
    assert 1 <= len(nodes) <= n_nodes
    edges = [node.block.first_row for node in nodes]
    assert edges[0] == 0
    assert_array_equal(np.diff([*edges, 400]), [node.block.shape[0] for node in nodes])
    X, sources, classes = contents(data, n_nodes)
    assert_array_equal(X, table.X)
    assert_array_equal(sources, table.sources)
    assert_array_equal(classes, table.classes)


def test_sources_are_numbered_over_all_files_even_where_a_file_has_few_of_them(memory, tmp_path):
    for name, rows in {"a": "1,z\n2,z\n", "b": "3,m\n", "c": "4,a\n5,z\n"}.items():
        (tmp_path / f"{name}.csv").write_text("x,lab\n" + rows)
    data = open_data(tmp_path, source="lab", label="lab", memory=memory)
    assert data.source_names.tolist() == data.classes.tolist() == ["a", "m", "z"]
    X, sources, classes = contents(data)
    assert_array_equal(X[:, 0], [1, 2, 3, 4, 5])
    assert_array_equal(sources, [2, 2, 1, 0, 2])
    assert_array_equal(classes, sources)


def test_sources_that_are_whole_numbers_are_in_the_order_of_numbers_in_every_format(memory, tmp_path):
    (tmp_path / "a.csv").write_text("x,lab\n1,10\n2,9\n")
    pq.write_table(pa.table({"x": [3.0], "lab": [100]}), tmp_path / "b.parquet")
    data = open_data(tmp_path, source="lab", memory=memory)
    assert data.source_names.tolist() == [9, 10, 100]
    assert_array_equal(contents(data)[1], [1, 0, 2])


def test_each_file_may_be_a_source(memory, tmp_path):
    for name, rows in (("part-10", "1\n2\n"), ("part-9", "3\n"), ("part-2", "4\n5\n")):
        (tmp_path / f"{name}.csv").write_text("x\n" + rows)
    data = open_data(tmp_path, source="@file", memory=memory)
    assert data.source_names.tolist() == ["part-10.csv", "part-2.csv", "part-9.csv"]
    X, sources, _ = contents(data)
    assert_array_equal(X[:, 0], [4, 5, 3, 1, 2])
    assert_array_equal(sources, [1, 1, 2, 0, 0])


def test_files_of_one_name_in_two_folders_are_two_sources(memory, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.csv").write_text("x\n1\n2\n")
    data = open_data(tmp_path, source="@file", memory=memory)
    assert data.source_names.tolist() == [f"{tmp_path}/a/part.csv", f"{tmp_path}/b/part.csv"]
    assert_array_equal(contents(data)[1], [0, 0, 1, 1])


def test_the_folders_of_parquet_files_may_be_sources_and_features(memory, tmp_path):
    for lab, year, x in (("b", 2021, 1.0), ("a", 2020, 2.0), ("b", 2020, 3.0)):
        folder = tmp_path / f"lab={lab}" / f"year={year}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [x, x + 0.5]}), folder / "part.parquet")
    data = open_data(tmp_path, source="lab", memory=memory)
    assert data.source_names.tolist() == ["a", "b"]
    assert data.feature_names == ["x", "year"]
    X, sources, _ = contents(data)
    assert_array_equal(X, [[2, 2020], [2.5, 2020], [3, 2020], [3.5, 2020], [1, 2021], [1.5, 2021]])
    assert_array_equal(sources, [0, 0, 1, 1, 1, 1])


def test_folders_alone_may_be_the_features(memory, tmp_path):
    for year in (1, 2):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"text": ["u", "v"]}), tmp_path / f"year={year}" / "part.parquet")
    X, _, _ = contents(open_data(tmp_path, columns=["year"], memory=memory))
    assert_array_equal(X, [[1], [1], [2], [2]])


def test_files_of_several_formats_go_together(memory, tmp_path):
    table = mixed()
    variants = [as_csv(), as_parquet(), as_csv(".tsv.gz", "\t"), remote(as_parquet())]
    edges = [0, 100, 150, 151, 400]
    paths = [
        variant.write(table.rows(i, j), tmp_path, f"part{i}").path
        for variant, (i, j) in zip(variants, pairwise(edges), strict=True)
    ]
    data = open_data(paths, drop=["note"], source=SOURCE, label=LABEL, memory=memory)
    X, sources, classes = contents(data)
    assert_array_equal(X, table.X)
    assert_array_equal(sources, table.sources)
    assert_array_equal(classes, table.classes)


def test_columns_are_found_by_name_whatever_their_order_in_a_file(memory, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z\n1,2,3\n")
    (tmp_path / "b.csv").write_text("z,x,y\n6,4,5\n")
    assert_array_equal(contents(open_data(tmp_path, memory=memory))[0], [[1, 2, 3], [4, 5, 6]])
    chosen = open_data(tmp_path, columns=["z", "x"], memory=memory)
    assert chosen.feature_names == ["z", "x"]
    assert_array_equal(contents(chosen)[0], [[3, 1], [6, 4]])
    assert_array_equal(contents(open_data(tmp_path, drop=["y"], memory=memory))[0], [[1, 3], [4, 6]])


def test_files_without_rows_among_others_are_passed_over(memory, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    (tmp_path / "c.csv").write_text("x,y\n")
    (tmp_path / "d.csv").write_text("x,y\n3,4\n")
    for n_nodes in (None, 1, 2, 9):
        assert_array_equal(contents(open_data(tmp_path, memory=memory), n_nodes)[0], [[1, 2], [3, 4]])


def test_a_gene_may_have_the_name_of_an_annotation(memory, tmp_path):
    import anndata
    import pandas as pd

    obs = pd.DataFrame({"g": ["b", "a", "b"]}, index=["0", "1", "2"])
    X = np.arange(6.0).reshape(3, 2)
    anndata.AnnData(X, var=pd.DataFrame(index=["f", "g"]), obs=obs).write_h5ad(tmp_path / "a.h5ad")
    data = open_data(tmp_path / "a.h5ad", source="g", memory=memory)
    assert data.feature_names == ["f", "g"]
    found, sources, _ = contents(data)
    assert_array_equal(found, X)
    assert_array_equal(sources, [1, 0, 1])


def test_one_name_may_stand_alone(tmp_path):
    (tmp_path / "a.csv").write_text("one,two,text\n1,2,u\n3,4,v\n")
    assert open_data(tmp_path / "a.csv", columns="two").feature_names == ["two"]
    assert open_data(tmp_path / "a.csv", drop="text").feature_names == ["one", "two"]
    assert open_data(tmp_path / "a.csv", encode="text").feature_names == ["one", "two", "text=u", "text=v"]


def test_whether_there_is_a_header_may_be_said(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    assert open_data(tmp_path / "a.csv").feature_names == ["0", "1"]
    data = open_data(tmp_path / "a.csv", header=True)
    assert data.feature_names == ["1", "2"]
    assert_array_equal(contents(data)[0], [[3, 4]])


def test_the_delimiter_may_be_said(tmp_path):
    (tmp_path / "a.csv").write_text("x y\n1 2\n")
    data = open_data(tmp_path / "a.csv", delimiter=" ")
    assert data.feature_names == ["x", "y"]
    assert_array_equal(contents(data)[0], [[1, 2]])


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


# -- fits ----------------------------------------------------------------------------------------------------------


def assert_same_fit(one, other, atol=1e-6):
    assert_allclose(one.components_, other.components_, atol=atol, rtol=atol)
    assert_allclose(one.noise_variance_, other.noise_variance_, rtol=10 * atol)
    assert_allclose(one.objective_, other.objective_, rtol=atol)
    assert_array_equal(one.profile_.n, other.profile_.n)
    assert_allclose(one.cluster_sizes_, other.cluster_sizes_, rtol=1e-4)


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


@pytest.mark.parametrize("variant", ["csv", "npy", "npz"])
def test_a_fitted_model_is_used_on_a_dataset_as_on_arrays(variant, memory, tmp_path):
    table = mixed()
    written = PLAIN[variant].write(table, tmp_path, "data")
    data = opened(written, memory=memory, dtype=np.float64)
    model = fitted(table.X, source=table.sources, inference="map", alpha=1.5)
    assert_allclose(model.transform(data), model.transform(table.X, source=table.sources), atol=1e-6)
    assert_array_equal(model.predict(data), model.predict(table.X, source=table.sources))
    assert_allclose(model.score(data), model.score(table.X, source=table.sources), rtol=1e-9)


def test_the_record_of_a_fit_says_what_was_fitted(memory, tmp_path):
    table = mixed()
    written = as_csv().write(table, tmp_path, "data")
    data = opened(written, memory=memory)
    model = fitted(data, inference="map")
    assert model.feature_names_in_.tolist() == written.features
    assert model.sources_.tolist() == [0, 1, 2]
    info = model.fit_info_
    assert info["n_samples"] == 400
    assert info["dtype"] == "float64"
    assert info["data"]["paths"] == [written.path]
    assert info["data"]["fingerprint"] == data.about["fingerprint"]
    residual = table.X - model.transform(data) @ model.components_
    centred = table.X - table.X.mean(axis=0)
    assert_allclose(info["explained"], 1.0 - (residual**2).sum() / (centred**2).sum(), rtol=1e-6)


def test_a_dataset_of_other_features_is_refused(tmp_path):
    model = fitted(mixed().X)
    data = open_data(as_csv().write(mixed(), tmp_path, "data").path, drop=["note"])
    with pytest.raises(ValueError, match=r"^The data have 7 features, the model has 5.$"):
        model.transform(data)


def test_a_dataset_of_the_features_in_another_order_is_refused(memory, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    model = fitted(open_data(written.path, columns=written.features, memory=memory))
    swapped = open_data(written.path, columns=["x0", "x2", "x1", "x3", "x4"], memory=memory)
    message = "in the same order. Got 'x2' where the model has 'x1': name them in open_data"
    with pytest.raises(ValueError, match=re.escape(message)):
        model.transform(swapped)
    np.save(tmp_path / "unnamed.npy", mixed().X)
    unnamed = open_data(tmp_path / "unnamed.npy")
    assert_allclose(model.transform(unnamed), model.transform(open_data(written.path, columns=written.features)))


def test_sources_of_a_dataset_are_its_own(tmp_path):
    data = opened(as_csv().write(mixed(), tmp_path, "data"))
    with pytest.raises(ValueError, match="A dataset has its own sources"):
        DBMD(3).fit(data, source=mixed().sources)


@pytest.mark.parametrize("keeps", [True, False])
def test_there_is_room_for_memberships_up_to_a_quarter_of_the_memory(keeps, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    needed = 4 * 400 * (3 * 8 + 8 + 4)
    data = opened(written, memory=needed if keeps else needed - 1)
    assert data.keeps_rows(3) == keeps
    assert not data.keeps_rows(300)
    assert {node.keeps_rows for node in data.nodes(2, 3)} == {keeps}


def test_a_fit_of_streamed_data_leaves_no_thread(tmp_path):
    fitted(opened(as_csv().write(mixed(), tmp_path, "data"), memory=STREAMED))
    assert readers_at_work() == []


@pytest.mark.parametrize("rows", [3, 399, 401])
def test_a_file_that_lost_or_got_rows_between_the_passes_does_not_go_unnoticed(rows, tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    data = opened(written, memory=STREAMED)
    lines = Path(written.path).read_text().splitlines(keepends=True)
    Path(written.path).write_text("".join([*lines, lines[-1]][: 1 + rows]))
    with pytest.raises(DataError, match="has changed"):
        fitted(data)


def test_a_file_that_changes_between_the_passes_does_not_go_unnoticed(tmp_path):
    written = as_csv().write(mixed(), tmp_path, "data")
    data = opened(written, memory=STREAMED)
    text = Path(written.path).read_text()
    Path(written.path).write_text(text.replace("x4\n", "x4\n0,0,n0,many,1,1,1,1\n", 1))
    with pytest.raises(DataError, match="has changed since it was opened"):
        fitted(data)


def test_sparse_files_stay_sparse(memory, tmp_path):
    for variant in ("npz", "h5ad, CSR"):
        data = opened(PLAIN[variant].write(mixed(), tmp_path, "data"), memory=memory)
        assert all(sparse.issparse(chunk.Xt) for block in blocks(data) for chunk in block.chunks())


def test_a_model_can_be_fitted_again_to_files_with_other_features(tmp_path):
    for name, columns in (("one", "ab"), ("other", "cde")):
        table = pa.table({column: np.arange(9.0) ** (i + 1) for i, column in enumerate(columns)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    model = DBMD(2, random_state=0).fit(open_data(tmp_path / "one.parquet"))
    model.fit(open_data(tmp_path / "other.parquet"))
    assert model.feature_names_in_.tolist() == ["c", "d", "e"]
    with pytest.raises(ValueError, match="has 3"):
        model.transform(open_data(tmp_path / "one.parquet"))


def in_halves(X):
    """Return a CSR matrix with two entries for each that it has, in no order."""
    order = np.concatenate([np.r_[i:j, i:j][::-1] for i, j in pairwise(X.indptr)])
    return sparse.csr_matrix((X.data[order] / 2, X.indices[order], 2 * X.indptr), shape=X.shape)


def test_entries_in_parts_are_what_they_are_in_one(tmp_path):
    X = sparse.csr_matrix(mixed().X * (np.random.default_rng(0).random((400, 5)) < 0.6))
    halves = in_halves(X)
    assert (halves != X).nnz == 0
    for name, matrix in (("one", X), ("halves", halves)):
        sparse.save_npz(tmp_path / f"{name}.npz", matrix)
    expected = fitted(X).components_
    assert_array_equal(fitted(halves).components_, expected)
    assert halves.nnz == 2 * X.nnz  # who handed it over has it as it was
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
