import pytest
import sklearn.datasets

from dbmd.data.datasets import mnist
from labelled_files import FETCHERS, write_all


@pytest.fixture(scope="session")
def small_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_all(folder)
    return folder


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch):
    """Let no test reach the network, and none make 400,000 images."""
    for fetch in FETCHERS.values():
        monkeypatch.setattr(sklearn.datasets, fetch.__name__, offline(fetch.__name__))
    monkeypatch.delenv("DBMD_DATA", raising=False)
    monkeypatch.setattr(mnist, "N_400K", 200)


def offline(name):
    def fetch(**options):
        raise OSError("Network is unreachable.\nMore of it")

    fetch.__name__ = name
    return fetch


@pytest.fixture
def on_disk(small_files, monkeypatch):
    """Have small data sets in the folder named by DBMD_DATA."""
    monkeypatch.setenv("DBMD_DATA", str(small_files))


@pytest.fixture
def online(monkeypatch):
    """Have the same from scikit-learn's fetchers."""
    for fetch in FETCHERS.values():
        monkeypatch.setattr(sklearn.datasets, fetch.__name__, fetch)


@pytest.fixture(params=["on_disk", "online"])
def origin(request):
    """Have them in one way and then the other."""
    request.getfixturevalue(request.param)
