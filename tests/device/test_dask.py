"""Dask's workers compute on a GPU where their blocks are there: the block says so, and nobody else."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd import DBMD, open_data
from dbmd.engines._device_arrays import is_on_device
from device.standin import installed
from device.test_estimator import R, kind, made

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("_workers_in_this_process")

X, SOURCE = made()
CHUNK = 90
PARAMS = {"n_components": R, "random_state": 0, "init": X[:R] + 0.1, "effective_features": 12}


def lazy(cupy, *, there=True):
    """Return the samples as an array of Dask whose blocks are on a GPU."""
    array = da.from_array(X, chunks=(CHUNK, -1))
    return array.map_blocks(cupy.asarray) if there else array


@pytest.fixture(scope="module")
def _workers_in_this_process():
    """Start workers that are threads: those of a cluster that other tests have left running know no stand-in."""
    from distributed import Client, LocalCluster

    from dbmd.engines.dask import OWN_CLUSTER

    with LocalCluster(threads_per_worker=2, **OWN_CLUSTER) as cluster, Client(cluster):
        yield


@pytest.fixture
def used(monkeypatch):
    """Return the kernels that nodes were asked for in this process, where the workers are threads."""
    from dbmd import h_step

    found, load = [], h_step.load_kernel

    def noted(name):
        found.append(name)
        return load(name)

    monkeypatch.setattr(h_step, "load_kernel", noted)
    return found


def test_blocks_there_are_computed_with_there(device, used):
    expected = DBMD(engine="local", **PARAMS).fit(X, source=SOURCE)
    used.clear()
    found = DBMD(engine="dask", **PARAMS).fit(lazy(device), source=SOURCE)
    assert set(used) == {"gpu"}
    assert_allclose(found.components_, expected.components_, atol=1e-6)
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-6)


def test_blocks_of_either_kind_may_be_mixed(device, used):
    from dask import delayed

    edges = [0, 150, 250, len(X)]
    parts = [X[i:j] for i, j in pairwise(edges)]
    blocks = [delayed(device.asarray)(parts[0]), delayed(parts[1]), delayed(device.asarray)(parts[2])]
    expected = DBMD(engine="local", **PARAMS).fit(X)
    used.clear()
    found = DBMD(engine="dask", **PARAMS).fit(blocks)
    assert {"cpu", "gpu"} <= set(used)
    assert_allclose(found.components_, expected.components_, atol=1e-6)


def test_sparse_blocks_stay_sparse(device, used):
    from cupyx.scipy.sparse import csr_matrix
    from dask import delayed

    Xt, _ = made(is_sparse=True)
    blocks = [delayed(csr_matrix)(sparse.csr_matrix(Xt[i : i + CHUNK])) for i in range(0, len(Xt), CHUNK)]
    params = PARAMS | {"init": Xt[:R] + 0.1}
    expected = DBMD(engine="local", **params).fit(sparse.csr_array(Xt))
    used.clear()
    found = DBMD(engine="dask", **params).fit(blocks)
    assert set(used) == {"gpu"}
    assert_allclose(found.components_, expected.components_, atol=1e-6)


def test_a_worker_computes_on_the_device_that_a_block_is_on():
    from dask import delayed

    def at(number, part):
        import cupy

        with cupy.cuda.Device(number):
            return cupy.asarray(part)

    expected = DBMD(engine="local", **PARAMS).fit(X)
    with installed(n_devices=2):
        blocks = [delayed(at)(i % 2, X[start : start + CHUNK]) for i, start in enumerate(range(0, len(X), CHUNK))]
        found = DBMD(engine="dask", **PARAMS).fit(blocks)
    assert_allclose(found.components_, expected.components_, atol=1e-6)


def test_the_fingerprint_does_not_depend_on_where_the_samples_are(device):
    with open_data(lazy(device)) as there, open_data(lazy(device, there=False)) as here:
        assert there.about["fingerprint"] == here.about["fingerprint"]
        assert there.shape == here.shape


def test_memberships_are_computed_when_they_are_asked_for_and_there(device):
    model = DBMD(engine="local", **PARAMS).fit(X, source=SOURCE)
    found = model.transform(lazy(device), source=SOURCE)
    assert is_on_device(found._meta)
    blocks = [block.compute() for block in found.to_delayed().ravel()]
    assert {kind(block) for block in blocks} == {"cupy"}
    H = np.concatenate([block.get() for block in blocks])
    assert_allclose(H, model.transform(X, source=SOURCE), atol=1e-6)
    labels = model.predict(lazy(device), source=SOURCE).to_delayed().ravel()
    assert_array_equal(np.concatenate([block.compute().get() for block in labels]), H.argmax(axis=1))


def test_what_is_wrong_is_said_with_the_partition(device):
    bad = np.where(np.arange(X.size).reshape(X.shape) == 100 * X.shape[1] + 3, np.nan, X)
    with pytest.raises(ValueError, match=r"partition 1: row 11, column 3 has no number"):
        DBMD(engine="dask", **PARAMS).fit(da.from_array(bad, chunks=(CHUNK, -1)).map_blocks(device.asarray))
