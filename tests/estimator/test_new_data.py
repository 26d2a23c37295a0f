"""Memberships and noise levels of samples that were not in the fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from estimator.making import fitted, mixture


def level_used(model, X, source):
    """Return sigma^2 that the model takes for samples of one source, by its score: there sigma^2 = squares / (m n)."""
    m = X.shape[1]
    return np.exp(-2 * model.score(X, source=source) / m - 1) / (2 * np.pi)


def test_known_sources_keep_their_noise(model):
    """Memberships of a known source are those for its sigma^2, whatever the new samples look like."""
    X, source, _, _ = mixture(7, n=30)
    H = model.transform(X, source=source)
    for c in range(3):
        alone = fitted(
            X, init=model.components_, noise=float(model.noise_variance_[c]), inference="map", alpha=1.5, max_iter=1
        )
        alone.components_ = model.components_
        rows = source == c
        assert_allclose(alone.transform(X[rows]), H[rows], atol=1e-8)


def test_the_noise_of_an_unknown_source_is_estimated():
    X, source, W, _ = mixture(n=600, m=40)
    model = fitted(X, source, inference="map", alpha=1.2, lam=0.1)
    new_rng = np.random.default_rng(5)
    for sigma in (0.05, 0.3, 1.0):
        H = new_rng.dirichlet(np.ones(3), 400)
        new = H @ W.T + sigma * new_rng.normal(size=(400, 40))
        found = level_used(model, new, ["never seen"] * 400)
        # 5 % of the noise for the memberships, the rest for what the components are wrong by
        assert_allclose(found, sigma**2, rtol=0.15, atol=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_known_data_under_a_new_name_gets_its_old_noise(alpha, data):
    X, source = data
    model = fitted(X, source, inference="map", alpha=alpha, lam=0.1, tol=1e-7, max_iter=2000)
    for c in range(3):
        rows = source == c
        assert_allclose(level_used(model, X[rows], ["new"] * rows.sum()), model.noise_variance_[c], rtol=1e-3)
        H = model.transform(X[rows], source=["new"] * rows.sum())
        assert_allclose(H, model.transform(X[rows], source=source[rows]), atol=1e-3)


def test_known_and_unknown_sources_do_not_disturb_each_other(model, data):
    X, source = data
    labels = np.where(source == 2, 17, source)  # 17 was not in the fit
    H = model.transform(X, source=labels)
    assert_allclose(H[source < 2], model.transform(X, source=source)[source < 2], atol=1e-9)
    unknown = source == 2
    assert_allclose(H[unknown], model.transform(X[unknown], source=labels[unknown]), atol=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_sample_is_transformed_alike_in_any_company(form, model, data):
    X, source = data
    H = model.transform(form(X), source=source)
    rng = np.random.default_rng(0)
    for size in (1, 2, 50, len(X)):
        rows = rng.permutation(len(X))[:size]
        assert_allclose(model.transform(form(X[rows]), source=source[rows]), H[rows], atol=1e-8)


def test_without_labels_samples_of_a_model_of_several_sources_are_of_an_unknown_one(model, data):
    X, _ = data
    H = model.transform(X)
    assert_allclose(H, model.transform(X, source=["anything"] * len(X)), atol=1e-9)
    assert_allclose(H.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(model.predict(X), H.argmax(axis=1))
    assert np.isfinite(model.score(X))


def test_without_labels_samples_of_a_model_of_one_source_are_of_that_one(data):
    X, _ = data
    model = fitted(X, inference="map", alpha=2.0)
    some = X[:5] + 100.0  # far off: a level of their own would be very different
    assert_allclose(model.transform(some), model.transform(some, source=np.full(5, model.sources_[0])), atol=1e-12)


def test_the_prior_of_a_vector_alpha_is_used_in_transform(data):
    X, source = data
    model = fitted(X, source, inference="map", alpha=[1.0, 1.0, 4.0], lam=0.1)
    plain = fitted(X, source, alpha=1.0, lam=0.1)
    plain.components_, plain.noise_variance_ = model.components_, model.noise_variance_
    change = model.transform(X, source=source) - plain.transform(X, source=source)
    assert change[:, 2].min() > -1e-9
    assert change[:, 2].max() > 1e-2


def test_memberships_are_the_minimiser_given_the_components(model, data):
    """No other point of the simplex has a lower objective, sample by sample."""
    X, source = data
    H = model.transform(X, source=source)
    sigma2 = model.noise_variance_[source]

    def value(H):
        return ((X - H @ model.components_) ** 2).sum(axis=1) / (2 * sigma2) - 0.5 * np.log(H).sum(axis=1)

    rng = np.random.default_rng(0)
    here = value(H)
    for step in (1e-4, 1e-2, 0.3, 1.0):
        for _ in range(5):
            other = (1 - step) * H + step * rng.dirichlet(np.ones(3), len(X))
            assert (value(other) >= here - 1e-9 * (1 + np.abs(here))).all()
