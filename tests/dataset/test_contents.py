"""A dataset holds the samples of its files, in order, with sources and classes."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dbmd.data.block import Block
from dbmd.data.stream import Stream
from dbmd.dataset import open_data
from tables import LABEL, PLAIN, SOURCE, VARIANTS, as_csv, as_h5ad, as_npy, as_npz, as_parquet, contents, remote

from .common import KEPT, STREAMED, blocks, mixed, opened


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_dataset_holds_the_samples_of_the_file_in_order_with_sources_and_classes(variant, memory, tmp_path):
    table = mixed(kind=VARIANTS[variant].kind)
    written = VARIANTS[variant].write(table, tmp_path, "data")
    data = opened(written, label=written.label, memory=memory)
    assert data.shape == table.X.shape
    assert data.feature_names == written.features
    assert [float(name) for name in data.source_names] == [0.0, 1.0, 2.0]
    assert [float(name) for name in data.class_names] == [0.0, 1.0, 2.0]
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
    """The same table in several files, of formats that can be split and of others."""
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


@pytest.mark.slow
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
    assert data.source_names.tolist() == data.class_names.tolist() == ["a", "m", "z"]
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
