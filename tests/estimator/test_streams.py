"""Streams that drift, and partial_fit among scikit-learn's conventions."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

import dbmd
from dbmd import DBMD, open_data
from dbmd.report.page import render
from estimator.streams import basis, batch, batches, distance, learned, streamed

# -- streams -------------------------------------------------------------------------------------------------------


def test_a_drifting_stream_is_followed_if_the_past_is_forgotten():
    start, end = basis(0), basis(0) + 0.7 * basis(9)
    steps = 30
    bases = [start + (end - start) * t / (steps - 1) for t in range(steps)]
    stream = [batch(t, W, n=200) for t, W in enumerate(bases)]
    followed, remembered = (distance(streamed(stream, forget_factor=f), end) for f in (0.7, 1.0))
    assert followed < 0.15  # 0.11 is reached, and 0.35 if nothing is forgotten
    assert remembered > 2 * followed


@pytest.mark.parametrize("forget_factor", [0.7, 0.95])
def test_epochs_over_shuffled_batches_come_near_to_a_fit(forget_factor):
    X = load_digits().data
    full = DBMD(10, random_state=0, tol=1e-4).fit(X)
    model = DBMD(10, random_state=0, forget_factor=forget_factor)
    rng = np.random.default_rng(0)
    for _ in range(5):
        for part in np.array_split(rng.permutation(len(X)), 6):
            model.partial_fit(X[part])
    # Relative to the scale of the objective, which is m / 2 a sample.
    gap = (full.score(X) - model.score(X)) / (X.shape[1] / 2)
    assert abs(gap) < 0.01  # 0.003 and 0.005 are reached
    assert model.n_samples_seen_ == 5 * len(X)


@pytest.mark.slow
def test_a_long_stream_stays_where_it_belongs():
    """Without lam the components go on, slowly, to where a fit to the end takes them; with it they do not."""
    start, end = (streamed(batches(count, n=100), lam=20.0) for count in (10, 300))
    assert distance(start, basis()) < 0.1
    assert distance(end, basis()) < 0.1


def test_a_component_that_no_sample_belongs_to_stays(tmp_path):
    X, _ = batch(0, basis())
    model = dbmd.load(streamed([(X, None)]).save(tmp_path / "model"))  # which remembers no samples
    before = model.components_.copy()
    model.partial_fit(np.tile(before[:1], (5, 1)))  # five times the first component itself
    assert_allclose(model.components_[0], before[0], atol=1e-3)
    assert_allclose(model.components_[1:], before[1:], atol=1e-6)


# -- scikit-learn's ways -------------------------------------------------------------------------------------------


def test_attributes_are_those_of_the_last_batch():
    stream = batches(3, sigmas=(0.1, 1.0))
    model = streamed(stream, inference="map")
    X, source = stream[-1]
    assert_array_equal(model.labels_, model.predict(X, source=source))
    assert_allclose(model.cluster_sizes_, model.transform(X, source=source).sum(axis=0))
    assert (model.n_steps_, model.n_samples_seen_, model.n_iter_) == (3, 450, 1)
    assert model.fit_info_["n_samples"] == len(X)
    squares = ((X - model.transform(X, source=source) @ model.components_) ** 2).sum(axis=1)
    sigma2 = model.noise_variance_[source]
    assert_allclose(model.objective_, (squares / (2 * sigma2) + 4 * np.log(sigma2)).sum(), rtol=1e-8)
    assert model.history_[0].objective == model.objective_


def test_another_number_of_features_is_refused():
    model = streamed(batches(1))
    with pytest.raises(ValueError, match="X has 7 features, but DBMD is expecting 8 features"):
        model.partial_fit(np.ones((20, 7)))
    assert model.n_steps_ == 1


def test_other_names_of_features_are_refused():
    X, _ = batch(0, basis())
    model = streamed([(pd.DataFrame(X, columns=list("abcdefgh")), None)])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(pd.DataFrame(X, columns=list("abcdefgx")))
    model.partial_fit(pd.DataFrame(X, columns=list("abcdefgh")))
    assert model.feature_names_in_.tolist() == list("abcdefgh")


def test_the_first_batch_has_at_least_as_many_samples_as_components():
    X, _ = batch(0, basis())
    model = DBMD(3, random_state=0)
    with pytest.raises(ValueError, match=r"at most the number of samples\. Got n_components=3 with n_samples = 2"):
        model.partial_fit(X[:2])
    model.partial_fit(X).partial_fit(X[:1])  # a later one may be as small as it likes
    assert model.n_samples_seen_ == len(X) + 1
    assert np.isfinite(model.components_).all()


def test_what_is_not_finite_is_refused_and_changes_nothing():
    (X, source), (bad, _) = batches(2)
    model = streamed([(X, source)])
    before = pickle.dumps(vars(model))
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN in row 3, column 2"):
        model.partial_fit(bad, source=source)
    assert pickle.dumps(vars(model)) == before


def test_another_number_of_components_is_refused():
    X, _ = batch(0, basis())
    model = streamed([(X, None)]).set_params(n_components=4)
    with pytest.raises(ValueError, match=r"must not change between batches: the model has 3\. Got 4"):
        model.partial_fit(X)


def test_a_wrong_forget_factor_is_refused():
    with pytest.raises(ValueError, match="'forget_factor' parameter of DBMD must be a float > 0 and <= 1"):
        streamed(batches(1), forget_factor=0.0)


def test_a_clone_has_seen_nothing():
    stream = batches(2)
    fresh = clone(streamed(stream, forget_factor=0.3))
    assert fresh.forget_factor == 0.3
    assert not learned(fresh)
    for X, source in stream:
        fresh.partial_fit(X, source=source)
    assert_array_equal(fresh.components_, streamed(stream, forget_factor=0.3).components_)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_go_on_alike(copied):
    *stream, (X, source) = batches(3, sigmas=(0.1, 1.0))
    model = streamed(stream)
    other = copied(model)
    model.partial_fit(X, source=source)
    assert_array_equal(other.partial_fit(X, source=source).components_, model.components_)
    assert_array_equal(other.noise_variance_, model.noise_variance_)


def test_a_loaded_model_goes_on_from_its_components(tmp_path):
    *stream, (X, source) = batches(3, sigmas=(0.1, 1.0))
    model = streamed(stream)
    loaded = dbmd.load(model.save(tmp_path / "model"))
    assert (loaded.n_steps_, loaded.n_samples_seen_) == (2, 300)
    assert_array_equal(loaded.labels_, model.labels_)
    loaded.partial_fit(X, source=source)
    assert (loaded.n_steps_, loaded.n_samples_seen_) == (3, 450)
    # It knows nothing of the batches before, so that it does not matter how much of them is forgotten.
    other = dbmd.load(tmp_path / "model").set_params(forget_factor=0.1).partial_fit(X, source=source)
    assert_array_equal(other.components_, loaded.components_)
    assert distance(loaded, basis()) < 0.2


def test_a_model_that_was_saved_before_there_were_batches_came_from_one(tmp_path):
    path = streamed(batches(1)).save(tmp_path / "model")
    record = json.loads((path / "model.json").read_text())
    del record["checksum"], record["n_steps"], record["n_samples_seen"], record["params"]["forget_factor"]
    (path / "model.json").write_text(json.dumps(record))
    model = dbmd.load(path)
    assert (model.n_steps_, model.n_samples_seen_, model.forget_factor) == (1, 150, 0.7)


def test_a_model_with_a_source_that_is_not_in_the_batch_is_saved_and_has_a_report(tmp_path):
    X, source = batch(0, basis(), sigmas=(0.2, 1.0))
    model = streamed([(X, source), (X[source == 1], source[source == 1])])
    loaded = dbmd.load(model.save(tmp_path / "model"))
    for name in ("profile_", "membership_sample_"):
        np.testing.assert_equal(vars(getattr(loaded, name)), vars(getattr(model, name)))
        setattr(loaded, name, getattr(model, name))
    np.testing.assert_equal(learned(loaded), learned(model))
    assert "<html" in render(loaded)


def test_files_are_batches(tmp_path):
    stream = batches(3)
    for i, (X, _) in enumerate(stream):
        np.save(tmp_path / f"{i}.npy", X)
    model = DBMD(3, random_state=0).partial_fit(tmp_path / "0.npy").partial_fit(str(tmp_path / "1.npy"))
    with open_data(tmp_path / "2.npy") as data:
        model.partial_fit(data)
    assert_allclose(model.components_, streamed([(X, None) for X, _ in stream]).components_, rtol=1e-8, atol=1e-8)
    assert_array_equal(model.labels_, model.predict(tmp_path / "2.npy"))


def test_what_is_on_a_cluster_is_refused():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"partial_fit takes batches that are here, not on dask\."):
        DBMD(3).partial_fit(da.ones((20, 3)))


def test_the_source_can_be_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        request = DBMD().set_partial_fit_request(source=True).get_metadata_routing().partial_fit
    assert request.requests == {"source": True, "sample_weight": None}
