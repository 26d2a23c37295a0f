"""Settings, marks and clusters for all tests."""

import os
import signal

import numpy as np
import pytest

import profiles  # noqa: F401  (chooses how many examples)
from dask_cluster import make_client
from device.compiled import SHARED
from device.found import clear_caches, has_device
from device.standin import installed
from engine_params import FIXTURES
from spark_session import make_session

collect_ignore = ["toys"]  # modules of dbmd, for test_plugins.py
CLUSTERS = {"spark", "dask", "browser"}  # marks of tests that start other programs


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run tests that are marked slow as well, as make test does")


def pytest_configure(config):
    """Refuse a pytest with which pytest-xdist loses the groups: every process would start clusters of its own."""
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple >= (9, 2):
        raise pytest.UsageError("--dist loadgroup does not group tests with this pytest. Install 'pytest<9.2'.")


def leaves_out_slow(config):
    """Return whether slow tests are left out: unless they are asked for, all of them or one by its name."""
    return not (config.getoption("--slow") or "slow" in config.option.markexpr or "::" in "".join(config.args))


def is_of_gpu(item):
    """Return whether a test has a parameter "gpu"."""
    params = getattr(getattr(item, "callspec", None), "params", {}).values()
    return any(isinstance(value, str) and value == "gpu" for value in params)


def pytest_terminal_summary(terminalreporter, config):
    if leaves_out_slow(config):
        terminalreporter.write_line("Tests that are marked slow were left out: --slow runs them, too.")
    no_device = "ON A STAND-IN, the slow ones NOT AT ALL: NO GPU WAS FOUND."
    where = "on the GPU of this machine." if has_device() else no_device
    terminalreporter.write_line(f"Tests of the engine and the kernel 'gpu' ran {where}")


@pytest.hookimpl(tryfirst=True)  # before -m selects, and before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Mark tests that start other programs, and let all that share one run in one process (--dist loadgroup)."""
    if leaves_out_slow(config):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    if not has_device():
        slow = [item for item in items if item.get_closest_marker("slow") and is_of_gpu(item)]
        items[:] = [item for item in items if not (item.get_closest_marker("slow") and is_of_gpu(item))]
        config.hook.pytest_deselected(items=slow)
    for item in items:
        marks = CLUSTERS.intersection(mark.name for mark in item.iter_markers())
        if not marks:
            continue
        item.add_marker("cluster")
        shared = [name for name in marks if {"cluster", FIXTURES.get(name, name)}.intersection(item.fixturenames)]
        if shared and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group("_".join(sorted(shared))))


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard():
    """Processes that tests start must not ignore what the one who started the tests ignores (nohup)."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _compiled_kernels_are_shared(tmp_path_factory):
    """All processes of this run, and those that they start, keep compiled kernels in one folder of pytest's."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(folder))
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(42)


@pytest.fixture
def device():
    """Return CuPy where there is a GPU, else its stand-in, with one device."""
    clear_caches()
    if has_device():
        import cupy

        yield cupy
        cupy.get_default_memory_pool().free_all_blocks()
    else:
        with installed() as cupy:
            yield cupy
    clear_caches()


@pytest.fixture(autouse=True)
def _device_for_gpu(request):
    """Give a device to every test with a parameter "gpu"."""
    if is_of_gpu(request.node):
        request.getfixturevalue("device")


@pytest.fixture(scope="session")
def spark():
    session = make_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dask_client():
    with make_client() as client:
        yield client


@pytest.fixture
def cluster(request):
    """Return a function that starts what an engine of a name needs, once for all tests of a process."""

    def start(name):
        return request.getfixturevalue(FIXTURES[name]) if name in FIXTURES else None

    return start
