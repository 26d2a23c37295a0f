"""Models that were pickled: by this version, and by version 0.1, whose classes have moved since."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from dbmd import DBMD
from estimator.making import run_python

OLD = Path(__file__).with_name("model-0.1.pkl")  # DBMD(3, random_state=0).fit(X, source=source) of the samples below


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.dirichlet([0.5] * 3, 60) @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(60, 4))
    return X, np.arange(60) % 2


# A pickle of NumPy 2 refers to modules that NumPy 1 does not have.
needs_numpy_2 = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="pickled with NumPy 2")


@pytest.fixture
def old():
    return pickle.loads(OLD.read_bytes())


def test_a_pickle_is_the_same_model(model, data):
    X, source = data
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.transform(X, source=source), model.transform(X, source=source))
    assert_array_equal(copy.noise_variance_, model.noise_variance_)
    assert copy.history_ == model.history_
    assert copy.score(X, source=source) == model.score(X, source=source)


def test_a_pickle_names_the_public_module():
    assert DBMD.__module__ == "dbmd.estimator"
    assert b"dbmd.estimator\n" in pickle.dumps(DBMD(), 0)


@needs_numpy_2
def test_an_old_pickle_is_loaded_by_a_process_that_has_imported_nothing(samples):
    X, source = samples
    code = f"""
import json, pickle
model = pickle.load(open({str(OLD)!r}, "rb"))
print(json.dumps(model.predict({X.tolist()}, source={source.tolist()}).tolist()))
"""
    assert_array_equal(eval(run_python(code)), pickle.loads(OLD.read_bytes()).labels_)


@needs_numpy_2
def test_an_old_pickle_predicts(old, samples):
    X, source = samples
    assert_array_equal(old.predict(X, source=source), old.labels_)
    new = DBMD(3, random_state=0).fit(X, source=source)
    assert_allclose(old.transform(X, source=source), new.transform(X, source=source), atol=1e-6)
    assert old.history_[-1].objective == pytest.approx(new.objective_)


@needs_numpy_2
def test_an_old_pickle_goes_on_with_what_it_knew_of_earlier_batches(old, samples, tmp_path):
    """A model that was saved and loaded has forgotten them; so the two must differ."""
    X, source = samples
    forgetful = dbmd.load(old.save(tmp_path / "model"))
    again = pickle.loads(pickle.dumps(old))
    for model in (old, forgetful, again):
        model.partial_fit(X[:20], source=source[:20])
    assert_array_equal(again.components_, old.components_)
    assert not np.array_equal(forgetful.components_, old.components_)


def test_a_pickle_made_before_standard_deviations_were_found_when_needed_has_its_sample(model):
    state = {**vars(model), "membership_sample_": model.membership_sample_}
    del state["_membership_sample"]
    copy = DBMD.__new__(DBMD)
    copy.__setstate__(state)
    assert_array_equal(copy.membership_sample_.std, model.membership_sample_.std)
