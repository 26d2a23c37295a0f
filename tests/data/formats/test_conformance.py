"""What every format must do, whatever the file looks like inside."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.formats import _reader, csv, format_of, h5ad, npz, open_reader, parquet, suffixes
from dbmd.data.location import locate
from dbmd.registry import load, names
from profiles import examples
from tables import VARIANTS, Written, dense, table

N = 700
BOUND = 1024  # bytes of a batch, where batches are made small


class Opened:
    """A table in a file, and a reader of it."""

    def __init__(self, name, folder):
        self.variant = VARIANTS[name]
        self.table = table(np.random.default_rng(0), N, kind=self.variant.kind)
        self.written: Written = self.variant.write(self.table, folder, "data")
        (self.location,) = locate(self.written.path)

    def reader(self):
        return open_reader(self.location)

    def column(self, name):
        return self.table.X[:, self.written.features.index(name)]


@pytest.fixture(scope="module", params=VARIANTS)
def opened(request, tmp_path_factory):
    return Opened(request.param, tmp_path_factory.mktemp("table"))


@pytest.fixture
def small_batches(monkeypatch):
    for module in (_reader, npz, h5ad):
        monkeypatch.setattr(module, "BATCH_BYTES", BOUND)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 0)
    monkeypatch.setattr(csv, "BLOCK_BYTES", 2 * BOUND)


def everything(batches):
    """Return what batches hold, one below the other, as dense numbers; and the columns beside them, as lists."""
    batches = list(batches)
    assert all(batch.Xt.shape[0] for batch in batches)
    others = {name: [v for batch in batches for v in batch.others[name].to_pylist()] for name in batches[0].others}
    return np.concatenate([dense(batch.Xt) for batch in batches]), others


def same(value, expected):
    """Return whether a value, perhaps as text, is equal to a number."""
    return float(value) == expected


def test_every_format_is_under_test():
    assert {variant.format for variant in VARIANTS.values()} == set(names("data.formats"))


def test_endings_are_in_lower_case_and_belong_to_one_format():
    endings = [suffix for name in names("data.formats") for suffix in load("data.formats", name).SUFFIXES]
    assert len(endings) == len(set(endings)) == len(suffixes())
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in endings)


def test_the_format_is_found_by_the_ending(opened):
    assert format_of(opened.location) == opened.variant.format


def test_the_columns_are_there_with_types_that_hold_them(opened):
    reader = opened.reader()
    known = [*reader.columns, *reader.annotations]
    written = opened.written
    for name in [*written.features, written.source, written.label]:
        assert name in known
    assert [name for name in reader.columns if name in written.features] == written.features
    for name in written.features:
        assert_array_equal(opened.column(name).astype(reader.columns[name]), opened.column(name))
    if written.note is not None:
        assert reader.columns.get(written.note) is None


def test_the_number_of_rows_is_known_or_said_not_to_be(opened):
    reader = opened.reader()
    assert reader.n_rows in (N, None)
    assert reader.n_rows == N or list(reader.seekable_rows) == [0]


def test_batches_one_below_the_other_are_the_table(opened):
    reader, written = opened.reader(), opened.written
    found, _ = everything(reader.read(0, None, written.features))
    assert_array_equal(found, opened.table.X)


def test_sparse_batches_are_csr_and_others_are_not(opened):
    reader = opened.reader()
    assert reader.sparse == opened.variant.sparse
    for batch in reader.read(0, None, opened.written.features):
        assert sparse.issparse(batch.Xt) == reader.sparse
        assert not reader.sparse or batch.Xt.format == "csr"


def test_small_batches_are_bounded_and_one_below_the_other_the_table(opened, small_batches):
    reader, written = opened.reader(), opened.written
    batches = list(reader.read(0, None, written.features, [written.source]))
    found, others = everything(batches)
    assert_array_equal(found, opened.table.X)
    assert all(map(same, others[written.source], opened.table.sources))
    for batch in batches:
        # A batch has at least 256 rows.
        held = batch.Xt.data.nbytes + batch.Xt.indices.nbytes if reader.sparse else batch.Xt.nbytes
        assert held <= BOUND or batch.Xt.shape[0] <= 256
    assert len(batches) > 1


def test_only_what_can_be_mapped_needs_no_thread_of_its_own(opened):
    can_be_mapped = opened.variant.format not in ("csv", "parquet", "npz", "h5ad") and opened.location.local is not None
    assert opened.reader().decodes or can_be_mapped


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_local_array_is_not_read_but_mapped(order, small_batches, tmp_path, rng):
    X = np.asarray(rng.normal(size=(N, 5)), order=order)
    np.save(tmp_path / "data.npy", X)
    reader = open_reader(*locate(tmp_path / "data.npy"))
    assert not reader.decodes
    batches = list(reader.read(10, 600, list(reader.columns)))
    assert_array_equal(np.concatenate([batch.Xt for batch in batches]), X[10:600])
    for batch in batches:
        assert not batch.Xt.flags.owndata
        assert not batch.Xt.flags.writeable


@examples(usual=5, thorough=15)
@given(data=st.data())
def test_reading_may_start_and_stop_at_any_cut(opened, data):
    reader, features = opened.reader(), opened.written.features
    possible = range(N) if reader.seekable_rows is None else list(reader.seekable_rows)
    inner = data.draw(st.lists(st.sampled_from(possible), max_size=4, unique=True), "cuts")
    edges = [*sorted({0, *inner}), N]
    if reader.n_rows is None:
        edges[-1] = None
    others = [opened.written.source]
    parts = [everything(reader.read(start, stop, features, others)) for start, stop in pairwise(edges)]
    assert_array_equal(np.concatenate([X for X, _ in parts]), opened.table.X)
    assert all(map(same, [v for _, columns in parts for v in columns[others[0]]], opened.table.sources))
    for (start, stop), (X, _) in zip(pairwise(edges), parts, strict=True):
        assert len(X) == (N if stop is None else stop) - start


@examples(usual=5, thorough=15)
@given(data=st.data())
def test_columns_come_in_the_order_asked_for(opened, data):
    reader, written = opened.reader(), opened.written
    order = data.draw(st.permutations(written.features), "order")
    wanted = order[: data.draw(st.integers(0, len(order)), "how many")]
    beside = data.draw(st.lists(st.sampled_from([written.source, written.label]), unique=True), "others")
    rest = [name for name in order if name not in wanted]
    beside += rest[: data.draw(st.integers(0, 1), "a feature beside them")]
    if not wanted and not beside:
        return
    X, others = everything(reader.read(0, None, wanted, beside))
    assert X.shape == (N, len(wanted))
    for j, name in enumerate(wanted):
        assert_array_equal(X[:, j], opened.column(name))
    known = {written.source: opened.table.sources, written.label: opened.table.classes}
    assert list(others) == beside
    for name, values in others.items():
        expected = known[name] if name in known else opened.column(name)
        assert all(map(same, values, expected))


def test_text_beside_the_numbers_is_as_it_was_written(opened):
    if opened.written.note is None:
        assert all(dtype is not None for dtype in opened.reader().columns.values())  # it holds numbers alone
        return
    _, others = everything(opened.reader().read(0, None, opened.written.features[:1], [opened.written.note]))
    found = others[opened.written.note]
    assert len(found) == N
    for text, expected in zip(found, opened.table.notes, strict=True):
        assert text.startswith(expected)
    assert len(set(found)) == len(set(opened.table.notes))


def test_reading_again_gives_the_same_even_while_the_first_is_not_done(opened, small_batches):
    reader, features = opened.reader(), opened.written.features
    first, second = reader.read(0, None, features), reader.read(0, None, features)
    for one, other in zip(first, second, strict=True):
        assert_array_equal(dense(one.Xt), dense(other.Xt))


def test_what_is_read_stays_as_it_is_when_reading_goes_on(opened, small_batches):
    reader, features = opened.reader(), opened.written.features
    copies, batches = [], []
    for batch in reader.read(0, None, features):
        batches.append(batch)
        copies.append(dense(batch.Xt).copy())
    for batch, copy in zip(batches, copies, strict=True):
        assert_array_equal(dense(batch.Xt), copy)


def test_numbers_keep_their_type(opened):
    """Narrow types are read as such; only text has none, and decimals have none that NumPy knows."""
    reader = opened.reader()
    (kind,) = {reader.columns[name] for name in opened.written.features}
    for batch in reader.read(0, None, opened.written.features):
        assert batch.Xt.dtype == kind


def test_rows_are_found_by_numbers_that_rise(opened):
    reader = opened.reader()
    lines = [int(reader.where(row).split()[1]) for row in range(10)]
    assert lines[0] in (1, 2, 3)
    assert len(set(np.diff(lines))) == 1
    assert lines[1] > lines[0]


def test_the_location_can_be_sent_elsewhere(opened):
    again = pickle.loads(pickle.dumps(opened.location))
    assert str(again) == str(opened.location)
    X, _ = everything(open_reader(again).read(0, None, opened.written.features))
    assert_array_equal(X, opened.table.X)


def test_a_name_that_occurs_twice_is_found_however_many_there_are():
    names = [str(i) for i in range(300_000)]
    assert _reader.first_twice(names) is None
    assert _reader.first_twice([*names, "7", "299999"]) == "7"


def test_columns_without_names_are_called_by_their_numbers():
    columns = _reader.NumberedColumns(12, np.dtype(np.float32))
    assert dict(columns) == dict.fromkeys(map(str, range(12)), np.dtype(np.float32))
    for name in ("12", "-1", "01", "1.0", "x", "", "٣"):
        assert name not in columns
    assert len(_reader.NumberedColumns(10**15, np.dtype(np.float32))) == 10**15  # and no name was made
