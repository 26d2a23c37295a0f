import signal

import numpy as np
import pytest
from hypothesis import settings

from dask_cluster import make_client
from spark_session import make_session

# The same examples in every run; a compiled kernel may take its time on the first one.
settings.register_profile("dbmd", deadline=None, derandomize=True, max_examples=25, print_blob=True)
settings.load_profile("dbmd")

CLUSTERS = ("spark", "dask")  # marks of tests that share one cluster for each process


def pytest_collection_modifyitems(items):
    """Let all tests of a cluster run in one process, so that it is started once (pytest -n, --dist loadgroup)."""
    for item in items:
        for name in CLUSTERS:
            if item.get_closest_marker(name) is not None and item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(name))


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
    """Return a function that starts the cluster that an engine of a name needs, once for all tests of a process."""
    fixtures = {"local": None, "spark": "spark", "dask": "dask_client"}

    def start(name):
        return request.getfixturevalue(fixtures[name]) if fixtures[name] else None

    return start
