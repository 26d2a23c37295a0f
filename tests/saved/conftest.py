import numpy as np
import pandas as pd
import pytest

from dbmd import DBMD
from saved.models import samples


@pytest.fixture(scope="module")
def model():
    X = pd.DataFrame(samples(), columns=["a", "b", "c", "d e"])
    return DBMD(3, inference="map", alpha=1.5, random_state=0).fit(X, source=np.arange(60) % 2)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return model.save(tmp_path_factory.mktemp("saved") / "model")
