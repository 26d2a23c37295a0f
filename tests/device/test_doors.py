"""What a user is told who has no GPU, or cannot use it: one sentence, with a remedy."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from dbmd import DBMD
from dbmd.cli import main
from dbmd.dataset import in_memory
from dbmd.engines import gpu
from dbmd.errors import EngineError
from device import standin_cuda
from device.found import clear_caches, has_device

X = np.random.default_rng(0).random((60, 4))
stands_in = pytest.mark.skipif(has_device(), reason="this machine has what others lack")


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    clear_caches()
    yield
    clear_caches()


def info(*options):
    result = CliRunner().invoke(main, ["info", *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_without_cupy_the_package_is_named(no_cupy):
    with pytest.raises(ImportError, match=r"needs the package 'cupy'.*'dbmd\[gpu\]' for CUDA 12.*gpu-cuda13"):
        DBMD(2, engine="gpu").fit(X)


@pytest.fixture
def without(device):
    """Return a function that takes something away from the machine."""

    def take(**changes):
        for name, value in changes.items():
            setattr(standin_cuda.machine, name, value)

    return take


@stands_in
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_devices": 0}, "found no GPU of NVIDIA"),
        ({"driver": 0}, "found no GPU of NVIDIA"),
        ({"driver": 12040}, r"too old for CuPy: it knows CUDA 12.4, and CuPy was built for 13.0.*cupy-cuda12x"),
    ],
)
def test_without_a_device_or_its_driver_the_remedy_is_named(without, changes, told):
    without(**changes)
    with pytest.raises(EngineError, match=told) as caught:
        DBMD(2, engine="gpu").fit(X)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert str(caught.value) in info()
    assert json.loads(info("--json"))["gpu"]["message"] == str(caught.value)


@stands_in
def test_cupy_that_cannot_be_loaded_is_an_error_of_the_engine(monkeypatch):
    clear_caches()

    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "cupy":
                raise ImportError("libcudart.so.12: cannot open shared object file\nmore lines")

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(EngineError, match=r"cannot load CuPy: libcudart.so.12: cannot open shared object file; a driv"):
        gpu.find_devices()
    clear_caches()


def test_info_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys.modules["dbmd.cli.info"], "find_spec", lambda name: None)
    assert "gpu      CuPy is not installed. Install it with: pip install 'dbmd[gpu]'" in info()
    assert json.loads(info("--json"))["gpu"]["devices"] == []


def test_info_names_the_devices(device):
    found = json.loads(info("--json"))["gpu"]
    assert len(found["devices"]) == device.cuda.runtime.getDeviceCount()
    for each in found["devices"]:
        assert f"gpu      {each['name']}, " in info()
    assert found["cupy"] == device.__version__
    assert set(found) == {"devices", "cupy", "cuda", "driver"}


@pytest.mark.parametrize("wrong", ["much", "", "1 GB"])
def test_a_limit_that_is_no_number_is_refused(device, monkeypatch, wrong):
    monkeypatch.setenv("DBMD_GPU_MEMORY", wrong)
    if not wrong:  # as if it were not set
        gpu.Engine([]).close()
        return
    with pytest.raises(EngineError, match="DBMD_GPU_MEMORY must be a number of bytes"):
        gpu.Engine([])


@stands_in
@pytest.mark.parametrize("n_devices", [1, 3])
def test_there_is_one_node_for_each_device_unless_the_user_says_otherwise(device, n_devices):
    standin_cuda.machine.n_devices = n_devices
    with in_memory(X) as data:
        with data.on("gpu", None, 2) as engine:
            assert engine.n_nodes == n_devices
        with data.on("gpu", 5, 2) as engine:
            assert engine.n_nodes == 5
