import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data import partition


@given(st.integers(0, 2000), st.integers(1, 100))
def test_sizes_differ_by_at_most_one_and_cover_all(n, n_nodes):
    Xt = np.arange(n, dtype=float)[:, None]
    nodes = partition(Xt, 0, n_nodes)
    sizes = [node.block.shape[0] for node in nodes]
    assert len(nodes) == min(n_nodes, max(n, 1))
    assert max(sizes) - min(sizes) <= 1
    assert_array_equal(np.concatenate([node.block.Xt for node in nodes]), Xt)
    assert [node.block.first_row for node in nodes] == [0, *np.cumsum(sizes)[:-1]]


def test_every_node_has_samples_as_long_as_there_are_enough():
    assert all(node.block.shape[0] == 1 for node in partition(np.zeros((3, 2)), 0, 50))


def test_no_samples_make_one_node_without_any():
    (node,) = partition(np.zeros((0, 2)), np.zeros(0, int), 4)
    assert node.block.shape == (0, 2)


def test_names_differ():
    names = [node.name for node in partition(np.zeros((20, 2)), 0, 7)]
    assert len(set(names)) == 7


@pytest.mark.parametrize("n_nodes", [1, 4])
def test_samples_keep_their_source(n_nodes, rng):
    Xt, sources = rng.normal(size=(30, 2)), rng.integers(0, 4, 30)
    for node in partition(Xt, sources, n_nodes):
        first = node.block.first_row
        for chunk in node.block.chunks():
            rows = first + np.arange(node.block.shape[0])[chunk.rows]
            assert_array_equal(sources[rows], chunk.source_code)
            assert_array_equal(Xt[rows], chunk.Xt)


def test_dense_nodes_are_views(rng):
    Xt = rng.normal(size=(30, 2))
    assert all(np.shares_memory(node.block.Xt, Xt) for node in partition(Xt, 0, 4))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_nodes_are_views(kind, rng):
    Xt = kind(rng.normal(size=(30, 2)))
    for node in partition(Xt, 0, 4):
        assert np.shares_memory(node.block.Xt.data, Xt.data)
        assert np.shares_memory(node.block.Xt.indices, Xt.indices)
