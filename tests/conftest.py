"""Settings, marks and clusters for all tests."""

import os
import signal

import numpy as np
import pytest
from hypothesis import settings

from dask_cluster import make_client
from engine_params import FIXTURES
from spark_session import make_session

# The same examples in every run; a compiled kernel may take its time on the first one. "ci", which .ci/run chooses,
# tries all examples; "dev" fewer, so that an answer comes soon.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, print_blob=True)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

CLUSTERS = {"spark", "dask", "browser"}  # marks of tests that start other programs


@pytest.hookimpl(tryfirst=True)  # before -m selects, and before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Mark tests that start other programs, and let all that share one run in one process (--dist loadgroup)."""
    for item in items:
        marks = CLUSTERS.intersection(mark.name for mark in item.iter_markers())
        if not marks:
            continue
        item.add_marker("cluster")
        shared = [name for name in marks if {"cluster", FIXTURES.get(name, name)}.intersection(item.fixturenames)]
        if shared:
            item.add_marker(pytest.mark.xdist_group("_".join(sorted(shared))))


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard():
    """Processes that tests start must not ignore what the one who started the tests ignores (nohup)."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def rng():
    return np.random.default_rng(42)


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
