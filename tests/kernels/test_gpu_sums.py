"""Products and sums on a GPU, or compiled for the CPU: what the conformance suite does not ask of every kernel."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.kernels import _gpu_products, _gpu_sparse, _gpu_sums
from dbmd.kernels._gpu_products import products
from dbmd.kernels._gpu_sparse import by_columns, csr
from dbmd.kernels._gpu_sums import Sums
from strategies import generators

DTYPES = [np.float32, np.float64]
FEATURES = [1, 6, 7, 24]  # of which a thread loads one, two, one, as many as it can
RANKS = [1, 3, 13, 40]
ROUNDING = {np.float32: 2e-6, np.float64: 1e-14}
keeps_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture
def small(device, monkeypatch):
    """Return the module for arrays of the device, where groups, segments and runs are small."""
    monkeypatch.setattr(_gpu_sums, "GROUP", 8)
    monkeypatch.setattr(_gpu_sums, "RUN", 32)
    monkeypatch.setattr(_gpu_sparse, "SEGMENT", 16)
    return device


def samples(rng, n, m, r, dtype):
    """Return samples with zeros, memberships and weights."""
    Xt = rng.normal(3.0, 1.0, (n, m))
    Xt[rng.random((n, m)) < 0.5] = 0.0
    return Xt.astype(dtype), rng.dirichlet(np.full(r, 0.5), n).astype(dtype), rng.uniform(0.0, 3.0, n)


def added(device, is_sparse, Xt, Ht, weights, edges, norms=True):
    """Return the sums over samples that come in pieces."""
    sums = Sums(Xt.shape[1], Ht.shape[1], Xt.dtype)
    for i, j in pairwise(edges):
        held = csr(sparse.csr_array(Xt[i:j])) if is_sparse else device.asarray(Xt[i:j])
        own = None if weights is None else device.asarray(weights[i:j])
        sums.add(held, device.asarray(Ht[i:j]), own, norms=norms)
    return sums.total()


def assert_same_bits(found, expected):
    for name in expected._fields:
        assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def with_grid(monkeypatch, module, blocks):
    """Let a module start its kernels with another number of blocks."""
    launch = module.launch

    def other(source, name, given, args, **options):
        launch(source, name, blocks, args, **options)

    monkeypatch.setattr(module, "launch", other)


sizes = st.tuples(st.integers(1, 150), st.sampled_from(FEATURES), st.sampled_from(RANKS))
weighted = st.booleans()


@keeps_device
@given(generators(), sizes, weighted)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_over_many_groups_and_runs_are_those_of_numpy(small, dtype, is_sparse, rng, size, has_weights):
    Xt, Ht, weights = samples(rng, *size, dtype)
    found = added(small, is_sparse, Xt, Ht, weights if has_weights else None, [0, len(Xt)])
    X, H = Xt.astype(np.float64), Ht.astype(np.float64)
    count = weights if has_weights else np.ones(len(X))
    counted = H * count[:, None]
    most = ROUNDING[dtype] * count.sum()
    assert_allclose(found.XHt, X.T @ counted, rtol=0.0, atol=6.0 * most)
    assert_allclose(found.totals, count @ X, rtol=0.0, atol=6.0 * most)
    assert_allclose(found.squares, count @ X**2, rtol=0.0, atol=36.0 * most)
    assert_allclose(found.HHt, H.T @ counted, rtol=1e-12)  # in float64, whatever the type
    assert_allclose(found.sizes, counted.sum(axis=0), rtol=1e-12)
    assert found.n == pytest.approx(count.sum(), rel=1e-12)


@keeps_device
@given(generators(), sizes, weighted, st.data())
@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_have_the_same_bits_however_samples_are_cut_between_runs(
    small, dtype, is_sparse, rng, size, has_weights, data
):
    Xt, Ht, weights = samples(rng, *size, dtype)
    weights, n = weights if has_weights else None, len(Xt)
    inner = data.draw(st.lists(st.integers(0, n // _gpu_sums.RUN), max_size=4))
    edges = [0, *sorted(_gpu_sums.RUN * i for i in inner), n]
    whole = added(small, is_sparse, Xt, Ht, weights, [0, n])
    assert_same_bits(added(small, is_sparse, Xt, Ht, weights, edges), whole)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_have_the_same_bits_whatever_the_grid_and_the_memory(small, dtype, is_sparse, rng, monkeypatch):
    Xt, Ht, weights = samples(rng, 150, 24, 13, dtype)
    whole = added(small, is_sparse, Xt, Ht, weights, [0, 150])
    monkeypatch.setattr(_gpu_sums, "MEMORY", 1)  # one run at a time
    assert_same_bits(added(small, is_sparse, Xt, Ht, weights, [0, 150]), whole)
    for blocks in (1, 7):
        with monkeypatch.context() as patch:
            for module in (_gpu_sums, _gpu_sparse):
                with_grid(patch, module, blocks)
            assert_same_bits(added(small, is_sparse, Xt, Ht, weights, [0, 150]), whole)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_long_sums_of_float32_do_not_lose_digits(small, is_sparse):
    Xt, Ht = np.full((30_000, 2), 0.1, np.float32), np.full((30_000, 1), 0.7, np.float32)
    assert abs(np.cumsum(Xt[:, 0])[-1] / 3000.0 - 1.0) > 1e-5
    found = added(small, is_sparse, Xt, Ht, None, [0, 30_000])
    x, h = float(Xt[0, 0]), float(Ht[0, 0])
    assert_allclose(found.XHt, 30_000 * x * h, rtol=2e-6)
    assert_allclose(found.totals, 30_000 * x, rtol=2e-6)
    assert_allclose(found.squares, 30_000 * x * x, rtol=2e-6)


@pytest.mark.parametrize("r", [70, 72, 128, 150])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_more_components_than_a_block_has_at_a_time(small, dtype, is_sparse, r, rng):
    Xt, Ht, weights = samples(rng, 50, 6, r, dtype)
    found = added(small, is_sparse, Xt, Ht, weights, [0, 50])
    counted = Ht.astype(np.float64) * weights[:, None]
    most = ROUNDING[dtype] * weights.sum()
    assert_allclose(found.XHt, Xt.T.astype(np.float64) @ counted, rtol=0.0, atol=6.0 * most)
    assert_allclose(found.squares, weights @ Xt.astype(np.float64) ** 2, rtol=0.0, atol=36.0 * most)
    assert_allclose(found.HHt, Ht.T.astype(np.float64) @ counted, rtol=1e-12)
    W = rng.normal(size=(6, r)).astype(dtype)
    held = csr(sparse.csr_array(Xt)) if is_sparse else small.asarray(Xt)
    expected = Xt.astype(np.float64) @ W
    assert_allclose(products(held, small.asarray(W)).get(), expected, rtol=0.0, atol=50 * ROUNDING[dtype])


@pytest.mark.parametrize("r", [13, 40, 70])
def test_cards_without_tensor_cores_compute_the_same_without_them(small, r, rng, monkeypatch):
    Xt, Ht, weights = samples(rng, 50, 24, r, np.float32)
    W, edges = rng.normal(size=(24, r)).astype(np.float32), [0, 50]
    found = added(small, False, Xt, Ht, weights, edges), products(small.asarray(Xt), small.asarray(W)).get()
    for module in (_gpu_products, _gpu_sums):
        monkeypatch.setattr(module, "has_tensor_cores", lambda: False)
    without = added(small, False, Xt, Ht, weights, edges), products(small.asarray(Xt), small.asarray(W)).get()
    assert_allclose(found[0].XHt, without[0].XHt, rtol=0.0, atol=6.0 * ROUNDING[np.float32] * weights.sum())
    assert_allclose(found[0].HHt, without[0].HHt, rtol=1e-12)
    assert_allclose(found[1], without[1], rtol=0.0, atol=50 * ROUNDING[np.float32])


@given(r=st.integers(1, 300))
def test_columns_are_added_in_the_same_blocks_with_norms_and_without(r):
    """The order of a sum on a device depends on how wide its block is: a resumed fit asks for norms once more."""
    without, with_norms = (_gpu_sparse._blocks_of_sums(r, norms) for norms in (False, True))
    for blocks, columns in ((without, r), (with_norms, r + 1)):
        covered = [first + k for first, count, cols in blocks for k in range(count)]
        assert covered == list(range(columns))
        assert all(count <= cols and cols % 4 == 0 for _, count, cols in blocks)
    assert [(first, cols) for first, _, cols in with_norms[: len(without)]] == [(b[0], b[2]) for b in without]


def test_long_sums_of_sparse_samples_lose_no_digits(device, rng):
    """The sums of a segment as they are, not of a small one."""
    n, m, r = 4096, 2, 40
    Xt = np.log1p(rng.poisson(3.0, (n, m)) + 1.0).astype(np.float32)
    Ht = np.zeros((n, r), np.float32)
    Ht[:, 3] = 1.0
    sums = _gpu_sums.Sums(m, r, np.dtype(np.float32))
    sums.add(csr(sparse.csr_array(Xt)), device.asarray(Ht), norms=True)
    assert_allclose(sums.total().XHt[:, 3], Xt.sum(axis=0, dtype=np.float64), rtol=2e-6)
    assert_allclose(sums.total().totals, Xt.sum(axis=0, dtype=np.float64), rtol=2e-6)


@pytest.mark.parametrize("r", [10, 50, 51])
def test_places_in_shared_memory_are_aligned(device, dtype, r, rng):
    Xt, Ht, _ = samples(rng, 300, 8, r, dtype)  # a copy to a place that is not would end the process
    found = added(device, False, Xt, Ht, None, [0, 300])
    assert_allclose(found.XHt, Xt.T.astype(np.float64) @ Ht, rtol=0.0, atol=1800 * ROUNDING[dtype])


def test_a_kernel_keeps_the_shared_memory_that_it_was_given(device, rng):
    # With 20 components, or 16 and norms, the same kernel needs more or less of it.
    for r, norms in ((20, False), (16, True), (20, False)):
        Xt, Ht, _ = samples(rng, 300, 512, r, np.float32)
        found = added(device, False, Xt, Ht, None, [0, 300], norms)
        assert_allclose(found.XHt, Xt.T.astype(np.float64) @ Ht, rtol=0.0, atol=1800 * ROUNDING[np.float32])


@keeps_device
@given(generators(), sizes)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_product_has_the_same_bits_whatever_the_grid_and_its_batch(device, dtype, is_sparse, rng, size):
    Xt, _, _ = samples(rng, *size, dtype)
    n, m, r = size
    W, offset = (device.asarray(rng.normal(size=shape).astype(dtype)) for shape in ((m, r), r))

    def computed(rows):
        held = csr(sparse.csr_array(Xt[rows])) if is_sparse else device.asarray(Xt[rows])
        return products(held, W, offset).get()

    whole = computed(np.arange(n))
    for blocks in (1, 3):
        with pytest.MonkeyPatch.context() as patch:
            for module in (_gpu_products, _gpu_sparse):
                with_grid(patch, module, blocks)
            assert_array_equal(computed(np.arange(n)), whole)
    for rows in (rng.permutation(n), np.arange(0, n, 7), np.arange(n - 1, n)):
        assert_array_equal(computed(rows), whole[rows])


@pytest.mark.parametrize(("m", "r"), [(7, 3), (200, 3), (200, 40)])
def test_a_product_has_the_same_bits_if_the_basis_does_not_fit_in_shared_memory(device, dtype, m, r, rng, monkeypatch):
    Xt, _, _ = samples(rng, 30, m, r, dtype)
    Xt, W = device.asarray(Xt), device.asarray(rng.normal(size=(m, r)).astype(dtype))
    whole = products(Xt, W).get()
    plan = _gpu_products.plan_of(m, r, np.dtype(dtype), _gpu_products.most_shared(0))
    step = 16 * plan.constants["VEC"]
    monkeypatch.setattr(_gpu_products, "plan_of", lambda *_: plan._replace(tile=step))
    assert (step < plan.tile) is (m > 64)
    assert_array_equal(products(Xt, W).get(), whole)


@given(
    m=st.integers(1, 5000),
    r=st.integers(1, 300),
    kind=st.sampled_from([np.float32, np.float64]),
    most=st.sampled_from([48, 64, 96, 99, 163, 227]),
)
def test_every_card_has_room_for_a_part_of_the_basis(m, r, kind, most):
    """From 48 kB of shared memory on; with less than a step of features, a kernel would not come to an end."""
    plan = _gpu_products.plan_of(m, r, np.dtype(kind), most * 1024)
    step = plan.constants["LANES"] // plan.constants["SPLIT"] * plan.constants["VEC"]
    assert plan.tile >= step
    assert plan.tile % step == 0
    assert plan.shared <= most * 1024
    assert plan.constants["THREADS"] % 32 == 0
    assert plan.rows > 0


def test_arrays_that_cannot_be_loaded_as_they_are(device, dtype, rng):
    wide = rng.normal(size=(60, 9)).astype(dtype)
    views = {
        "by columns": lambda x: x[:, :8].T.copy().T,
        "some columns": lambda x: x[:, :8],
        "every other row": lambda x: x[::2, :8],
        "not aligned": lambda x: x.reshape(-1)[1:481].reshape(60, 8),
    }
    Ht, W = rng.dirichlet(np.ones(3), 60).astype(dtype), rng.normal(size=(8, 3)).astype(dtype)
    for name, view in views.items():
        Xt, held = view(wide).astype(np.float64), view(device.asarray(wide))
        Bt = products(held, device.asarray(W)).get()
        assert_allclose(Bt, Xt @ W, atol=20 * ROUNDING[dtype], err_msg=name)
        sums, own = Sums(8, 3, dtype), Ht[: len(Xt)]
        sums.add(held, device.asarray(own))
        assert_allclose(sums.total().XHt, Xt.T @ own, atol=60 * ROUNDING[dtype], err_msg=name)


@keeps_device
@given(generators(), st.integers(1, 70), st.integers(1, 9), st.sampled_from([np.int32, np.int64]))
def test_a_sparse_matrix_by_columns_has_the_same_entries(small, rng, n, m, index):
    Xt = sparse.random(n, m, 0.4, "csr", np.float64, rng)
    Xt.indices, Xt.indptr = Xt.indices.astype(index), Xt.indptr.astype(index)
    held = csr(Xt)
    data, rows, starts = (part.get() for part in by_columns(held))
    segments, columns = np.divmod(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), m)
    found = sparse.csr_array((data, (_gpu_sparse.SEGMENT * segments + rows, columns)), (n, m))
    assert_array_equal(found.toarray(), Xt.toarray())
    assert by_columns(held) is by_columns(held)  # sorted once
    W = rng.normal(size=(m, 2))
    assert_allclose(products(held, small.asarray(W)).get(), Xt @ W, atol=1e-13)


def test_entries_that_occur_twice_are_added_before_they_are_squared(small):
    twice = sparse.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), (1, 1))
    held = csr(twice)
    sums = Sums(1, 1, np.float64)
    sums.add(held, small.ones((1, 1)), norms=True)
    assert sums.total().squares == 9.0
    assert held.nnz == 2  # the matrix is not changed


def test_the_sums_of_no_samples_are_zero(device, dtype):
    sums = Sums(3, 2, dtype)
    empty = sums.total()
    sums.add(device.zeros((0, 3), dtype), device.zeros((0, 2), dtype), norms=True)
    for found in (empty, sums.total()):
        assert [np.shape(part) for part in found] == [(3, 2), (2, 2), (2,), (), (3,), (3,)]
        assert not any(np.any(part) for part in found)
