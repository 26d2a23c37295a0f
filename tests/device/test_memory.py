"""A device without enough memory: chunks become smaller, samples are no longer kept there, and nothing else changes."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dbmd.data.block import Block
from dbmd.engines import _gpu_resident, _gpu_streams, gpu
from dbmd.errors import EngineError
from dbmd.model.node import Node
from device import standin_cuda
from device.found import has_device

pytestmark = pytest.mark.skipif(has_device(), reason="the memory of a real device is not the test's")
X = np.random.default_rng(1).random((40_000, 5))


def needs_copies(node, *, copies):
    """Node: send the sum of all entries, with so many copies of each chunk in memory at a time."""
    total = 0.0
    for chunk in node.samples.chunks(np.ones(node.samples.shape[1])):
        held = [chunk.Xt.copy() for _ in range(copies)]
        total += float(sum(each.sum() for each in held)) / copies
    return replace(node, scratch=(node.scratch or 0) + 1), total


def needs(n_bytes):
    """Return a node function that needs so much memory beside the samples."""

    def ask(node):
        from dbmd.kernels._cuda import cupy

        held = cupy().zeros(n_bytes, np.uint8)
        for chunk in node.samples.chunks():
            chunk.Xt.sum()
        return replace(node, scratch=(node.scratch or 0) + 1), float(held.sum())

    return ask


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "dbmd")
    return lambda: [record.getMessage() for record in caplog.records if "does not suffice" in record.getMessage()]


def test_chunks_become_smaller_until_they_fit(device, lines):
    standin_cuda.machine.memory = 4_000_000
    with gpu.Engine([Node("a", Block(X))]) as engine:
        assert isinstance(engine.nodes[0].block, _gpu_resident.Resident)
        before = engine.nodes[0].block.size
        found = [engine.ask(lambda node: needs_copies(node, copies=20)) for _ in range(2)]
        assert engine.nodes[0].block.size < before
        assert engine.nodes[0].scratch == 2
    assert found == pytest.approx([(X - 1.0).sum()] * 2)
    assert lines()


def test_samples_that_leave_too_little_for_the_rest_are_no_longer_kept(device, lines, monkeypatch):
    monkeypatch.setattr(_gpu_streams, "WINDOW_BYTES", 400_000)
    standin_cuda.machine.memory = 3_000_000
    with gpu.Engine([Node("a", Block(X))]) as engine:
        assert isinstance(engine.nodes[0].block, _gpu_resident.Resident)
        for _ in range(2):
            engine.ask(needs(1_700_000))
        assert isinstance(engine.nodes[0].block, _gpu_streams.StreamedBlock)
        assert engine.ask(lambda node: needs_copies(node, copies=1)) == pytest.approx((X - 1.0).sum())
    assert "no longer kept there, but sent" in lines()[-1]
    assert standin_cuda.machine.pool(0).used == 0


def test_other_nodes_keep_what_they_had(device):
    standin_cuda.machine.memory = 6_000_000
    with gpu.Engine([Node("a", Block(X[:20_000])), Node("b", Block(X[20_000:]))]) as engine:
        engine.ask(lambda node: needs_copies(node, copies=1))
        kept = engine.nodes[0].block

        def fails_at_b(node):
            if node.name == "b" and node.block.chunk_bytes == kept.chunk_bytes:
                raise device.cuda.memory.OutOfMemoryError(1, 2)
            return replace(node, scratch=node.scratch + 1), 1

        assert engine.ask(fails_at_b) == 2
        assert engine.nodes[0].block is kept
        assert engine.nodes[1].block is not kept
        assert [node.scratch for node in engine.nodes] == [2, 2]


def test_where_nothing_helps_one_sentence_says_so_with_numbers(device):
    standin_cuda.machine.memory = 3_000_000
    with gpu.Engine([Node("a", Block(X))]) as engine, pytest.raises(EngineError) as caught:
        engine.ask(needs(10_000_000))
    message = str(caught.value)
    assert "\n" not in message
    assert "40,000 samples of 5 features" in message
    assert "of 3,000,000 bytes are free" in message
    assert standin_cuda.machine.pool(0).used == 0


def test_samples_of_the_user_on_the_device_are_taken_in_smaller_chunks(device):
    Xt = device.asarray(X)
    standin_cuda.machine.memory = 4_000_000
    with gpu.Engine([Node("a", Block(Xt))]) as engine:
        assert engine.ask(lambda node: needs_copies(node, copies=20)) == pytest.approx((X - 1.0).sum())
        assert isinstance(engine.nodes[0].block, _gpu_resident.Resident)
        with pytest.raises(EngineError, match="does not suffice"):
            engine.ask(needs(5_000_000))
    assert float(Xt.sum()) == pytest.approx(X.sum())


def test_another_programs_memory_makes_the_samples_a_stream(device, monkeypatch):
    # It was free when it was asked for, but no longer when it was taken.
    monkeypatch.setattr(_gpu_streams, "WINDOW_BYTES", 400_000)
    standin_cuda.machine.memory = 3_000_000
    monkeypatch.setattr(gpu, "RESIDENT", 100.0)
    taken = device.zeros(1_700_000, np.uint8)
    with gpu.Engine([Node("a", Block(X))]) as engine:
        assert isinstance(engine.nodes[0].block, _gpu_streams.StreamedBlock)
        assert engine.ask(lambda node: needs_copies(node, copies=1)) == pytest.approx((X - 1.0).sum())
    del taken


@pytest.mark.parametrize("fraction", ["0.1", "250000"])
def test_the_user_may_limit_what_samples_take(device, monkeypatch, fraction):
    monkeypatch.setenv("DBMD_GPU_MEMORY", fraction)
    standin_cuda.machine.memory = 2_500_000
    with gpu.Engine([Node("a", Block(X[:7000])), Node("b", Block(X[:6000]))]) as engine:
        kinds = [type(node.block) for node in engine.nodes]
    assert kinds == [_gpu_streams.StreamedBlock, _gpu_resident.Resident]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("failures", [1, 3])
def test_a_pass_that_ran_out_of_memory_is_made_again(kind, is_there, failures, device):
    """Of samples on the device in any form, too: there is no copy of them here that they could be streamed from."""
    from dbmd.kernels import gpu as kernel

    Xt = kind(X[:3000])
    left = failures

    def fails(node):
        nonlocal left
        total, longest = 0.0, 0
        for chunk in node.samples.chunks():
            total, longest = total + float(chunk.Xt.sum()), max(longest, chunk.Xt.shape[0])
        left -= 1
        if left >= 0:
            raise MemoryError("std::bad_alloc: out_of_memory")  # as RMM says it
        return replace(node, scratch=longest), total

    with gpu.Engine([Node("a", Block(kernel.asarray(Xt) if is_there else Xt))]) as engine:
        before = engine.nodes[0].block
        assert engine.ask(fails) == pytest.approx(Xt.sum())
        assert (engine.nodes[0].block is before) == (failures == 1)
        if is_there:
            assert (engine.nodes[0].scratch == len(X[:3000])) == (failures == 1)


def test_budgets_shrink_also_where_cupy_does_not_know_what_is_in_use(device, monkeypatch):
    """With an allocator of another library, the pool of CuPy is empty."""
    monkeypatch.setattr("dbmd.engines._gpu_device.Device.used", lambda self: 0)
    monkeypatch.setenv("DBMD_GPU_MEMORY", str(int(1.5 * X.nbytes)))
    with gpu.Engine([Node("a", Block(X)), Node("b", Block(X.copy()))]) as engine:
        kinds = [type(node.block) for node in engine.nodes]
    assert kinds == [_gpu_resident.Resident, _gpu_streams.StreamedBlock]


def test_an_error_is_not_replaced_by_one_of_the_device_at_the_end(device, monkeypatch):
    def lost(self):
        raise device.cuda.runtime.CUDARuntimeError(700, "the device is lost")

    engine = gpu.Engine([Node("a", Block(X))])
    monkeypatch.setattr(type(engine._devices[0].copy), "synchronize", lost)
    with pytest.raises(ValueError, match="the first"), engine:
        raise ValueError("the first")
