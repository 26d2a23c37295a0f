"""Samples on a device, kept there or streamed: every row is seen once, with what belongs to it, beside its source.

On a machine without a GPU, the stand-in raises an error if a buffer is used before it was waited for.
"""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd._utils.arrays import is_here, to_host
from dbmd.data.block import Block, Samples, Window
from dbmd.engines import _gpu_device, _gpu_resident, _gpu_streams, gpu
from dbmd.engines._runs import ROWS
from dbmd.kernels import _cuda
from dbmd.model.node import Node
from device import standin_cuda
from device.found import clear_caches, has_device
from device.standin import installed

stands_in = pytest.mark.skipif(has_device(), reason="the memory of a real device is not the test's")
KINDS = ["kept", "streamed", "pinned", "read", "given"]


@contextmanager
def some_device(**machine):
    """Provide CuPy or its stand-in: what the fixture does, for tests with many examples."""
    clear_caches()
    if has_device():
        import cupy

        yield cupy
    else:
        with installed(**machine) as cupy:
            yield cupy
    clear_caches()


class InWindows(Samples):
    """Samples that are read in windows of given sizes, as files are."""

    def __init__(self, block, edges):
        self.block, self.edges, self.first_row = block, edges, block.first_row

    shape = property(lambda self: self.block.shape)
    dtype = property(lambda self: self.block.dtype)
    is_sparse = property(lambda self: self.block.is_sparse)

    def windows(self):
        block = self.block
        for i, j in zip(self.edges[:-1], self.edges[1:], strict=True):
            yield Window(
                i,
                block.Xt[i:j],
                block.source_codes if isinstance(block.source_codes, int) else block.source_codes[i:j],
                None if block.class_codes is None else block.class_codes[i:j],
                weights=None if block.weights is None else block.weights[i:j],
            )


