"""Memberships piece by piece: in order, and the same however the pieces are cut."""

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from threadpoolctl import OpenBLASController, threadpool_limits

import dbmd
from dbmd import memberships as module
from dbmd._utils.threads import one_blas_thread
from dbmd.data.block import Window
from dbmd.errors import DataError
from dbmd.memberships import MembershipModel, iter_memberships
from dbmd.spark.projector import Projector
from engines.asked import blas_threads


@pytest.fixture
def problem(rng):
    """Samples, a basis, and noise levels of two sources."""
    W = rng.normal(size=(5, 3)) * 3
    X = rng.dirichlet(np.full(3, 0.5), 500) @ W.T + rng.normal(size=(500, 5)) / 3
    return X, W, np.array([0.1, 1.0])


def opened(X, folder, *, dtype=None, rows=77):
    columns = {"id": np.arange(len(X)), "lab": np.arange(len(X)) % 2, **{f"x{i}": x for i, x in enumerate(X.T)}}
    pq.write_table(pa.table(columns), folder / "data.parquet", row_group_size=rows)
    names = [f"x{i}" for i in range(X.shape[1])]
    data = dbmd.open_data(folder / "data.parquet", columns=names, source="lab", keep=["id"], dtype=dtype)
    return data.nodes(1, 1)[0].block


def collected(pieces):
    windows, parts, brightness = zip(*pieces, strict=True)
    assert all((each == 1.0).all() for each in brightness)
    ids = np.concatenate([window.extra["id"].to_numpy() for window in windows])
    return np.concatenate(parts), ids, [len(part) for part in parts]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 10, 64, 1000])
