import numpy as np
import pytest
from hypothesis import settings

# The same examples in every run; a compiled kernel may take its time on the first one.
settings.register_profile("dbmd", deadline=None, derandomize=True, max_examples=40, print_blob=True)
settings.load_profile("dbmd")


@pytest.fixture
def rng():
    return np.random.default_rng(42)
