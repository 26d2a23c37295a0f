"""Findings fire where they should, say what to do, and leave good fits alone."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import dbmd
from dbmd import DBMD
from dbmd.advice.findings import says_much
from dbmd.dataset import in_memory
from dbmd.errors import DataWarning

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mixtures(n=400, m=6, r=3, sources=1, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(r, 0.3), n) @ rng.random((r, m)) + noise * rng.normal(size=(n, m))
    return X, np.arange(n) % sources


def told(X, r=3, source=None, **parameters):
    """Return the findings of a fit by kind; each was warned of, once, at the line that fitted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DBMD(r, random_state=0, **parameters).fit(X, source=source)
    caught = [each for each in caught if issubclass(each.category, DataWarning)]
    found = model.fit_info_["warnings"]
    assert [str(each.message) for each in caught] == [each["text"] for each in found]
    assert all(each.filename == __file__ for each in caught)
    for each in found:
        assert set(each) == {"kind", "text", "command_text"}
        assert each["text"].endswith(".")
        assert "\n" not in each["text"]
    return {each["kind"]: each for each in found}


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_digits, load_iris])
def test_good_data_are_left_alone(load):
    assert told(load().data, 4) == {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sources", [1, 4])
def test_made_up_data_are_left_alone(seed, sources):
    X, source = mixtures(sources=sources, seed=seed)
    assert told(X, source=source) == {}


def test_a_feature_with_all_variance_is_named():
    frame = load_wine(as_frame=True).data
    found = told(frame)
    assert found.keys() == {"variance"}
    assert "'proline' has over 99% of the variance" in found["variance"]["text"]
    assert found["variance"]["text"].endswith('set scaling="standard".')
    assert found["variance"]["command_text"].endswith("set --scaling standard.")
    assert told(frame / frame.std()) == {}


def test_identifiers_are_named():
    X, _ = mixtures()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    frame.insert(2, "patient id", np.arange(len(X)) / len(X))
    found = told(frame)
    assert found["identifier"]["text"].startswith("Feature 'patient id' looks like an identifier: its values rise")
    assert found["identifier"]["command_text"].endswith("leave it out with --drop 'patient id'.")
    assert "feature 2" in told(frame.to_numpy())["identifier"]["text"].lower()


@pytest.mark.parametrize("how", [{"scaling": "standard"}, {"scaling": "minmax", "log": True}, {"scaling": "sum"}])
def test_identifiers_are_found_whatever_is_done_to_the_data(how):
    X, _ = mixtures()
    frame = pd.DataFrame(np.abs(X), columns=[f"x{j}" for j in range(6)])
    assert "identifier" not in told(frame, **how)
    frame["id"] = np.random.default_rng(0).permutation(len(X))
    assert "'id' looks like" in told(frame, **how)["identifier"]["text"]


def test_the_fraction_of_missing_values_is_kept():
    X, _ = mixtures()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    info = DBMD(3, random_state=0, missing="allow").fit(X).fit_info_
    assert info["missing_fraction"] == pytest.approx(np.isnan(X).mean(), rel=1e-6)


def test_a_noise_level_at_its_floor_is_told_and_of_which_source():
    X, source = mixtures(sources=2)
    X[source == 1] = X[1]
    found = told(X, source=np.array(["lab", "field"])[source])
    assert found["noise"]["text"].startswith("The noise level of source 'field' is at the lower limit")
    X = X[np.arange(400) % 3]
    assert told(X)["noise"]["text"].startswith("The noise level is at the lower limit")
    assert "noise" not in told(X, noise=0.1)


def test_a_source_with_fewer_samples_than_components_is_told():
    X, source = mixtures()
    source[:2] = 1
    found = told(X, source=source)
    assert found["source"]["text"].startswith("Source 1 (2 samples) has fewer samples than there are components (3)")
    assert told(X, source=source, noise="shared") == {}
    found = told(X, source=source, noise="shared", offsets=True)
    assert found["source"]["text"].endswith(
        "its offset is unreliable. Put small sources together, or leave offsets out, offsets=False."
    )


def test_offsets_that_cannot_be_told_from_memberships_are_told():
    rng = np.random.default_rng(0)
    source = np.arange(600) % 3
    concentration = 0.3 + np.eye(3)[source]

    def drawn(most):
        H = np.array([rng.dirichlet(row) for row in concentration * np.where(np.eye(3)[source] > 0, most, 1.0)])
        return H @ np.random.default_rng(1).random((3, 20)) + 0.02 * rng.normal(size=(600, 20))

    assert "cannot be told from" in told(drawn(4.0), source=source, offsets=True)["offsets"]["text"]
    assert told(drawn(0.5), source=source, offsets=True) == {}
    assert told(drawn(4.0), source=source) == {}


def test_offsets_that_hold_what_belongs_to_patterns_are_told():
    digits, source = load_digits().data, np.arange(1797) % 3
    alike = told(digits, 10, source=source, offsets=True, nonnegative=True)  # no pattern may be as dark as they want
    assert "nearly the same" in alike["offsets"]["text"]
    rng = np.random.default_rng(0)
    X = rng.random((2, 12)).repeat(200, axis=0) + 0.05 * rng.normal(size=(400, 12))
    assert "much larger" in told(X, 2, source=np.arange(400) // 200, offsets=True)["offsets"]["text"]
    X, source = mixtures(sources=4)
    X += rng.normal(size=(4, 6))[source]
    assert told(X, source=source, offsets=True) == {}


def test_a_pattern_that_leads_few_samples_is_told_in_data_of_some_size():
    X, _ = mixtures()
    X[:4] += 20.0
    assert "(4 samples) leads fewer than 10 samples" in told(X, 4)["pattern"]["text"]
    assert "pattern" not in told(X[:200], 4)


def test_warnings_are_saved_with_a_model(tmp_path):
    with pytest.warns(DataWarning, match="proline"):
        model = DBMD(3, random_state=0).fit(load_wine(as_frame=True).data)
    model.save(tmp_path / "model")
    assert dbmd.load(tmp_path / "model").fit_info_["warnings"] == model.fit_info_["warnings"]


def test_a_fit_that_is_resumed_tells_what_it_would_have_told():
    X = np.asarray(load_wine().data)
    X = np.c_[X, np.arange(len(X))]
    states = []
    data = in_memory(X, None, 0)
    whole = DBMD(3, random_state=0).fit_data(data, on_iteration=states.append)
    resumed = DBMD(3, random_state=0).fit_data(data, resume=states[0])
    assert resumed.fit_info_["warnings"] == whole.fit_info_["warnings"]
    assert {each["kind"] for each in whole.fit_info_["warnings"]} == {"variance", "identifier"}


def test_a_further_batch_keeps_what_the_data_asked_for():
    frame = load_wine(as_frame=True).data
    model = DBMD(3, random_state=0).partial_fit(frame[:100])
    assert [each["kind"] for each in model.partial_fit(frame[100:]).fit_info_["warnings"]] == ["variance"]


def test_no_samples_are_drawn_to_look_at_them():
    """With these parameters nothing leaves the nodes but sums."""
    X, _ = mixtures()
    X[:, 0] *= 1000.0
    assert "variance" in told(X)
    assert "variance" not in told(X, inference="map", init=X[:3])


def test_what_is_explained_is_told_unless_it_would_be_praise():
    assert says_much(0.9999, [])
    assert not says_much(0.9999, ["pattern"])
    assert says_much(0.5, ["pattern"])
    assert not says_much(0.5, ["variance"])
    assert not says_much(None, [])