def test_pieces_come_in_order_and_do_not_depend_on_how_they_are_cut(
    rows, n_threads, dtype, problem, tmp_path, monkeypatch
):
    X, W, sigma2 = problem
    block = opened(X, tmp_path, dtype=dtype)
    whole, _, _ = collected(iter_memberships(block, MembershipModel.plain(W, sigma2, np.full(3, 0.5)), n_threads=1))
    monkeypatch.setattr(module, "MAX_ROWS", rows)
    H, ids, sizes = collected(
        iter_memberships(block, MembershipModel.plain(W, sigma2, np.full(3, 0.5)), n_threads=n_threads)
    )
    assert ids.tolist() == list(range(500))
    assert max(sizes) <= rows
    assert H.dtype == dtype
    # Products of other shapes are rounded otherwise.
    np.testing.assert_allclose(H, whole, atol=1e-5 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(H.sum(axis=1), 1.0, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_a_slow_piece_is_waited_for(problem, tmp_path, monkeypatch):
    X, W, sigma2 = problem
    block = opened(X, tmp_path)
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    chunks = Window.chunks

    def slow_at_first(self, *arguments):
        if self.extra["id"][0].as_py() == 0:
            time.sleep(0.1)
        return chunks(self, *arguments)

    monkeypatch.setattr(Window, "chunks", slow_at_first)
    _, ids, _ = collected(iter_memberships(block, MembershipModel.plain(W, sigma2, np.zeros(3)), n_threads=4))
    assert ids.tolist() == list(range(500))


def test_only_a_few_pieces_are_in_work(problem, tmp_path, monkeypatch):
    X, W, sigma2 = problem
    block = opened(X, tmp_path, rows=20)
    monkeypatch.setattr(module, "MAX_ROWS", 20)
    read = []
    windows = type(block).windows

    def counted(self):
        for window in windows(self):
            read.append(window)
            yield window

    monkeypatch.setattr(type(block), "windows", counted)
    pieces = iter_memberships(block, MembershipModel.plain(W, sigma2, np.zeros(3)), n_threads=2)
    next(pieces)
    assert len(read) <= 2 * 2 + 2
    pieces.close()
    assert len(read) < 25


def test_blas_has_its_threads_back_while_no_piece_is_in_work(problem, tmp_path, monkeypatch):
    X, W, sigma2 = problem
    block = opened(X, tmp_path, rows=20)
    monkeypatch.setattr(module, "MAX_ROWS", 20)
    with threadpool_limits(2, user_api="blas"):
        allowed, seen = blas_threads(), []
        assert 2 in allowed.values()
        getattr(OpenBLASController, "clear_controlling_thread", str)()  # from 3.7 on, others could not limit it
        monkeypatch.setattr(
            Window, "chunks", lambda *args, own=Window.chunks: seen.append(blas_threads()) or own(*args)
        )
        pieces = iter_memberships(block, MembershipModel.plain(W, sigma2, np.zeros(3)), n_threads=2)
        next(pieces)
        deadline = time.monotonic() + 30.0  # some are still in work
        while blas_threads() != allowed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert blas_threads() == allowed
        assert {n for each in seen for n in each.values()} == {1}
        # Another thread may be the one that throws the rest away.
        thread = threading.Thread(target=pieces.close)
        thread.start()
        thread.join()
        with one_blas_thread():
            assert set(blas_threads().values()) == {1}
        assert blas_threads() == allowed


def test_what_goes_wrong_in_a_thread_is_raised_here(problem, tmp_path, monkeypatch):
    X, W, sigma2 = problem

    def fail(self, *arguments):
        raise OSError("the disk is gone")

    monkeypatch.setattr(Window, "chunks", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        list(iter_memberships(opened(X, tmp_path), MembershipModel.plain(W, sigma2, np.zeros(3)), n_threads=2))


def test_sparse_data_give_what_dense_ones_give(problem, tmp_path):
    X, W, _ = problem
    X = np.where(abs(X) < 1, 0.0, X)
    sparse.save_npz(tmp_path / "data.npz", sparse.csr_matrix(X))
    np.save(tmp_path / "data.npy", X)
    found = []
    for name in ("data.npz", "data.npy"):
        block = dbmd.open_data(tmp_path / name).nodes(1, 1)[0].block
        pieces = iter_memberships(block, MembershipModel.plain(W, np.ones(1), np.zeros(3)), n_threads=2)
        found.append(np.concatenate([Ht for _, Ht, _ in pieces]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)


def projector_of(W, sigma2, names):
    model = MembershipModel.plain(W, sigma2, np.ones(W.shape[1]))
    return Projector(model, None, "x", source="s", source_names=names)


@pytest.mark.parametrize("sparse_below", [0.0, 0.5])
def test_a_projector_finds_the_memberships_of_columns_of_arrow(sparse_below, rng):
    X = np.where(rng.random((40, 5)) < sparse_below, 0.0, rng.normal(size=(40, 5)))
    names = np.array(["a", "b"])[rng.integers(0, 2, 40)]
    model = dbmd.DBMD(3, inference="map", alpha=2.0, random_state=0).fit(X, source=names)
    projector = projector_of(model.components_.T.astype(float), model.noise_variance_, model.sources_)
    found = projector(pa.array(X.tolist()), pa.array(names.tolist()))
    assert_allclose(np.array(found.to_pylist())[:, :3], model.transform(X, source=names), atol=1e-12)
    # Batches of any size, down to none, give the same.
    part = projector(pa.array(X[:1].tolist()), pa.array(names[:1].tolist()))
    assert_allclose(np.array(part.to_pylist())[:, :3], model.transform(X, source=names)[:1], atol=1e-12)
    empty = pa.array([], pa.list_(pa.float64()))
    assert len(projector(empty, pa.array([], pa.string()))) == 0


def test_a_projector_takes_text_for_whole_numbers_as_files_are_read():
    projector = projector_of(np.eye(2), np.array([1.0, 9.0]), np.array([3, 10]))
    rows = pa.array([[1.0, 0.0]] * 3)
    text, whole = projector(rows, pa.array(["10", "3", "10"])), projector(rows, pa.array([10, 3, 10]))
    assert text == whole
    assert text[0] == text[2] != text[1]


def test_a_projector_names_what_is_wrong():
    projector = projector_of(np.eye(2), np.ones(2), np.array(["a", "b"]))
    with pytest.raises(DataError, match=r"column 's' has the source 'c', which the model does not know.*'a', 'b'\."):
        projector(pa.array([[1.0, 2.0]] * 2), pa.array(["a", "c"]))
    with pytest.raises(DataError, match="column 's' is empty"):
        projector(pa.array([[1.0, 2.0]] * 2), pa.array(["a", None]))
    with pytest.raises(DataError, match="vectors of size 3, the model has 2 features"):
        projector(pa.array([[1.0, 2.0, 3.0]]), pa.array(["a"]))
    with pytest.raises(DataError, match="a vector with inf at place 1"):
        projector(pa.array([[1.0, np.inf]]), pa.array(["a"]))
    with pytest.raises(DataError, match=r"row 2 of the batch, column 'x' is empty"):
        projector(pa.array([[1.0, 2.0], None]), pa.array(["a", "a"]))
