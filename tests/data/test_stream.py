import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.formats import open_reader
from dbmd.data.location import locate
from dbmd.data.recipe import Recipe
from dbmd.data.stream import Shard, Stream
from dbmd.errors import DataError
from tables import PLAIN, dense, readers_at_work, table

N = 700


def streamed(variant, folder, data, dtype=np.float64):
    """Return the rows of a table as a stream of three shards of two files, and what they are."""
    written = [PLAIN[variant].write(part, folder, f"part{i}") for i, part in enumerate((data.rows(0, 97 * 4), data))]
    one, two = (open_reader(*locate(w.path)) for w in written)
    sources = np.array([0, 1, 2])
    recipe = Recipe(tuple(written[0].features), source=written[0].source, sources=sources)
    shards = [Shard(one), Shard(two, 0, 97 * 2), Shard(two, 97 * 2, N)]
    if one.cuts is not None and len(one.cuts) == 1:
        shards = [Shard(one), Shard(two)]
    n = 97 * 4 + N
    return Stream(shards, recipe, (n, 5), np.dtype(dtype), first_row=1000)


@pytest.mark.parametrize("variant", PLAIN)
def test_chunks_cover_the_rows_of_all_shards_once(variant, tmp_path, rng):
    data = table(rng, N)
    stream = streamed(variant, tmp_path, data)
    X, sources = np.full(stream.shape, np.nan), np.full(stream.shape[0], -1)
    for chunk in stream.chunks():
        assert (sources[chunk.numbers] == -1).all()
        X[chunk.numbers], sources[chunk.numbers] = dense(chunk.Xt), chunk.source
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
    taken = stream.without(origin)
    assert_array_equal(taken, np.zeros(5) if PLAIN[variant].sparse else origin)
    for plain, moved in zip(stream.chunks(), stream.chunks(taken), strict=True):
        assert_array_equal(dense(moved.Xt), dense(plain.Xt) - taken)
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
