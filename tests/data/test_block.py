import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.data import Block, block
from dbmd.data.block import consecutive_rows

N, M = 203, 6

SOURCES = {
    "one for all": 3,
    "the same for each": np.full(N, 2),
    "sorted": np.repeat([0, 1, 4], [100, 3, 100]),
    "sorted downwards": np.repeat([4, 1, 0], [100, 50, 53]),
    "alternating": np.arange(N) % 3,
    "at random": np.random.default_rng(0).integers(0, 5, N),
    "long runs that come back": np.repeat([1, 0, 1, 0], [60, 60, 60, 23]),
    "a single one in between": np.where(np.arange(N) == 77, 1, 0),
    "each its own": np.arange(N),
}


def numbers(rng, n=N):
    """Return samples of which about half the entries are zero."""
    return rng.normal(size=(n, M)) * (rng.random((n, M)) < 0.5)


def memory_map(Xt, folder):
    np.save(folder / "samples.npy", Xt)
    return np.load(folder / "samples.npy", mmap_mode="r")


STORAGE = {
    "C": lambda Xt, folder: Xt,
    "F": lambda Xt, folder: np.asfortranarray(Xt),
    "every other row": lambda Xt, folder: np.repeat(Xt, 2, axis=0)[::2],
    "CSR matrix": lambda Xt, folder: sparse.csr_matrix(Xt),
    "CSR array": lambda Xt, folder: sparse.csr_array(Xt),
    "memory map": memory_map,
}


@pytest.fixture(params=[1, 7, 64, 10_000])
def chunk_rows(request, monkeypatch):
    """Let chunks have about so many rows."""
    monkeypatch.setattr(block, "MIN_ROWS", min(request.param, 16))
    monkeypatch.setattr(block, "MAX_ROWS", request.param)
    monkeypatch.setattr(block, "CHUNK_BYTES", request.param * M * 8)
    return request.param


def dense(Xt):
    return Xt.toarray() if sparse.issparse(Xt) else np.asarray(Xt)


def numbers_of(rows):
    """Return row numbers, given as a slice or an array."""
    return np.arange(N)[rows]


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("storage", STORAGE)
def test_chunks_cover_every_row_once_and_have_one_source_each(storage, sources, chunk_rows, rng, tmp_path):
    Xt = numbers(rng)
    expected = np.broadcast_to(SOURCES[sources], (N,))
    held = Block(STORAGE[storage](Xt, tmp_path), SOURCES[sources])
    chunks = list(held.chunks())
    for chunk in chunks:
        rows = numbers_of(chunk.rows)
        assert 1 <= len(rows) <= chunk_rows
        assert_array_equal(dense(chunk.Xt), Xt[rows])
        assert_array_equal(expected[rows], chunk.source_code)
    assert_array_equal(np.sort(np.concatenate([numbers_of(chunk.rows) for chunk in chunks])), np.arange(N))


@pytest.mark.parametrize("sources", SOURCES)
def test_numbers_are_the_rows_as_an_array(sources, chunk_rows, rng):
    for chunk in Block(numbers(rng), SOURCES[sources]).chunks():
        assert isinstance(chunk.numbers, np.ndarray)
        assert_array_equal(chunk.numbers, numbers_of(chunk.rows))


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("window_rows", [1, 30, 10_000])
def test_rows_are_gathered_from_a_window_of_consecutive_rows_only(window_rows, sources, chunk_rows, rng, monkeypatch):
    monkeypatch.setattr(block, "WINDOW_BYTES", window_rows * M * 8)
    n_sources = int(np.max(SOURCES[sources])) + 1
    longest = max(chunk_rows, min(window_rows, chunk_rows * n_sources))
    chunks = list(Block(numbers(rng), SOURCES[sources]).chunks())
    for chunk in chunks:
        assert np.ptp(chunk.numbers) < longest
        assert (np.diff(chunk.numbers) > 0).all()
    assert_array_equal(np.sort(np.concatenate([chunk.numbers for chunk in chunks])), np.arange(N))


