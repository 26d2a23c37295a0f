import pytest
from threadpoolctl import threadpool_limits

from estimator.making import fitted, mixture


@pytest.fixture(autouse=True, scope="module")
def _one_thread_for_k_means():
    """The k-means of a few candidates in scikit-learn mostly waits for its own threads; ours are not concerned."""
    with threadpool_limits(1, user_api="openmp"):
        yield


@pytest.fixture(scope="module")
def data():
    X, source, _, _ = mixture()
    return X, source


@pytest.fixture(scope="module")
def model(data):
    X, source = data
    return fitted(X, source, inference="map", alpha=1.5, lam=0.1)
