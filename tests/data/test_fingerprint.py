from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from dbmd.data.fingerprint import MASK, fingerprint, multipliers
from dbmd.dataset import open_data
from strategies import cuts, generators
from tables import LABEL, SOURCE, VARIANTS, Table, as_csv, as_h5ad, as_parquet, remote, table

DTYPES = st.sampled_from([np.float32, np.float64])


@st.composite
def arrays(draw, min_rows=0):
    """Strategy: arrays with zeros, equal rows and numbers of all sizes."""
    dtype = np.dtype(draw(DTYPES))
    shape = draw(st.integers(min_rows, 8)), draw(st.integers(1, 5))
    numbers = st.floats(width=8 * dtype.itemsize, allow_nan=False, allow_infinity=False)
    return draw(hnp.arrays(dtype, shape, elements=numbers | st.sampled_from([0.0, 1.0])))


def of(X, marks=0):
    return fingerprint(X, multipliers(X.shape[1]), marks)


def marks_for(rng, n):
    return rng.integers(0, 2**32, n).astype(np.uint64)


@given(arrays(), st.data(), generators())
def test_fingerprints_of_parts_add_up(X, data, rng):
    marks = marks_for(rng, len(X))
    parts = [of(X[i:j], marks[i:j]) for i, j in pairwise(data.draw(cuts(len(X))))]
    assert sum(parts) & MASK == of(X, marks)


@given(arrays(), generators())
def test_neither_the_order_of_the_rows_nor_of_the_memory_matters(X, rng):
    order, marks = rng.permutation(len(X)), marks_for(rng, len(X))
    assert of(X[order], marks[order]) == of(X, marks)
    assert of(np.asfortranarray(X), marks) == of(X, marks)
    assert of(np.repeat(X, 2, axis=1)[:, ::2], marks) == of(X, marks)


@given(arrays())
def test_dense_and_sparse_agree_and_zeros_have_no_sign(X):
    assert of(sparse.csr_array(X)) == of(X)
    assert of(np.where(X == 0.0, -0.0, X).astype(X.dtype)) == of(X)
    n, m = X.shape
    with_zeros = sparse.csr_array((X.ravel(), np.tile(np.arange(m), n), np.arange(0, n * m + 1, m)), shape=X.shape)
    assert with_zeros.nnz == X.size
    assert of(with_zeros) == of(X)


@given(arrays(min_rows=1), generators())
def test_it_differs_if_the_last_bit_of_one_entry_does(X, rng):
    changed = X.copy()
    i, j = rng.integers(0, X.shape[0]), rng.integers(0, X.shape[1])
    changed[i, j] = np.nextafter(X[i, j], X.dtype.type(1e30))
    assert of(changed) != of(X)


@given(arrays(min_rows=1), generators())
def test_it_differs_if_one_mark_does(X, rng):
    marks = marks_for(rng, len(X))
    changed = marks.copy()
    changed[rng.integers(0, len(X))] += np.uint64(1)
    assert of(X, changed) != of(X, marks)


@given(arrays(min_rows=2), generators())
def test_it_differs_if_two_entries_change_places(X, rng):
    j = rng.integers(0, X.shape[1])
    changed = X.copy()
    changed[[0, 1], j] = X[[1, 0], j]
    assume(X[0, j] != X[1, j])
    is_the_same = {tuple(row) for row in changed[:2]} == {tuple(row) for row in X[:2]}
    assert (of(changed) == of(X)) == is_the_same


@given(arrays(min_rows=1), st.integers(0, 7))
def test_it_differs_if_a_row_comes_twice_or_goes(X, i):
    i %= len(X)
    assert of(np.concatenate([X, X[i : i + 1]])) != of(X)
    assert of(np.delete(X, i, axis=0)) != of(X)


def test_rows_of_zeros_count():
    assert len({of(np.zeros((n, 3))) for n in range(10)}) == 10


def test_multipliers_are_odd_differ_and_are_the_same_for_the_first_columns():
    many = multipliers(10_000)
    assert (many % 2 == 1).all()
    assert len(np.unique(many)) == 10_000
    assert (multipliers(100) == many[:100]).all()


