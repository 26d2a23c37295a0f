"""The start of a fit of wide samples: the driver works on the samples drawn where the engine computes."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd.advice.columns import look_at
from dbmd.data.partition import partition
from dbmd.data.preparation import Preparation
from dbmd.engines import gpu
from dbmd.engines.local import Engine as LocalEngine
from dbmd.model.evidence import noise_excess
from dbmd.model.low_rank import LowRank
from dbmd.model.reduce import MORE, WIDE, can_be_reduced, reduced
from device import standin_cuda
from device.found import has_device
from device.standin import installed
from device.test_fits import assert_same_model, fit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N, M, R = 900, 80, 4
DTYPES = [np.float32, np.float64]


def wide(dtype=np.float64, seed=0):
    """Return samples of two sources, shape (n, m), many more features than components, and their sources."""
    rng = np.random.default_rng(seed)
    W, source = rng.random((R, M)) * 3.0, rng.integers(0, 2, N)
    noise = rng.normal(size=(N, M)) * np.where(source, 0.5, 0.2)[:, None]
    return (5.0 + rng.dirichlet([0.4] * R, N) @ W + noise).astype(dtype), source


X, SOURCE = wide()


@pytest.fixture
def used(monkeypatch):
    """Return the kinds of arrays that the driver worked on while it looked for a start."""
    found = []
    work_on = gpu.Engine.work_on

    def noted(self, Xt, work):
        def look(array):
            found.append(type(array).__module__.partition(".")[0])
            return work(array)

        return work_on(self, Xt, look)

    monkeypatch.setattr(gpu.Engine, "work_on", noted)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_samples_there_are_reduced_as_here(dtype, seed, device):
    Xt, _ = wide(dtype, seed)
    weights = np.random.default_rng(seed).random(N) + 0.5
    here, there = reduced(Xt, weights, R, seed), reduced(device.asarray(Xt), weights, R, seed)
    assert isinstance(there, LowRank)
    tol = 1e-10 if dtype == np.float64 else 2e-4
    for name in ("scores", "directions", "offset", "off"):
        assert type(getattr(there, name)) is np.ndarray
        assert getattr(there, name).dtype == getattr(here, name).dtype
    assert_allclose(there.offset, here.offset, atol=tol)
    assert_allclose(there.off, here.off, rtol=tol, atol=tol)

    def rebuilt(found):
        return found.scores @ found.directions.T

    assert_allclose(rebuilt(there), rebuilt(here), atol=20 * tol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [N, 100, 60])  # of fewer, each half is not wide, or has fewer samples than features
def test_the_noise_excess_there_is_that_here(dtype, n, device):
    Xt, source = wide(dtype)
    assert can_be_reduced(Xt[:n], R)
    rest = np.ones(n), source[:n], 2, R
    found = noise_excess(device.asarray(Xt[:n]), *rest)
    assert_allclose(found, noise_excess(Xt[:n], *rest), rtol=1e-9 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("leading", [1.0, 1e3])
@pytest.mark.parametrize("is_alone", [False, True])
def test_columns_of_samples_there_look_as_here(dtype, leading, is_alone, device):
    Xt, source = wide(dtype)
    Xt[:, 0] = 0.1  # its mean in float32 is not exact, but that is no variance
    Xt[::2, 0] = np.nextafter(Xt[0, 0], dtype(1))  # nor is rounding
    Xt[:, 1:3] = np.arange(N)[:, None] * [leading, 0.0]
    if is_alone:
        Xt[:, 2:] = 0.7
    else:
        Xt[:, 3] = np.random.default_rng(0).permutation(N)
    weights = np.random.default_rng(1).random(N) + 0.5
    here, there = look_at(Xt, source, weights), look_at(device.asarray(Xt), source, weights)
    assert here.is_alone == is_alone
    assert 1 in here.rising
    assert replace(there, fraction=here.fraction) == here
    assert there.fraction == pytest.approx(here.fraction, rel=1e-9 if dtype == np.float64 else 1e-4)


SETTINGS = {
    "sources": {},
    "one source": {"source": None},
    "offsets": {"offsets": True},
    "brightness": {"brightness": True},
    "the paper's estimator": {"inference": "map", "alpha": 1.2},
    "scaled": {"scaling": "standard"},
    "a given start": {"init": X[:R] + 0.1},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fit_is_that_of_the_cores(setting, dtype, device, used):
    parameters = {"n_components": R, "source": SOURCE, "max_iter": 50, **SETTINGS[setting]}
    Xt = X.astype(dtype)
    expected = fit("local", Xt, n_nodes=1, **parameters)
    assert not used
    found = fit("gpu", Xt, **parameters)
    assert_same_model(found, expected, dtype)
    assert set(used) <= {"cupy"}
    assert used or parameters.get("inference") == "map"


def test_narrow_samples_are_worked_on_here(device, used):
    fit("gpu", X[:, : WIDE * (R + MORE)], n_components=R)
    assert not used


def test_an_engine_that_prepares_samples_lends_what_the_engine_has(device):
    there = Preparation(scale=np.full(M, 2.0)).around(gpu.Engine(partition(X, 0, 1)))
    with there:
        kind = there.work_on(X, lambda Xt: type(Xt).__module__.partition(".")[0])
    assert kind == "cupy"
    with Preparation(scale=np.full(M, 2.0)).around(LocalEngine(partition(X, 0, 1))) as here:
        assert here.work_on is None


@pytest.mark.skipif(has_device(), reason="the memory of a real device is not the test's")
def test_without_memory_for_the_samples_drawn_the_start_is_found_here(device, used, monkeypatch, caplog):
    expected = fit("local", X, SOURCE, n_components=R, n_nodes=1)
    caplog.set_level(logging.INFO, "dbmd")
    work_on = gpu.Engine.work_on

    def short_of_memory(self, Xt, work):
        pool = standin_cuda.machine.pool(0)
        pool.fail_at = pool.n_allocations + 3  # there is room for the samples, and for little more
        return work_on(self, Xt, work)

    monkeypatch.setattr(gpu.Engine, "work_on", short_of_memory)
    found = fit("gpu", X, SOURCE, n_components=R)
    assert used == ["cupy", "numpy"]
    assert "the start is found on the cores" in caplog.text
    assert_same_model(found, expected, np.float64)


@pytest.mark.skipif(has_device(), reason="the number of devices is not the test's")
def test_the_device_that_a_user_works_on_does_not_matter(used):
    expected = fit("local", X, SOURCE, n_components=R, n_nodes=1)
    with installed(n_devices=2) as cupy, cupy.cuda.Device(1):
        found = fit("gpu", X, SOURCE, n_components=R)
        assert cupy.cuda.runtime.getDevice() == 1
    assert set(used) == {"cupy"}
    assert_same_model(found, expected, np.float64)
