import pytest

from report import models


@pytest.fixture(scope="session")
def digits():
    return models.fitted_digits()


@pytest.fixture(scope="session")
def large():
    return models.large()
