"""What CuPy refuses, the stand-in refuses; on a machine with a GPU, these tests say whether that is still so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from device import standin_cuda
from device.found import has_device
from device.standin import installed

HOST = np.arange(12.0).reshape(3, 4)
stands_in = pytest.mark.skipif(has_device(), reason="only the stand-in has this trap")

REFUSED = {
    "an array of NumPy on the right": lambda cp, x: x + HOST,
    "an array of NumPy on the left": lambda cp, x: HOST + x,
    "an array of NumPy in a product": lambda cp, x: x @ HOST.T,
    "an array of NumPy beside it": lambda cp, x: cp.concatenate([x, HOST]),
    "an array of NumPy to choose from": lambda cp, x: np.where(x > 0.0, x, HOST),
    "an array of NumPy for the result": lambda cp, x: np.exp(x, out=np.empty_like(HOST)),
    "silent conversion": lambda cp, x: np.asarray(x),
    "initial of a maximum": lambda cp, x: x.max(initial=0.0),
    "initial of NumPy's maximum": lambda cp, x: np.max(x, initial=0.0),
    "where of a ufunc": lambda cp, x: np.log(x, where=x > 0.0),
    "where of a sum": lambda cp, x: np.sum(x, where=x > 0.0),
    "a reduction of a ufunc": lambda cp, x: np.maximum.reduce(x),
    "a function that CuPy lacks": lambda cp, x: np.busday_count(x, x),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refuses(what, device):
    with pytest.raises((TypeError, NotImplementedError)):
        REFUSED[what](device, device.asarray(HOST))


RESULTS = {
    "operators": lambda x: (2.0 * x - x**2) / (1.0 + np.abs(x)),
    "ufuncs": lambda x: np.log1p(np.maximum(x, 0.5)),
    "a NumPy scalar": lambda x: np.float64(3.0) - x,
    "sums": lambda x: np.sum(x, axis=1, keepdims=True) + x.mean(axis=0),
    "products": lambda x: np.einsum("ij,kj->ik", x, x) + x @ x.T,
    "indices of NumPy": lambda x: x[np.array([2, 0])],
    "masks": lambda x: x[x > 3.0],
    "slices": lambda x: x[::-1, 1:3].T.reshape(-1),
    "choices": lambda x: np.where(x > 3.0, x, 0.0),
    "positions": lambda x: np.argmax(x, axis=0),
    "types": lambda x: x.astype(np.float32) * np.float32(0.1),
}


@pytest.mark.parametrize("what", RESULTS)
def test_results_are_those_of_numpy_and_stay_on_the_device(what, device):
    found, expected = RESULTS[what](device.asarray(HOST)), RESULTS[what](HOST)
    assert type(found).__module__ == "cupy"
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.get(), expected, rtol=1e-6)


def test_sums_are_arrays_without_dimensions(device):
    total = device.asarray(HOST).sum()
    assert isinstance(total, device.ndarray)
    assert total.shape == ()
    assert float(total) == HOST.sum()


def test_views_share_memory_and_copies_do_not(device):
    x = device.asarray(HOST)
    used = device.get_default_memory_pool().used_bytes()
    view = x[1:]
    assert device.get_default_memory_pool().used_bytes() == used
    copy = x.copy()
    assert device.get_default_memory_pool().used_bytes() > used
    view[...] = 7.0
    assert_array_equal(x.get()[1:], 7.0)
    assert_array_equal(copy.get(), HOST)


@stands_in
def test_memory_is_counted_and_bounded(device):
    pool = device.get_default_memory_pool()
    standin_cuda.machine.memory = 10_000
    x = device.zeros(512)
    assert pool.used_bytes() == 4096
    with pytest.raises(device.cuda.memory.OutOfMemoryError, match="Out of memory allocating"):
        device.zeros(1024)
    del x
    assert (pool.used_bytes(), pool.free_bytes()) == (0, 4096)
    assert device.cuda.runtime.memGetInfo()[0] == 10_000 - 4096
    pool.free_all_blocks()
    assert device.cuda.runtime.memGetInfo()[0] == 10_000
    device.zeros(1024)


@stands_in
def test_what_a_stream_copies_must_be_waited_for(device):
    import cupyx

    host, there, stream = cupyx.empty_pinned(4), device.zeros(4), device.cuda.Stream(non_blocking=True)
    host[:] = 1.0
    with pytest.raises(standin_cuda.Race):  # the array was made on another stream
        there.set(host, stream)
    stream.wait_event(device.cuda.get_current_stream().record())
    there.set(host, stream)
    copied = stream.record()
    with pytest.raises(standin_cuda.Race):
        there.sum()
    device.cuda.get_current_stream().wait_event(copied)
    assert float(there.sum()) == 4.0


@stands_in
def test_pinned_memory_is_read_when_the_copy_runs(device):
    import cupyx

    host, there, stream = cupyx.empty_pinned(4), device.empty(4), device.cuda.Stream(non_blocking=True)
    stream.wait_event(device.cuda.get_current_stream().record())
    host[:] = 1.0
    there.set(host, stream)
    host[:] = 2.0  # too early
    stream.synchronize()
    assert_array_equal(there.get(), 2.0)


@stands_in
def test_arrays_of_another_device_are_refused():
    with installed(n_devices=2) as cupy:
        x = cupy.zeros(3)
        with cupy.cuda.Device(1):
            with pytest.raises(ValueError, match="different from the current device"):
                x + 1.0
            assert (x.copy() + 1.0).device == cupy.cuda.Device(1)


@given(rows=st.integers(1, 20), columns=st.integers(1, 5), seed=st.integers(0, 9))
def test_csr_matrices_multiply_as_those_of_scipy(rows, columns, seed):
    from scipy import sparse

    if has_device():
        import cupy
        import cupyx.scipy.sparse as there

        _products(cupy, there, sparse, rows, columns, seed)
    else:
        with installed() as cupy:
            import cupyx.scipy.sparse as there

            _products(cupy, there, sparse, rows, columns, seed)


def _products(cupy, there, sparse, rows, columns, seed):
    rng = np.random.default_rng(seed)
    X = sparse.random(rows, columns, 0.5, format="csr", random_state=seed)
    W, H = rng.normal(size=(columns, 3)), rng.normal(size=(rows, 3))
    mine = there.csr_matrix(X)
    np.testing.assert_allclose((mine @ cupy.asarray(W)).get(), X @ W, atol=1e-12)
    np.testing.assert_allclose((mine.T @ cupy.asarray(H)).get(), X.T @ H, atol=1e-12)
    assert abs(mine.get() - X).max() == 0.0