# -- of files ------------------------------------------------------------------------------------------------------


def of_files(paths, **options):
    return open_data(paths, dtype=np.float64, **options).about["fingerprint"]


@pytest.mark.parametrize("kind", ["quarters", "whole"])
def test_all_formats_agree(kind, tmp_path, rng):
    data = table(rng, 300, kind=kind)
    found = {}
    for name, variant in VARIANTS.items():
        if variant.kind in (kind, "quarters"):
            written = variant.write(data, tmp_path, name)
            found[name] = of_files(written.path, columns=written.features)
    assert len(found) > 40
    assert len(set(found.values())) == 1


NAMED = {
    "csv": as_csv(),
    "parquet": as_parquet(row_group_size=50),
    "h5ad": as_h5ad(),
    "parquet elsewhere": remote(as_parquet()),
}


def with_sources(data, variant, folder, stem="data"):
    written = variant.write(data, folder, stem)
    return of_files(written.path, columns=written.features, source=SOURCE)


def test_formats_agree_on_sources_too(tmp_path, rng):
    data = table(rng, 300)
    assert len({with_sources(data, variant, tmp_path, name) for name, variant in NAMED.items()}) == 1


@pytest.mark.parametrize("threads", ["1", "3"])
def test_neither_partitions_nor_order_nor_threads_matter(threads, tmp_path, rng, monkeypatch):
    data = table(rng, 200)
    whole = with_sources(data, NAMED["csv"], tmp_path)
    monkeypatch.setenv("DBMD_NUM_THREADS", threads)
    parts = [NAMED["parquet"].write(data.rows(i, i + 50), tmp_path, f"part{i}") for i in (150, 0, 50, 100)]
    assert of_files([part.path for part in parts], columns=parts[0].features, source=SOURCE) == whole
    order = rng.permutation(200)
    shuffled = Table(data.X[order], data.sources[order], data.classes[order], data.notes)
    assert with_sources(shuffled, NAMED["h5ad"], tmp_path) == whole


@pytest.mark.parametrize("variant", NAMED)
def test_it_differs_if_one_entry_or_one_source_does_but_not_for_a_label(variant, tmp_path, rng):
    data = table(rng, 100)
    variant = NAMED[variant]
    expected = with_sources(data, variant, tmp_path, "a")
    X, sources = data.X.copy(), data.sources.copy()
    X[70, 2] += 0.25
    sources[70] = (sources[70] + 1) % 3
    assert with_sources(Table(X, data.sources, data.classes, data.notes), variant, tmp_path, "b") != expected
    assert with_sources(Table(data.X, sources, data.classes, data.notes), variant, tmp_path, "c") != expected
    written = variant.write(data, tmp_path, "a")
    labelled = of_files(written.path, columns=written.features, source=SOURCE, label=LABEL)
    assert labelled == expected
    assert of_files(written.path, columns=written.features) != expected


def test_it_differs_if_files_that_are_sources_do(tmp_path, rng):
    data = table(rng, 100)
    one = [NAMED["csv"].write(data.rows(i, j), tmp_path, name) for name, i, j in (("a", 0, 50), ("b", 50, 100))]
    expected = of_files([w.path for w in one], columns=one[0].features, source="@file")
    two = [NAMED["csv"].write(data.rows(i, j), tmp_path, name) for name, i, j in (("a", 0, 51), ("b", 51, 100))]
    assert of_files([w.path for w in two], columns=two[0].features, source="@file") != expected
    assert of_files([w.path for w in two], columns=two[0].features) == of_files(
        [w.path for w in one], columns=one[0].features
    )


def test_it_differs_if_columns_come_in_another_order_or_one_is_encoded(tmp_path, rng):
    written = NAMED["csv"].write(table(rng, 100), tmp_path, "data")
    prints = {
        of_files(written.path, columns=written.features),
        of_files(written.path, columns=written.features[::-1]),
        of_files(written.path, columns=written.features, encode=["note"]),
        of_files(written.path, columns=written.features, encode=[LABEL]),
    }
    assert len(prints) == 4
