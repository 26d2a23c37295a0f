"""J says which parts of the model pay, and is not taken in by those that do not."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine

from dbmd import DBMD
from dbmd.advice.check import compare
from dbmd.config import Config
from dbmd.model.start import Sample


def compared(X, r=3, source=None, weights=None, **parameters):
    n = X.shape[0]
    source = np.zeros(n, int) if source is None else source
    sample = Sample(X, source, np.ones(n) if weights is None else weights, n)
    return compare(sample, Config(n_components=r, **parameters), int(source.max()) + 1, seed=0)


def made_up(*, brightest=1.0, offsets=0.0, scales=0.0, sources=1, n=600, m=20, r=3, seed=0):
    """Mixtures in noise, with a brightness between ``brightest`` and 1, offsets, and features of different scales."""
    rng = np.random.default_rng(seed)
    W, source = rng.random((r, m)), np.arange(n) % sources
    X = rng.dirichlet(np.full(r, 0.3), n) @ W * rng.uniform(brightest, 1.0, n)[:, None]
    X += (offsets * rng.normal(size=(sources, m)) * W.std(axis=0))[source]
    X += 0.15 * W.std() * rng.normal(size=X.shape)
    return X * np.exp(scales * rng.normal(size=m)), source


CASES = {
    "nothing": ({"sources": 3}, ()),
    "brightness": ({"brightest": 0.3}, ("brightness",)),
    "offsets": ({"offsets": 0.5, "sources": 3}, ("offsets",)),
    "scales": ({"scales": 2.0, "sources": 3}, ("scaling",)),
    "all": ({"brightest": 0.3, "offsets": 0.5, "scales": 2.0, "sources": 3}, ("offsets", "scaling", "brightness")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_data_pays_and_nothing_else(case):
    details, expected = CASES[case]
    X, source = made_up(**details)
    found = compared(X, source=source)
    assert found.pays == expected
    assert [finding.kind for finding in found.findings()] == ["check"] * len(expected)


def test_real_data():
    assert compared(load_wine().data).pays == ("scaling",)
    assert compared(load_iris().data).pays == ()
    assert compared(load_digits().data, 10).pays == ()


def test_scales_do_not_change_what_is_compared():
    """J is in the same units on both sides: one factor for all features changes nothing."""
    X, _ = made_up(brightest=0.3)
    one, other = compared(X).gains, compared(1000.0 * X).gains
    assert one.keys() == other.keys() == {"scaling", "brightness"}
    for name in one:
        assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-3)


def test_what_a_fit_has_already_is_not_tried():
    X, source = made_up(sources=2, n=300)
    assert compared(X, source=source, brightness=True, offsets=True, scaling="standard").gains == {}
    assert compared(X, brightness=True, scaling="l2").gains == {}


def test_sparse_samples_are_compared():
    X, _ = made_up(brightest=0.3, n=500)
    assert compared(sparse.csr_array(X)).pays == ("brightness",)


def test_the_method_takes_what_a_fit_takes(tmp_path):
    X, source = made_up(brightest=0.3, offsets=0.5, sources=3)
    model = DBMD(3, random_state=0)
    found = model.check(X, source=source)
    assert found.pays == ("offsets", "brightness")
    assert not hasattr(model, "n_features_in_")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(lab=source)
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert model.check(tmp_path / "data.csv", source="lab").pays == found.pays
    model.set_params(offsets=True)
    assert model.check(X, source=source).pays == ("brightness",)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    model.set_params(missing="allow")
    assert model.check(X, source=source, sample_weight=np.ones(len(X))).pays == ("brightness",)
