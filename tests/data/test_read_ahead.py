"""Files that several threads read for one consumer: what one thread would read, in the same order."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal

from dbmd.data import read_ahead
from dbmd.data.read_ahead import pieces_of, windows_in_order
from dbmd.dataset import open_data
from dbmd.errors import DataError

X = np.random.default_rng(0).random((1000, 3))
NAMES = np.array(["a", "b"])[np.arange(1000) % 2]


@pytest.fixture(params=["csv", "npy", "parquet", "one parquet"])
def stream(request, tmp_path):
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "lab": NAMES, "w": np.arange(1000.0)})
    if request.param == "npy":
        np.save(tmp_path / "X.npy", X)
    elif request.param == "one parquet":
        pyarrow.parquet.write_table(table, tmp_path / "0.parquet", row_group_size=70)
    else:
        for i in range(4):
            part, path = table.slice(250 * i, 250), tmp_path / f"{i}.{request.param}"
            if request.param == "csv":
                pyarrow.csv.write_csv(part, path)
            else:
                pyarrow.parquet.write_table(part, path, row_group_size=60)
    names = {} if request.param == "npy" else {"source": "lab", "sample_weight": "w"}
    with open_data(tmp_path, memory=1, **names) as data:
        (node,) = data.nodes(1, 2)
        yield node.block


def joined(windows):
    """Return all that windows hold, in order; each must begin where the one before it ends."""
    parts, row = [], 0
    for window in windows:
        n = window.Xt.shape[0]
        assert window.first == row
        weights = np.zeros(n) if window.weights is None else window.weights
        parts.append(np.column_stack([window.Xt, np.broadcast_to(window.source_codes, n), weights]))
        row += n
    return np.concatenate(parts)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 100, 10_000])
def test_the_same_rows_in_the_same_order(stream, rows, n_threads, monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", rows * 24)
    found = joined(windows_in_order(stream, n_threads))
    assert_array_equal(found[:, :3], X)
    assert_array_equal(found, joined(stream.windows()))


def test_pieces_have_all_rows_and_are_as_small_as_the_format_allows(stream, monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 50 * 24)
    pieces = pieces_of(stream)
    assert sum(piece.n_rows for piece in pieces) == 1000
    assert_array_equal([piece.first_row for piece in pieces], np.cumsum([0, *(p.n_rows for p in pieces[:-1])]))
    most = {"csv": 250, "npy": 50, "parquet": 70}[str(stream.shards[0].reader.location).rsplit(".", 1)[1]]
    assert max(piece.n_rows for piece in pieces) <= most


def test_what_is_read_in_advance_is_bounded(stream, monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 50 * 24)
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 600 * 24)
    read = []
    object.__setattr__(stream, "on_rows", read.append)
    windows = windows_in_order(stream, 100)
    next(windows)
    before = {thread for thread in threading.enumerate() if thread.name.startswith("dbmd-read")}
    windows.close()
    assert sum(read) < 1000 or len(before) == 0
    assert not any(thread.is_alive() for thread in before)


def test_an_error_of_a_thread_is_raised_here(tmp_path, monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 1)
    table = pa.table({"x": X[:, 0], "y": X[:, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "X.parquet", row_group_size=100)
    with open_data(tmp_path, memory=1) as data:
        (node,) = data.nodes(1, 2)
        pyarrow.parquet.write_table(table.slice(0, 500), tmp_path / "X.parquet", row_group_size=50)
        with pytest.raises(DataError):
            joined(windows_in_order(node.block, 3))
