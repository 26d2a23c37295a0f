import os
import re
from pathlib import Path

import fsspec
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.formats import open_reader
from dbmd.data.location import locate
from dbmd.data.recipe import Recipe, Selection
from dbmd.data.stream import Shard, Stream
from dbmd.errors import DataError
from tables import PLAIN, VARIANTS, dense, readers_at_work, table

N = 700


def streamed(variant, folder, data, dtype=np.float64):
    """Return the rows of a table as a stream of three shards of two files, and what they are."""
    written = [PLAIN[variant].write(part, folder, f"part{i}") for i, part in enumerate((data.rows(0, 97 * 4), data))]
    one, two = (open_reader(*locate(w.path)) for w in written)
    sources = np.array([0, 1, 2])
    recipe = Recipe(Selection(tuple(written[0].features), source=written[0].source), source_names=sources)
    shards = [Shard(one), Shard(two, 0, 97 * 2), Shard(two, 97 * 2, N)]
    if one.seekable_rows is not None and len(one.seekable_rows) == 1:
        shards = [Shard(one), Shard(two)]
    n = 97 * 4 + N
    return Stream(shards, recipe, n, np.dtype(dtype), first_row=1000)


@pytest.mark.parametrize("variant", PLAIN)
def test_chunks_cover_the_rows_of_all_shards_once(variant, tmp_path, rng):
    data = table(rng, N)
    stream = streamed(variant, tmp_path, data)
    X, sources = np.full(stream.shape, np.nan), np.full(stream.shape[0], -1)
    for chunk in stream.chunks():
        assert (sources[chunk.numbers] == -1).all()
        X[chunk.numbers], sources[chunk.numbers] = dense(chunk.Xt), chunk.source_code
    assert_array_equal(X, np.concatenate([data.X[: 97 * 4], data.X]))
    assert_array_equal(sources, np.concatenate([data.sources[: 97 * 4], data.sources]))


@pytest.mark.parametrize("variant", PLAIN)
def test_windows_follow_each_other(variant, tmp_path, rng):
    first = 0
    for window in streamed(variant, tmp_path, table(rng, N)).windows():
        assert window.first == first
        first += window.Xt.shape[0]
    assert first == 97 * 4 + N


@pytest.mark.parametrize("variant", PLAIN)
def test_what_is_taken_off_is_the_origin_or_nothing(variant, tmp_path, rng):
    stream = streamed(variant, tmp_path, table(rng, N))
    origin = np.arange(5.0)
    shift = stream.shift_for(origin)
    assert_array_equal(shift, np.zeros(5) if PLAIN[variant].sparse else origin)
    for plain, moved in zip(stream.chunks(), stream.chunks(shift), strict=True):
        assert_array_equal(dense(moved.Xt), dense(plain.Xt) - shift)
        assert_array_equal(moved.numbers, plain.numbers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("variant", PLAIN)
def test_chunks_are_of_the_type_to_compute_with(variant, dtype, tmp_path, rng):
    stream = streamed(variant, tmp_path, table(rng, N), dtype)
    assert {chunk.Xt.dtype for chunk in stream.chunks()} == {np.dtype(dtype)}


@pytest.mark.parametrize("variant", PLAIN)
def test_leaving_early_leaves_no_thread(variant, tmp_path, rng):
    stream = streamed(variant, tmp_path, table(rng, N))
    chunks = stream.chunks()
    next(chunks)
    chunks.close()
    assert readers_at_work() == []


@pytest.mark.parametrize("variant", ["csv", "row groups", "npz", "h5ad"])
def test_a_file_that_breaks_on_the_way_is_an_error_of_ours_and_leaves_no_thread(variant, tmp_path, rng):
    stream = streamed(variant, tmp_path, table(rng, N))
    path = stream.shards[-1].reader.location.local
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=path.name):
        list(stream.chunks())
    assert readers_at_work() == []


def change(path):
    """Change the last byte of a file, and with it the time of its last change."""
    if "://" in path:
        with fsspec.open(path) as file:
            data = file.read()
        with fsspec.open(path, "wb") as file:
            file.write(data[:-1] + bytes([data[-1] ^ 1]))
        return
    path = Path(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("variant", [*PLAIN, "csv elsewhere", "npy elsewhere", "h5ad elsewhere"])
def test_a_file_of_the_same_size_with_other_content_has_changed(variant, tmp_path, rng):
    written = VARIANTS[variant].write(table(rng, N), tmp_path, "data")
    reader = open_reader(*locate(written.path))
    stream = Stream([Shard(reader)], Recipe(Selection(tuple(written.features))), N, np.dtype(float))
    list(stream.chunks())
    change(written.path)
    with pytest.raises(DataError, match=f"{re.escape(written.path)}: has changed since it was opened"):
        next(stream.chunks())


def test_a_file_that_changes_while_it_is_read_has_changed(tmp_path, rng):
    written = PLAIN["npy"].write(table(rng, N), tmp_path, "data")
    shard = Shard(open_reader(*locate(written.path)))
    chunks = Stream([shard], Recipe(Selection(("0",))), N, np.dtype(float)).chunks()
    next(chunks)
    change(written.path)
    with pytest.raises(DataError, match="has changed since it was opened"):
        list(chunks)


def test_a_file_that_is_gone_has_changed(tmp_path, rng):
    written = PLAIN["npy"].write(table(rng, N), tmp_path, "data")
    reader = open_reader(*locate(written.path))
    Path(written.path).unlink()
    with pytest.raises(DataError, match="has changed since it was opened"):
        next(reader.read(0, None, ["0"]))


def test_a_copy_on_another_machine_may_be_older_but_not_shorter(tmp_path, rng, monkeypatch):
    written = PLAIN["npy"].write(table(rng, N), tmp_path, "data")
    (location,) = locate(written.path)
    here = location.stamp()
    change(written.path)
    assert not location.stamp().is_of(here)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert location.stamp().is_of(here)
    Path(written.path).write_bytes(b"")
    assert not location.stamp().is_of(here)