@st.composite
def blocks(draw):
    """Draw a block: dense of some type and memory order, or CSR; sources that alternate, or come in runs, or one."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.sampled_from([0, 1, 7, 300, ROWS - 1, ROWS, 2 * ROWS + 5])), draw(st.integers(1, 3))
    dtype = np.dtype(draw(st.sampled_from(["uint8", "int16", "float32", "float64", ">f4", "bool"])))
    Xt = rng.integers(0, 2 if dtype.kind == "b" else 100, (n, m)).astype(dtype)
    how = draw(st.sampled_from(["by rows", "by columns", "every second", "CSR"]))
    if how == "by columns":
        Xt = np.asfortranarray(Xt)
    elif how == "every second":
        Xt = np.repeat(Xt, 2, axis=0)[::2]
    elif how == "CSR":
        Xt = sparse.csr_array((Xt * rng.integers(0, 2, (n, m))).astype(np.float32))
    n_sources = draw(st.integers(1, 4))
    codes = {
        "one": 2,
        "alternating": rng.integers(0, n_sources, n),
        "sorted": np.sort(rng.integers(0, n_sources, n)),
        "runs": (np.arange(n) // max(n // 3, 1) + 1) % 3,
    }[draw(st.sampled_from(["one", "alternating", "sorted", "runs"]))]
    return Block(
        Xt,
        codes,
        first_row=draw(st.sampled_from([0, 1000])),
        as_type=None if how == "CSR" else np.dtype(draw(st.sampled_from([np.float32, np.float64]))),
        class_codes=rng.integers(0, 5, n) if draw(st.booleans()) else None,
        weights=rng.random(n) if draw(st.booleans()) else None,
    )


def dense(Xt):
    Xt = Xt.get() if hasattr(Xt, "get") else Xt
    return Xt.toarray() if sparse.issparse(Xt) else np.asarray(Xt)


def on_device(kind, block, cupy, device, monkeypatch=None):
    """Return a block as samples on a device, in one of the ways there are."""
    if kind == "given":
        from cupyx.scipy.sparse import csr_matrix

        native = block.Xt if block.is_sparse else np.asarray(block.Xt, block.Xt.dtype.newbyteorder("="))
        there = csr_matrix(block.Xt) if block.is_sparse else cupy.asarray(native)
        return _gpu_resident.on_device(
            Block(there, block.source_codes, block.first_row, block.dtype, block.class_codes, block.weights),
            device,
            0.0,
        )
    if kind == "read":
        n = block.shape[0]
        return _gpu_resident.on_device(InWindows(block, sorted({0, n // 3, n // 2, n})), device, 0.0)
    return _gpu_resident.on_device(block, device, np.inf if kind == "kept" else 0.0)


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_seen_once_with_all_that_belongs_to_it(kind, data):
    block, shift = data.draw(blocks()), data.draw(st.booleans())
    chunk_bytes = data.draw(st.sampled_from([1, 30_000, 10**9]))
    with some_device() as cupy, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gpu_streams, "REGISTER_BYTES", 0 if kind == "pinned" else 1 << 60)
        patch.setattr(_gpu_device, "PIECE_BYTES", 1000)
        patch.setattr(_gpu_device, "PINNED_BYTES", 20_000)
        device = _gpu_device.Device(0)
        try:
            device.run(lambda: check(on_device(kind, block, cupy, device), block, shift, chunk_bytes))
        finally:
            device.close(wait=True)


def check(samples, block, has_shift, chunk_bytes):
    object.__setattr__(samples, "chunk_bytes", chunk_bytes)
    n, m = block.shape
    assert (samples.shape, samples.dtype, samples.first_row) == ((n, m), block.dtype, block.first_row)
    assert (samples.kernel, samples.is_sparse) == ("gpu", block.is_sparse)
    first = np.linspace(1.0, 2.0, m) if has_shift and not block.is_sparse else None
    codes = np.broadcast_to(block.source_codes, n)
    for shift in (first, first, None if first is None else 2.0 * first, first):  # what is kept is used again, or not
        expected = dense(block.Xt).astype(block.dtype) - (0 if shift is None else shift.astype(block.dtype))
        seen = np.zeros(n, int)
        for chunk in samples.chunks(shift):
            assert not is_here(chunk.Xt)
            assert chunk.Xt.dtype == block.dtype
            rows = chunk.rows if isinstance(chunk.rows, slice) else to_host(chunk.rows)
            seen[rows] += 1
            assert (codes[rows] == chunk.source_code).all()
            assert_allclose(dense(chunk.Xt), expected[rows], rtol=1e-6)
            assert (chunk.class_codes is None) == (block.class_codes is None)
            assert (chunk.weights is None) == (block.weights is None)
            if chunk.class_codes is not None:
                assert_array_equal(to_host(chunk.class_codes), block.class_codes[rows])
            if chunk.weights is not None:
                assert not is_here(chunk.weights)
                assert_array_equal(to_host(chunk.weights), block.weights[rows])
            assert_array_equal(to_host(chunk.numbers), np.arange(n)[rows])
        assert_array_equal(seen, 1)


@given(data=st.data())
@pytest.mark.parametrize("kind", ["kept", "streamed", "pinned", "given"])
def test_chunks_begin_where_sums_may_be_cut(kind, data):
    # Counted from the first row of the source: however large chunks are, runs of ROWS rows stay together.
    n, n_sources = 4 * ROWS + 11, data.draw(st.integers(1, 3))
    codes = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, n_sources, n)
    if data.draw(st.booleans()):
        codes = np.sort(codes)
    block = Block(np.arange(float(n))[:, None], codes)
    chunk_bytes = data.draw(st.sampled_from([8 * ROWS, 20 * ROWS, 10**9]))
    with some_device() as cupy, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gpu_streams, "REGISTER_BYTES", 0 if kind == "pinned" else 1 << 60)
        device = _gpu_device.Device(0)

        def look():
            samples = on_device(kind, block, cupy, device)
            object.__setattr__(samples, "chunk_bytes", chunk_bytes)
            seen = dict.fromkeys(range(n_sources), 0)
            for chunk in samples.chunks():
                assert seen[chunk.source_code] % ROWS == 0
                own = np.flatnonzero(codes == chunk.source_code)
                seen[chunk.source_code] += chunk.Xt.shape[0]
                assert_array_equal(
                    to_host(chunk.numbers), own[seen[chunk.source_code] - chunk.Xt.shape[0] :][: len(chunk.Xt)]
                )

        try:
            device.run(look)
        finally:
            device.close(wait=True)


@stands_in
def test_narrow_types_take_less_memory(device):
    engine = gpu.Engine([Node("a", Block(np.zeros((100_000, 10), np.uint8)))])
    assert 1_000_000 <= standin_cuda.machine.pool(0).used <= 1_010_000
    engine.close()


@stands_in
@pytest.mark.parametrize(("memory", "is_kept"), [(4_000_000, True), (1_000_000, False)])
def test_samples_are_kept_as_passes_take_them_if_there_is_room(device, memory, is_kept):
    standin_cuda.machine.memory = memory
    with gpu.Engine([Node("a", Block(np.ones((10_000, 10), np.float32)))]) as engine:
        first, second = (engine.ask(where_shifted) for _ in range(2))
        assert (engine.nodes[0].block.ready.Xt is not None) == is_kept
    assert first == second or not is_kept


def where_shifted(node):
    """Node: send the addresses of its chunks, from which something is subtracted."""
    return node, [chunk.Xt.data.ptr for chunk in node.samples.chunks(np.ones(10))]


@stands_in
def test_what_is_too_large_is_streamed_and_small_files_that_are_mapped_are_not(device, tmp_path):
    large = np.ones((20_000, 10))
    np.save(tmp_path / "X.npy", large)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    standin_cuda.machine.memory = 2_000_000
    nodes = [Node("map", Block(mapped[10:])), Node("large", Block(large)), Node("small", Block(mapped[:5000]))]
    with gpu.Engine(nodes) as engine:
        kinds = [type(node.block) for node in engine.nodes]
    assert kinds == [_gpu_streams.Streamed, _gpu_streams.StreamedBlock, _gpu_resident.Resident]


@stands_in
def test_closing_gives_back_the_memory_of_the_device(device):
    machine = standin_cuda.machine
    block = Block(np.ones((100_000, 10)), weights=np.ones(100_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gpu_streams, "REGISTER_BYTES", 0)
        for budget in ("1e9", "0"):
            patch.setenv("DBMD_GPU_MEMORY", budget)
            for memory in (standin_cuda.MEMORY, 64 << 20):  # of which a part may be kept for the next fit
                machine.memory, machine.pool(0).kept = memory, 0
                with gpu.Engine([Node("a", block)]) as engine:
                    engine.ask(total)
                    assert machine.pool(0).used > 0
                assert (machine.pool(0).used, machine.registered) == (0, {})
                assert machine.pool(0).kept <= memory / 64


def total(node):
    """Node: send the sum of all entries, each source by itself."""
    return node, sum(float(chunk.Xt.sum()) for chunk in node.samples.chunks())


@stands_in
@pytest.mark.parametrize("can_register", [True, False])
def test_memory_that_cannot_be_pinned_is_copied(device, can_register, monkeypatch):
    standin_cuda.machine.can_register = can_register
    monkeypatch.setattr(_gpu_streams, "REGISTER_BYTES", 0)
    monkeypatch.setenv("DBMD_GPU_MEMORY", "0")
    with gpu.Engine([Node("a", Block(np.ones((1000, 10))))]) as engine:
        assert engine.nodes[0].block.is_pinned == can_register
        assert engine.ask(total) == 10_000.0


@stands_in
@pytest.mark.parametrize("budget", ["0", "1e9"])
def test_without_pinned_memory_any_memory_is_copied_from(device, budget, monkeypatch):
    standin_cuda.machine.can_pin = False
    monkeypatch.setattr(_gpu_device, "PIECE_BYTES", 1000)
    monkeypatch.setenv("DBMD_GPU_MEMORY", budget)
    Xt = np.arange(10_000.0).reshape(1000, 10)
    with gpu.Engine([Node("a", Block(Xt)), Node("b", Block(Xt, np.arange(1000) % 2))]) as engine:
        assert engine.ask(total) == 2 * Xt.sum()


@stands_in
def test_nodes_of_one_array_share_what_is_pinned(device, monkeypatch):
    monkeypatch.setattr(_gpu_streams, "REGISTER_BYTES", 0)
    monkeypatch.setenv("DBMD_GPU_MEMORY", "0")
    standin_cuda.machine.n_devices = 2
    Xt = np.ones((1001, 10))
    nodes = [Node(str(i), Block(Xt[i : i + 250])) for i in range(0, 1000, 250)]
    with gpu.Engine(nodes) as one, gpu.Engine(nodes) as other:
        assert all(node.block.is_pinned for node in one.nodes + other.nodes)
        assert standin_cuda.machine.registered == {Xt.ctypes.data: Xt.nbytes}
        one.close()
        assert standin_cuda.machine.registered
        assert other.ask(total) == 10_000.0
    assert not standin_cuda.machine.registered


@stands_in
def test_arrays_on_a_device_stay_there():
    with some_device(n_devices=2) as cupy:
        Xt = cupy.ones((100, 3))
        with gpu.Engine([Node("a", Block(Xt[:50])), Node("b", Block(Xt[50:]))]) as engine:
            places = [node.block.Xt.device.id for node in engine.nodes]
            assert engine.ask(total) == 300.0
            assert engine.nodes[0].block.Xt.data.ptr == Xt.data.ptr
    assert places == [0, 0]


@stands_in
@pytest.mark.parametrize(("n_nodes", "places"), [(1, [0]), (2, [0, 1]), (5, [0, 0, 1, 1, 2]), (6, [0, 0, 1, 1, 2, 2])])
def test_nodes_are_spread_over_devices_in_order(n_nodes, places):
    with some_device(n_devices=3):
        nodes = [Node(str(i), Block(np.ones((10, 2)))) for i in range(n_nodes)]
        with gpu.Engine(nodes) as engine:
            assert [node.block.device.number for node in engine.nodes] == places
            assert engine.ask(total) == 20.0 * n_nodes


@stands_in
def test_an_interrupt_does_not_wait_for_the_devices():
    began, may_end = threading.Event(), threading.Event()

    def wait(node):
        began.set()
        return node, may_end.wait(timeout=60)

    with some_device(n_devices=2):
        engine = gpu.Engine([Node("a", Block(np.ones((10, 2)))), Node("b", Block(np.ones((10, 2))))])
        asking = threading.Thread(target=engine.ask, args=(wait,))
        asking.start()
        began.wait(timeout=60)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt), engine:
            raise KeyboardInterrupt
        assert time.monotonic() - start < 10.0
        may_end.set()
        asking.join()
        engine.nodes.clear()  # the question was answered after all
        for device in engine._devices:  # their threads tidy up when they are done
            device._thread.shutdown(wait=True)
        assert [standin_cuda.machine.pool(i).used for i in range(2)] == [0, 0]


@stands_in
@pytest.mark.parametrize("can_pin", [True, False])
def test_small_arrays_on_their_way_do_not_disturb_each_other(device, can_pin, rng):
    """More of them than there are buffers, and larger and larger ones; the stand-in copies as late as it may."""
    standin_cuda.machine.can_pin = can_pin
    sizes = [10, 3, 7000, 1, 20_000, 3, 50_000, 2, _cuda.STAGED // 8 + 1]
    arrays = [rng.normal(size=size) for size in sizes]
    changed = [array.copy() for array in arrays]
    there = []
    for array in changed:
        there.append(_cuda.going(array, array[:1], dtype=np.float32))
        array[:] = np.nan
    for found, array in zip(there, arrays, strict=True):
        assert_array_equal(found.get(), np.append(array, array[0]).astype(np.float32))
