import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def _one_thread_for_k_means():
    """The k-means of a few candidates in scikit-learn mostly waits for its own threads; ours are not concerned."""
    with threadpool_limits(1, user_api="openmp"):
        yield
