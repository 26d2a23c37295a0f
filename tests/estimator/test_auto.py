"""A number of components that the data choose, and whether two halves agree on what was found."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import dbmd
from dbmd import DBMD, choose_components
from dbmd.config import Config
from dbmd.estimator import _number
from dbmd.estimator._number import numbers_for
from estimator.making import mixture


@pytest.fixture(scope="module")
def data():
    """Three components in three dimensions: no more than four are tried."""
    X, source, _, _ = mixture(n=160, m=3, sigmas=(0.1, 0.3))
    return X, source


@pytest.fixture(scope="module")
def model(data):
    X, source = data
    return DBMD("auto", random_state=0, halves=True).fit(X, source=source)


def test_it_is_the_fit_with_the_number_that_choose_components_finds(data, model):
    X, source = data
    choice = choose_components(X, range(2, 5), source=source, random_state=0)
    assert model.choice_.asdict() == choice.asdict()
    assert model.n_components_ == choice.n_components == 3
    assert choice.is_stable
    given = DBMD(3, random_state=0).fit(X, source=source)
    np.testing.assert_array_equal(model.components_, given.components_)
    assert model.objective_ == given.objective_
    assert given.n_components_ == 3
    assert not hasattr(given, "choice_")
    # The parameter stays what it was, so that a copy chooses again.
    assert clone(model).n_components == model.n_components == "auto"


def test_everything_after_the_fit_has_the_number_that_was_found(data, model, tmp_path):
    X, source = data
    assert model.transform(X, source=source).shape == (len(X), 3)
    assert model.score(X, source=source) == DBMD(3, random_state=0).fit(X, source=source).score(X, source=source)
    assert model.get_feature_names_out().tolist() == ["dbmd0", "dbmd1", "dbmd2"]
    assert model.check(X, source=source).gains == DBMD(3, random_state=0).check(X, source=source).gains
    loaded = dbmd.load(model.save(tmp_path / "model"))
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        assert other.n_components == "auto"
        assert other.n_components_ == 3
        assert other.choice_.asdict() == model.choice_.asdict()
        np.testing.assert_array_equal(other.agreement_, model.agreement_)
        np.testing.assert_array_equal(other.transform(X), model.transform(X))


def test_a_batch_that_follows_keeps_the_number_and_loses_the_agreement(data, model, monkeypatch):
    X, source = data
    choices = iter([model.choice_])
    monkeypatch.setattr(_number, "choose", lambda *a, **k: next(choices))  # once: it takes longest
    stream = DBMD("auto", random_state=0, halves=True).partial_fit(X, source=source)
    np.testing.assert_array_equal(stream.components_, model.components_)
    np.testing.assert_array_equal(stream.agreement_, model.agreement_)
    stream.partial_fit(X[:40] + 0.1, source=source[:40])
    assert stream.n_components_ == stream.choice_.n_components == 3
    assert not hasattr(stream, "agreement_")


def test_a_warm_start_keeps_the_number_and_a_cold_one_does_not(data, model, monkeypatch):
    X, source = data
    warm = pickle.loads(pickle.dumps(model)).set_params(warm_start=True, halves=False)
    monkeypatch.setattr(_number, "choose", lambda *a, **k: pytest.fail("there is nothing to choose"))
    warm.fit(X[:100], source=source[:100])
    assert warm.n_components_ == warm.choice_.n_components == 3
    assert not hasattr(warm, "agreement_")
    assert not hasattr(warm.set_params(n_components=2, warm_start=False).fit(X, source=source), "choice_")


def test_the_agreement_is_of_each_component_and_changes_nothing(data, model):
    X, source = data
    assert model.agreement_.shape == (3,)
    assert (model.agreement_ > 0.98).all()
    assert (model.agreement_ <= 1.0).all()
    more = DBMD(4, random_state=0, halves=True).fit(X, source=source)
    assert more.agreement_.shape == (4,)
    assert more.agreement_.min() < 0.9  # the fourth is another one in each half
    np.testing.assert_array_equal(more.components_, DBMD(4, random_state=0).fit(X, source=source).components_)


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 15), st.booleans())
def test_what_is_tried_fits_the_data(n, m, n_known, brightness):
    known = np.zeros((n_known, m)) if n_known else None
    config = Config("auto", known=known, brightness=brightness)
    fewest = max(2, n_known)
    if n < 4 * fewest:
        with pytest.raises(ValueError, match=rf"needs at least {4 * fewest}\. Got n_samples = {n}\."):
            numbers_for(config, (n, m))
        return
    tried = numbers_for(config, (n, m))
    assert tried.start == fewest
    assert fewest <= tried[-1] <= n // 4
    assert tried[-1] <= max(fewest, m + 1 - brightness)
    assert n < 48 or m < 12 or brightness or tried[-1] >= 12


def test_too_few_samples_are_said_before_anything_is_computed():
    with pytest.raises(ValueError, match="'n_components' parameter of DBMD must be an int for data of so few samples"):
        DBMD("auto").fit(np.eye(5))
    with pytest.raises(ValueError, match=r"'halves' parameter of DBMD must be False for so few samples: .* 12 in all"):
        DBMD(3, halves=True).fit(np.eye(5))


DAMAGE = {
    "no object": (lambda choice: "three", "choice must be an object"),
    "another number": (lambda choice: choice | {"n_components": 7}, "choice must have an agreement"),
    "no number": (lambda choice: choice | {"limit": None}, r"choice\.limit must be a finite number"),
    "a pair too few": (
        lambda choice: choice | {"agreement": [[row[1:] for row in each] for each in choice["agreement"]]},
        r"choice\.agreement of 2 components must have 2 numbers for each split",
    ),
    "no splits": (lambda choice: choice | {"agreement": []}, "choice must have an agreement"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_choice_that_was_damaged_is_no_sound_model(name, model, tmp_path):
    damage, message = DAMAGE[name]
    file = model.save(tmp_path / "model") / "model.json"
    record = json.loads(file.read_text("utf-8"))
    record["choice"] = damage(record["choice"])
    del record["checksum"]
    file.write_text(json.dumps(record), "utf-8")
    with pytest.raises(ValueError, match=f"not a sound model: {message}"):
        dbmd.load(tmp_path / "model")