@pytest.mark.parametrize("sources", SOURCES)
def test_classes_go_with_their_rows(sources, chunk_rows, rng):
    classes = rng.integers(0, 4, N)
    for chunk in Block(numbers(rng), SOURCES[sources], class_codes=classes).chunks():
        assert_array_equal(chunk.class_codes, classes[chunk.rows])


def test_without_classes_a_chunk_has_none(rng):
    assert all(chunk.class_codes is None for chunk in Block(numbers(rng), SOURCES["at random"]).chunks())


def test_chunks_come_the_same_way_in_every_pass(chunk_rows, rng):
    held = Block(numbers(rng), SOURCES["at random"])
    for first, second in zip(held.chunks(), held.chunks(), strict=True):
        assert_array_equal(first.numbers, second.numbers)
        assert first.source_code == second.source_code
        assert_array_equal(first.Xt, second.Xt)


@pytest.mark.parametrize("sources", [0, np.zeros(0, int)], ids=["int", "array"])
@pytest.mark.parametrize("storage", STORAGE)
def test_a_block_without_samples_has_no_chunks(storage, sources, rng, tmp_path):
    held = Block(STORAGE[storage](numbers(rng, 0), tmp_path), sources)
    assert list(held.chunks()) == []
    assert held.shape == (0, M)


@pytest.mark.parametrize("sources", [5, np.array([5])], ids=["int", "array"])
@pytest.mark.parametrize("storage", STORAGE)
def test_a_block_of_one_sample_has_one_chunk(storage, sources, rng, tmp_path):
    Xt = numbers(rng, 1)
    (chunk,) = Block(STORAGE[storage](Xt, tmp_path), sources).chunks()
    assert chunk.source_code == 5
    assert_array_equal(dense(chunk.Xt), Xt)


def test_alternating_sources_do_not_make_small_chunks(rng):
    n = 4 * block.MIN_ROWS
    sizes = [chunk.Xt.shape[0] for chunk in Block(rng.normal(size=(n, 2)), np.arange(n) % 2).chunks()]
    assert min(sizes) >= block.MIN_ROWS


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_is_that_of_the_data(storage, dtype, rng, tmp_path):
    held = Block(STORAGE[storage](numbers(rng).astype(dtype), tmp_path))
    assert held.dtype == dtype
    assert {chunk.Xt.dtype for chunk in held.chunks()} == {np.dtype(dtype)}


NARROW = {
    "bool": np.float32,
    "int8": np.float32,
    "uint8": np.float32,
    "int16": np.float32,
    "uint16": np.float32,
    "float16": np.float32,
    "int32": np.float64,
    "uint32": np.float64,
    "int64": np.float64,
    ">f4": np.float32,
    ">f8": np.float64,
    ">i2": np.float32,
}


@pytest.mark.parametrize("sources", ["one for all", "alternating"])
@pytest.mark.parametrize("stored", NARROW)
def test_other_types_stay_as_they_are_and_chunks_are_of_the_least_type_that_holds_them(
    stored, sources, chunk_rows, rng
):
    Xt = rng.integers(0, 2, (N, M)).astype(stored)
    held = Block(Xt, SOURCES[sources])
    assert held.Xt is Xt
    assert held.dtype == NARROW[stored]
    for shift in (None, np.arange(M) / 2.0):
        for chunk in held.chunks(shift):
            assert chunk.Xt.dtype == NARROW[stored]
            assert chunk.Xt.dtype.isnative
            assert_array_equal(chunk.Xt, Xt[chunk.rows].astype(float) - (0.0 if shift is None else shift))


