"""The real files, where the folder named by DBMD_DATA has them."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd.data.datasets import load, mnist

pytestmark = pytest.mark.slow
DATA = os.environ.get("DBMD_DATA", "")  # as it was before the other tests' fixtures
FULL = mnist.N_400K


@pytest.fixture
def real(request, monkeypatch):
    name = request.param
    if not (DATA and (Path(DATA) / name).is_dir()):
        pytest.skip(f"DBMD_DATA={DATA!r} has no folder {name}")
    monkeypatch.setenv("DBMD_DATA", DATA)
    monkeypatch.setattr(mnist, "N_400K", FULL)


def files(name):
    return pytest.mark.parametrize("real", [name], indirect=True)


@files("covtype")
def test_covtype(real):
    data = load("covtype")
    assert data.X.shape == (581_012, 54)
    assert np.bincount(data.y).tolist() == [0, 211840, 283301, 35754, 2747, 9493, 17367, 20510]
    assert (data.X[:, 10:14].sum(axis=1) == 1).all()
    assert (data.X[:, 14:].sum(axis=1) == 1).all()


@files("kdd99")
def test_kdd99(real):
    data = load("kdd99")
    assert data.X.shape == (493_842, 41)
    sizes = {"smurf": 280790, "neptune": 107201, "normal": 97278, "back": 2203, "satan": 1589, "ipsweep": 1247}
    sizes |= {"portsweep": 1040, "warezclient": 1020, "teardrop": 979, "pod": 264, "nmap": 231}
    assert Counter(data.y.tolist()) == sizes
    assert data.X[:, 1:4].max(axis=0).tolist() == [2, 65, 10]
    assert data.X[:, 4].max() == 693_375_640


@files("mnist")
def test_mnist(real):
    data = load("mnist")
    assert data.X.shape == (70_000, 784)
    assert (data.X.min(), data.X.max()) == (0.0, 1.0)
    assert np.bincount(data.y[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.y[60_000:]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@files("mnist")
def test_most_deformed_digits_are_nearest_to_an_original_of_their_class(real):
    originals, copies = load("mnist", n=5000), load("mnist-400k", n=300)
    distances = (originals.X**2).sum(axis=1) - 2.0 * copies.X @ originals.X.T
    assert np.mean(originals.y[distances.argmin(axis=1)] == copies.y) > 0.8


@files("cellmix")
def test_cellmix(real):
    data = load("cellmix")
    assert data.X.shape == (1107, 10_980)
    assert Counter(data.source.tolist()) == {"batch 1": 266, "batch 2": 268, "batch 3": 285, "batch 4": 288}
    assert_allclose(data.truth.sum(axis=1), 1.0)
    # Libraries grow from batch to batch: that is what makes the noise of the sources differ.
    sizes = [np.median(data.X[data.source == batch].sum(axis=1)) for batch in np.unique(data.source)]
    assert sizes == sorted(sizes)
