"""Known components, brightness, offsets, weights of samples and missing values, as users of the estimator see them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from dbmd import DBMD
from estimator.making import fitted


@pytest.fixture(scope="module")
def positive():
    """Return samples of positive components, their sources, and the components, shape (3, 8)."""
    rng = np.random.default_rng(3)
    components = rng.uniform(1.0, 9.0, size=(3, 8))
    source = np.arange(240) % 2
    X = rng.dirichlet(np.full(3, 0.3), 240) @ components + rng.normal(size=(240, 8)) * 0.1
    return X, source, components


# -- known components ----------------------------------------------------------------------------------------------


def test_known_components_come_first_and_keep_their_names(positive):
    X, _, W = positive
    columns = [f"band{j}" for j in range(8)]
    known = pd.DataFrame(W[[2, 0]], index=["clay", "sand"], columns=columns)
    model = fitted(pd.DataFrame(X, columns=columns), known=known[columns[::-1]])
    assert_array_equal(model.components_[:2], W[[2, 0]])
    assert_allclose(model.components_[2], W[1], atol=0.3)
    assert model.component_names_.tolist() == ["clay", "sand", "pattern 1"]
    assert model.get_feature_names_out().tolist() == ["clay", "sand", "pattern 1"]
    plain = fitted(X, known=W[[2, 0]])
    assert_allclose(plain.components_, model.components_, rtol=1e-12)
    assert not hasattr(plain, "component_names_")
    assert plain.get_feature_names_out().tolist() == ["dbmd0", "dbmd1", "dbmd2"]


@pytest.mark.parametrize("how", [{"scaling": "standard"}, {"scaling": "minmax", "log": True}], ids=str)
def test_known_components_are_in_the_units_of_the_data(how, positive):
    X, _, W = positive
    model = fitted(X, known=W, max_iter=0, **how)
    assert_array_equal(model.components_, W)
    assert model.n_iter_ == 0
    by_hand = np.log1p(W) if how.get("log") else W
    assert_allclose(model.scaled_components_, by_hand / model.scale_, rtol=1e-12)


def test_known_components_of_other_features_are_refused_before_anything_is_read(positive):
    X, _, W = positive
    known = pd.DataFrame(W, columns=list("abcdefgh"))
    with pytest.raises(ValueError, match=r"'known' parameter.*Missing: 'i'"):
        DBMD(3, known=known).fit(pd.DataFrame(X, columns=list("abcdefgi")))
    with pytest.raises(ValueError, match="column for each of the 8 features"):
        DBMD(3, known=W[:, :5]).fit(X)


# -- brightness ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", ["simplex", "energy"])
def test_memberships_and_brightness_describe_the_samples(shares, positive):
    rng = np.random.default_rng(5)
    _, _, W = positive
    H, s = rng.dirichlet(np.full(3, 0.3), 300), rng.uniform(0.3, 1.0, 300)
    X = s[:, None] * (H @ W)
    model = fitted(X, known=W, max_iter=0, brightness=True, shares=shares)
    found, brightness = model.transform(X, return_brightness=True)
    expected = H if shares == "simplex" else H * np.linalg.norm(W, axis=1)
    assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)
    assert_allclose(brightness, s, atol=1e-6)
    assert_allclose(model.inverse_transform(found, brightness=brightness), X, atol=1e-5)
    assert_array_equal(model.transform(X), found)
    assert_array_equal(model.labels_, found.argmax(axis=1))


def test_brightness_is_refused_by_models_without_it(model, data):
    X, source = data
    with pytest.raises(ValueError, match="brightness=True"):
        model.transform(X, source=source, return_brightness=True)
    with pytest.raises(ValueError, match="brightness=True"):
        model.inverse_transform(np.eye(3), brightness=np.ones(3))


# -- offsets -------------------------------------------------------------------------------------------------------


def test_offsets_have_the_units_of_the_data(positive):
    X, source, _ = positive
    X = (X + 3.0 * np.sin(np.arange(8)) * source[:, None]) * np.logspace(-1, 2, 8)
    model = fitted(X, source, offsets=True, scaling="standard")
    by_hand = fitted(X / X.std(axis=0), source, offsets=True)
    assert_allclose(model.offsets_, by_hand.offsets_ * X.std(axis=0), rtol=1e-5, atol=1e-6 * X.std())
    assert_allclose(model.offset_variance_, by_hand.offset_variance_, rtol=1e-5)
    assert model.offsets_.shape == (2, 8)
    # A source that was not in the fit gets an offset of its own, estimated from its samples.
    new = model.transform(X[source == 1], source=["new"] * 120)
    assert_allclose(new, model.transform(X, source=source)[source == 1], atol=0.1)


def test_a_warm_start_continues_with_all_parts(positive):
    X, source, W = positive
    shifted = X + 2.0 * np.cos(np.arange(8)) * source[:, None]
    how = {"offsets": True, "brightness": True, "scaling": "minmax", "known": W[:1], "random_state": 0}
    model = DBMD(3, warm_start=True, **how).fit(shifted, source=source)
    before = model.components_, model.offsets_
    assert model.fit(shifted, source=source).n_iter_ <= 3
    for found, expected in zip((model.components_, model.offsets_), before, strict=True):
        assert_allclose(found, expected, atol=0.02)


def test_offsets_need_several_sources(positive):
    X, _, _ = positive
    with pytest.raises(ValueError, match="'offsets' parameter"):
        DBMD(3, offsets=True).fit(X)


# -- weights of samples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"scaling": "standard"}], ids=str)
def test_weights_are_repetitions(how, positive, rng):
    X, source, W = positive
    how = how | {"effective_features": 8.0}  # else it is estimated from a sample that is drawn
    counts = rng.integers(0, 4, len(X))
    repeated, labels = np.repeat(X, counts, axis=0), np.repeat(source, counts)
    model = DBMD(3, init=W, **how).fit(X, source=source, sample_weight=counts)
    other = DBMD(3, init=W, **how).fit(repeated, source=labels)
    assert_allclose(model.components_, other.components_, rtol=1e-9)
    assert_allclose(model.noise_variance_, other.noise_variance_, rtol=1e-9)
    score = model.score(X, source=source, sample_weight=counts)
    assert_allclose(score, model.score(repeated, source=labels), rtol=1e-9)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.ones(3), r"shape \(240,\)"),
        (np.full(240, -1.0), "sample 0"),
        (np.where(np.arange(240) == 7, np.nan, 1.0), "sample 7"),
        (np.zeros(240), "zero"),
    ],
)
def test_wrong_weights_get_a_sentence(weights, says, positive):
    X, _, _ = positive
    for method in (DBMD(3).fit, DBMD(3).partial_fit):
        with pytest.raises(ValueError, match=f"(?s).*eight.*{says}"):
            method(X, sample_weight=weights)


# -- missing values ------------------------------------------------------------------------------------------------


def with_gaps(X):
    X = X.copy()
    X[np.random.default_rng(9).random(X.shape) < 0.03] = np.nan
    return X


def test_samples_that_are_dropped_are_as_if_they_were_not_there(positive):
    X, source, W = positive
    X = with_gaps(X)
    whole = ~np.isnan(X).any(axis=1)
    model = DBMD(3, init=W, missing="drop").fit(X, source=source)
    other = DBMD(3, init=W).fit(X[whole], source=source[whole])
    assert_allclose(model.components_, other.components_, rtol=1e-9)
    assert_array_equal(model.labels_[whole], other.labels_)
    assert (model.labels_[~whole] == -1).all()
    H = model.transform(X, source=source)
    assert np.isnan(H[~whole]).all()
    assert_allclose(H[whole], other.transform(X[whole], source=source[whole]), atol=1e-9)
    assert_array_equal(model.predict(X, source=source), model.labels_)


def test_missing_values_are_refused_with_a_remedy_unless_allowed(positive):
    X, _, _ = positive
    gaps = with_gaps(X)
    with pytest.raises(ValueError, match="missing='allow'"):
        DBMD(3).fit(gaps)
    model = fitted(X)
    with pytest.raises(ValueError, match="missing='allow'"):
        model.transform(gaps)
    gaps[3, 3] = np.inf
    with pytest.raises(ValueError, match=r"inf.* row 3, column 3"):
        DBMD(3, missing="allow").fit(gaps)


def test_a_mask_marks_missing_values(positive):
    X, _, _ = positive
    gaps = with_gaps(X)
    masked = np.ma.MaskedArray(np.nan_to_num(gaps, nan=-99.0), np.isnan(gaps))
    with pytest.raises(ValueError, match="missing='allow'"):
        DBMD(3).fit(masked)
    model, other = (fitted(form, missing="allow") for form in (masked, gaps))
    assert_array_equal(model.components_, other.components_)
    assert_array_equal(fitted(np.ma.MaskedArray(X)).components_, fitted(X).components_)


def test_the_score_is_that_of_the_values_that_are_there(positive):
    """By hand: a sample whose last features are missing is one of the others only, with the components cut likewise."""
    X, _, W = positive
    gaps = X.copy()
    gaps[:, 6:] = np.nan
    model = fitted(X, known=W, max_iter=0, noise=0.02).set_params(missing="allow")
    short = fitted(X[:, :6], known=W[:, :6], max_iter=0, noise=0.02)
    assert_allclose(model.score(gaps), short.score(X[:, :6]), rtol=1e-6)
    weights = np.arange(len(X)) % 3
    assert_allclose(model.score(gaps, sample_weight=weights), short.score(X[:, :6], sample_weight=weights), rtol=1e-6)


def test_missing_values_may_be_allowed_after_the_fit(positive):
    X, _, _ = positive
    model = fitted(X).set_params(missing="allow")
    H, near = model.transform(X), model.transform(with_gaps(X))
    assert np.abs(H - near).mean() < 0.03


# -- all of them, kept ---------------------------------------------------------------------------------------------

ALL = {
    "scaled": {"scaling": "standard"},
    "log": {"log": True, "scaling": "minmax"},
    "sums": {"scaling": "sum", "brightness": True, "shares": "energy"},
    "offsets": {"offsets": True, "scaling": "standard", "nonnegative": True},
    "known": {"known": True, "brightness": True, "log": True},
    "gaps": {"missing": "allow", "scaling": "standard"},
    "dropped": {"missing": "drop", "offsets": True},
}


@pytest.mark.parametrize("name", ALL)
def test_a_model_that_was_kept_is_the_same(name, positive, tmp_path):
    X, source, W = positive
    params = dict(ALL[name])
    if params.get("known"):
        params["known"] = pd.DataFrame(W[:2], index=["clay", "sand"])
    X = with_gaps(X) if "missing" in params else X
    model = fitted(X, source, max_iter=5, **params)
    model.save(tmp_path / "model")
    for copy in (dbmd.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        for labels in (source, ["new"] * len(X)):
            assert_array_equal(copy.transform(X, source=labels), model.transform(X, source=labels))
        assert_array_equal(copy.inverse_transform(np.eye(3)), model.inverse_transform(np.eye(3)))
        for attribute in ("components_", "scaled_components_", "scale_", "offsets_", "component_names_", "labels_"):
            assert hasattr(copy, attribute) == hasattr(model, attribute), attribute
            if hasattr(model, attribute):
                assert_array_equal(getattr(copy, attribute), getattr(model, attribute))
        assert copy.fit_info_["noise_unit"] == model.fit_info_["noise_unit"]
        copy.partial_fit(X[:50], source=source[:50])


def test_a_fit_that_was_replaced_leaves_nothing_behind(positive):
    X, source, W = positive
    model = fitted(X, source, scaling="standard", offsets=True, known={"clay": W[0]})
    model.set_params(scaling=None, offsets=False, known=None).fit(X, source=source)
    plain = fitted(X, source)
    assert vars(model).keys() == vars(plain).keys()
    assert_array_equal(model.transform(X, source=source), plain.transform(X, source=source))
