"""Scaling and logarithm: what a user would do by hand beforehand gives the same fit, in the units of the data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from dbmd import DBMD
from estimator.making import fitted, mixture


@pytest.fixture(scope="module")
def unscaled():
    """Return positive samples whose features have very different units, and their sources."""
    X, source, _, _ = mixture(n=200, sigmas=(0.1, 0.4))
    X = X - X.min() + 0.5
    return X * np.logspace(-2, 3, X.shape[1]), source


BY_HAND = {
    "standard": lambda X: X / X.std(axis=0),
    "minmax": lambda X: X / np.ptp(X, axis=0),
    "sum": lambda X: X / X.sum(axis=1, keepdims=True),
    "l2": lambda X: X / np.linalg.norm(X, axis=1, keepdims=True),
    None: lambda X: X,
}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("scaling", BY_HAND)
def test_scaling_by_hand_gives_the_same_fit(scaling, log, unscaled):
    X, source = unscaled
    model = fitted(X, source, scaling=scaling, log=log)
    by_hand = BY_HAND[scaling](np.log1p(X) if log else X)
    other = fitted(by_hand, source)
    assert_array_equal(model.labels_, other.labels_)
    assert_allclose(model.scaled_components_, other.components_, rtol=1e-6, atol=1e-9)
    assert_allclose(model.noise_variance_, other.noise_variance_, rtol=1e-6)
    assert_allclose(model.transform(X, source=source), other.transform(by_hand, source=source), atol=1e-6)
    assert_allclose(model.score(X, source=source), other.score(by_hand, source=source), rtol=1e-6)
    units = (other.components_ * model.scale_) if scaling in ("standard", "minmax") else other.components_
    assert_allclose(model.components_, np.expm1(units) if log else units, rtol=1e-5, atol=1e-9)
    assert ("log" in model.fit_info_["noise_unit"]) == log


def test_standardising_beforehand_gives_the_same_fit(unscaled):
    """Memberships sum to one, so that it does not matter that the means are subtracted, too."""
    X, source = unscaled
    model, scaler = fitted(X, source, scaling="standard"), StandardScaler().fit(X)
    other = fitted(scaler.transform(X), source)
    assert_array_equal(model.labels_, other.labels_)
    assert_allclose(model.components_, scaler.inverse_transform(other.components_), rtol=1e-6)
    assert_allclose(model.scale_, scaler.scale_, rtol=1e-12)


def test_without_scaling_there_is_one_unit(model, data):
    assert model.scaled_components_ is model.components_
    assert not hasattr(model, "scale_")
    assert model.fit_info_["noise_unit"] == "the data"


@pytest.mark.parametrize("log", [False, True])
def test_the_inverse_is_in_the_units_of_the_data(log, unscaled):
    X, _ = unscaled
    model = fitted(X, scaling="standard", log=log)
    back = model.inverse_transform(np.eye(3))
    assert_allclose(back, model.components_, rtol=1e-12)
    near = model.inverse_transform(model.transform(X))
    assert np.square((near - X) / X.std(axis=0)).mean() < 0.5 * np.square((X - X.mean(axis=0)) / X.std(axis=0)).mean()


def test_a_start_is_in_the_units_of_the_data(unscaled):
    X, _ = unscaled
    for how in ({"scaling": "standard"}, {"scaling": "standard", "log": True}, {"scaling": "sum"}):
        scale = BY_HAND[how["scaling"]]
        by_hand = scale(np.log1p(X) if how.get("log") else X)
        model = fitted(X, init=X[:3], max_iter=3, **how)
        assert_allclose(model.scaled_components_, fitted(by_hand, init=by_hand[:3], max_iter=3).components_, rtol=1e-6)


def test_a_warm_start_continues_in_the_units_of_the_data(unscaled):
    X, _ = unscaled
    model = DBMD(3, scaling="standard", log=True, random_state=0, warm_start=True).fit(X)
    before = model.components_
    assert model.fit(X).n_iter_ <= 3
    assert_allclose(model.components_, before, rtol=1e-2)


@pytest.mark.parametrize("scaling", ["standard", "minmax", "sum", "l2"])
def test_sparse_samples_are_scaled_as_dense_ones(scaling, rng):
    X = rng.poisson(0.7, size=(150, 6)) * np.logspace(0, 3, 6)
    X[0] = 0.0
    dense, thin = (fitted(form(X), scaling=scaling, log=True) for form in (np.asarray, sparse.csr_array))
    assert_allclose(thin.components_, dense.components_, rtol=1e-5, atol=1e-8)
    assert_allclose(thin.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-5)


def test_float32_stays_float32(unscaled):
    X, source = unscaled
    wide = fitted(X, source, scaling="standard", log=True)
    model = fitted(X.astype(np.float32), source, scaling="standard", log=True)
    for array in (model.components_, model.scaled_components_, model.transform(X.astype(np.float32), source=source)):
        assert array.dtype == np.float32
    assert_allclose(model.components_, wide.components_, rtol=0.02)


def test_further_batches_are_scaled_as_the_first(unscaled):
    X, source = unscaled
    model = DBMD(3, scaling="standard", random_state=0).partial_fit(X[:100], source=source[:100])
    scale = X[:100].std(axis=0)
    by_hand = DBMD(3, random_state=0).partial_fit(X[:100] / scale, source=source[:100])
    for part in (slice(100, 150), slice(150, 200)):
        model.partial_fit(X[part], source=source[part])
        by_hand.partial_fit(X[part] / scale, source=source[part])
    assert_allclose(model.scale_, scale, rtol=1e-12)
    assert_allclose(model.components_, by_hand.components_ * scale, rtol=1e-5)


def test_numbers_without_a_logarithm_are_refused(unscaled):
    X, _ = unscaled
    bad = X.copy()
    bad[7, 2] = -1.0
    with pytest.raises(ValueError, match=r"logarithm.*row 7, column 2"):
        DBMD(3, log=True).fit(bad)
    with pytest.raises(ValueError, match=r"logarithm.*row 7, column 2"):
        fitted(X, log=True).transform(bad)
