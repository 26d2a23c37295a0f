"""Samples on one of several GPUs stay there, whichever GPU the caller works on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd import DBMD
from dbmd.data.block import Block
from dbmd.engines import gpu
from dbmd.errors import EngineError
from dbmd.model.node import Node
from device import standin_cuda
from device.found import has_device
from device.standin import installed
from device.test_estimator import SOURCE, R, X, model_of

pytestmark = pytest.mark.skipif(has_device(), reason="the number of devices is not the test's")
GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
SPARSE = np.where(np.random.default_rng(1).random(X.shape) < 0.7, 0.0, X)
FORMS = {"dense": (X, {}), "gaps": (GAPS, {"missing": "allow"}), "left out": (GAPS, {"missing": "drop"})}
FORMS |= {"sparse": (SPARSE, {}), "scaled": (X, {"scaling": "standard"}), "by columns": (np.asfortranarray(X), {})}


def put(cupy, form, number):
    """Return samples on a device."""
    from cupyx.scipy.sparse import csr_matrix

    Xt = FORMS[form][0]
    with cupy.cuda.Device(number):
        return csr_matrix(sparse.csr_matrix(Xt)) if form == "sparse" else cupy.asarray(Xt)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("there", "current"), [(1, 0), (0, 1), (0, 0), (1, 1)])
def test_samples_stay_where_they_are(there, current, form):
    Xt, parts = FORMS[form]
    here = sparse.csr_array(Xt) if form == "sparse" else Xt
    expected = model_of("local", **parts).fit(here, source=SOURCE)
    with installed(n_devices=2) as cupy:
        given = put(cupy, form, there)
        with cupy.cuda.Device(current):
            model = model_of(**parts).fit(given, source=SOURCE)
            H, std = model.transform(given, source=SOURCE, return_std=True)
            labels = model.predict(given, source=SOURCE)
            assert {H.device.id, std.device.id, labels.device.id} == {there}
            assert np.isfinite(model.score(given, source=SOURCE))
            model.partial_fit(given, source=SOURCE)
            assert cupy.cuda.runtime.getDevice() == current
        with cupy.cuda.Device(there):
            H, labels = H.get(), labels.get()
    assert_allclose(H, expected.transform(here, source=SOURCE), atol=1e-6)
    assert_array_equal(labels, expected.predict(here, source=SOURCE))


def test_answers_are_in_the_order_of_the_nodes_wherever_these_are():
    """Adding replies concatenates them here."""

    def own_rows(node):
        return node, [node.name]

    with installed(n_devices=3) as cupy:
        nodes = []
        for name, number in zip("abcde", (2, 0, 1, 0, 2), strict=True):
            with cupy.cuda.Device(number):
                nodes.append(Node(name, Block(cupy.asarray(X[:50]))))
        with gpu.Engine(nodes) as engine:
            assert engine.ask(own_rows) == list("abcde")
            assert [node.name for node in engine.nodes] == list("abcde")


def test_a_device_that_cannot_be_used_is_named(monkeypatch):
    with installed(n_devices=2) as cupy:
        stream, error = cupy.cuda.Stream, cupy.cuda.runtime.CUDARuntimeError

        def full(*args, **options):
            if cupy.cuda.runtime.getDevice() == 1:
                raise error(2, "cudaErrorMemoryAllocation: out of memory")
            return stream(*args, **options)

        monkeypatch.setattr(cupy.cuda, "Stream", full)
        with pytest.raises(EngineError, match=r"GPU 1 cannot be used: .*out of memory.*CUDA_VISIBLE_DEVICES"):
            DBMD(R, engine="gpu").fit(X)
        assert standin_cuda.machine.n_devices == 2