@pytest.mark.parametrize("stored", ["bool", "int8", "int32", "float32"])
def test_sparse_entries_of_other_types_are_converted_chunk_by_chunk(stored, chunk_rows, rng):
    Xt = sparse.csr_array(rng.integers(0, 2, (N, M)).astype(stored))
    held = Block(Xt, SOURCES["alternating"])
    for chunk in held.chunks():
        assert chunk.Xt.dtype == held.dtype == (np.float64 if stored == "int32" else np.float32)
        assert_array_equal(dense(chunk.Xt), dense(Xt)[chunk.rows])


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_to_compute_with_may_be_asked_for(storage, dtype, rng, tmp_path):
    Xt = numbers(rng).astype(np.float32)
    held = Block(STORAGE[storage](Xt, tmp_path), 0, as_type=np.dtype(dtype))
    assert held.dtype == dtype
    for chunk in held.chunks(held.shift_for(np.ones(M))):
        assert chunk.Xt.dtype == dtype


@pytest.mark.parametrize("storage", STORAGE)
def test_what_is_taken_off_is_the_origin_or_nothing(storage, chunk_rows, rng, tmp_path):
    Xt, origin = numbers(rng), rng.normal(size=M)
    held = Block(STORAGE[storage](Xt, tmp_path), SOURCES["at random"])
    shift = held.shift_for(origin)
    assert_array_equal(shift, np.zeros(M) if "CSR" in storage else origin)
    for chunk in held.chunks(shift):
        assert_array_equal(dense(chunk.Xt), Xt[chunk.rows] - shift)


@pytest.mark.parametrize("storage", ["C", "memory map"])
def test_chunks_of_consecutive_dense_rows_are_views(storage, chunk_rows, rng, tmp_path):
    Xt = STORAGE[storage](numbers(rng), tmp_path)
    for chunk in Block(Xt, 0).chunks():
        assert np.shares_memory(chunk.Xt, Xt)


@pytest.mark.parametrize("storage", ["CSR matrix", "CSR array"])
def test_chunks_of_consecutive_sparse_rows_are_views(storage, chunk_rows, rng, tmp_path):
    Xt = STORAGE[storage](numbers(rng), tmp_path)
    for chunk in Block(Xt, SOURCES["one for all"]).chunks():
        if chunk.Xt.nnz:
            assert np.shares_memory(chunk.Xt.data, Xt.data)
            assert np.shares_memory(chunk.Xt.indices, Xt.indices)


@pytest.mark.parametrize("shift", [None, np.ones(M)], ids=["as they are", "less a vector"])
@pytest.mark.parametrize(("storage", "order"), [("C", "C"), ("memory map", "C"), ("F", "F")])
def test_dense_chunks_keep_the_order_of_the_array(storage, order, shift, rng, tmp_path):
    """BLAS takes either, as long as one of the two strides is that of an entry."""
    (chunk,) = Block(STORAGE[storage](numbers(rng), tmp_path), 0).chunks(shift)
    assert chunk.Xt.strides[0 if order == "F" else 1] == chunk.Xt.itemsize


@pytest.mark.parametrize("storage", STORAGE)
def test_chunks_take_part_in_the_two_products(storage, chunk_rows, rng, tmp_path):
    Xt, W = numbers(rng), rng.normal(size=(M, 3))
    total = np.zeros((3, M))
    for chunk in Block(STORAGE[storage](Xt, tmp_path), SOURCES["at random"]).chunks():
        Ht = chunk.Xt @ W
        assert isinstance(Ht, np.ndarray)
        total += Ht.T @ chunk.Xt
    assert_allclose(total, (Xt @ W).T @ Xt, rtol=1e-10)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize(("start", "stop"), [(0, N), (0, 0), (5, 5), (5, 100), (N - 1, N)])
def test_consecutive_rows_are_those_of_a_slice(storage, start, stop, rng, tmp_path):
    Xt = numbers(rng)
    assert_array_equal(dense(consecutive_rows(STORAGE[storage](Xt, tmp_path), start, stop)), Xt[start:stop])
