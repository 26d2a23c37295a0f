import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.data.datasets import load
from labelled_files import CELLS, MIXTURES, count

pytestmark = pytest.mark.usefixtures("on_disk")
EACH = [(batch, cell) for batch, cells in enumerate(CELLS, start=1) for cell in cells]


def test_counts_are_those_of_the_cell_and_the_gene_for_the_genes_of_all_batches():
    data = load("cellmix")
    assert data.feature_names == ("g1", "g2", "g3")
    assert_array_equal(data.X, [[count(batch, cell, gene) for gene in data.feature_names] for batch, cell in EACH])


def test_the_batch_is_the_source():
    assert load("cellmix").source.tolist() == [f"batch {batch}" for batch, _ in EACH]


def test_the_mixture_is_the_class_and_its_proportions_the_truth():
    data = load("cellmix")
    assert data.y.tolist() == ["{}_{}_{}".format(*MIXTURES[cell]) for _, cell in EACH]
    assert_allclose(data.truth.sum(axis=1), 1.0, rtol=1e-15)
    assert_allclose(data.truth, [[number / sum(MIXTURES[cell]) for number in MIXTURES[cell]] for _, cell in EACH])
