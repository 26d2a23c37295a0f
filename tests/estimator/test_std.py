"""Standard deviations and means of memberships, and standard deviations of components, of a fitted model."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Barrier

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd import DBMD, load
from dbmd.model.w_error import likely_errors

R, M = 3, 12


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    W, H = rng.uniform(0.5, 2.0, (R, M)), rng.dirichlet(np.full(R, 0.4), 600)
    source = np.arange(600) % 2
    return H @ W + rng.normal(size=(600, M)) * np.where(source, 0.4, 0.1)[:, None], source, W


@pytest.fixture(scope="module")
def model(data):
    X, source, W = data
    return DBMD(R, init=W, random_state=0).fit(X, source=source)


def test_what_is_returned(model, data):
    X, source, _ = data
    H, std = model.transform(X, source=source, return_std=True)
    assert_array_equal(H, model.transform(X, source=source))
    assert std.shape == H.shape == (600, R)
    assert (std > 0.0).all()
    assert std[source == 1].mean() > 2.0 * std[source == 0].mean()
    mean, same = model.transform(X, source=source, return_std=True, kind="mean")
    assert_array_equal(same, std)
    assert_array_equal(mean, model.transform(X, source=source, kind="mean"))
    assert (mean >= 0.0).all()
    assert (mean < 1e-6).sum() < 0.2 * (H < 1e-6).sum()
    assert_allclose(mean.sum(axis=1), 1.0)


def test_another_kind_is_refused(model, data):
    with pytest.raises(ValueError, match=r"kind must be 'peak' or 'mean'\. Got 'median'"):
        model.transform(data[0], kind="median")


@pytest.mark.parametrize("parts", [{}, {"brightness": True}, {"brightness": True, "shares": "energy"}])
def test_nodes_types_and_sparse_data_do_not_matter(data, parts):
    X, source, W = np.maximum(data[0], 0.0), data[1], data[2]
    one = DBMD(R, init=W, n_nodes=1, **parts).fit(X, source=source)
    many = DBMD(R, init=W, n_nodes=5, **parts).fit(X, source=source)
    expected = one.transform(X, source=source, return_std=True, kind="mean")
    assert_allclose(many.transform(X, source=source, return_std=True, kind="mean"), expected, atol=1e-6)
    assert_allclose(many.components_std_, one.components_std_, rtol=1e-4)
    assert_allclose(many.membership_sample_.std, one.membership_sample_.std, rtol=1e-6)
    assert_allclose(
        one.transform(sparse.csr_array(X), source=source, return_std=True, kind="mean"), expected, atol=1e-6
    )
    single = one.transform(X.astype(np.float32), source=source, return_std=True, kind="mean")
    assert [each.dtype for each in single] == [np.float32] * 2
    assert_allclose(single, expected, atol=2e-3)
    if parts:
        assert len(one.transform(X, source=source, return_std=True, return_brightness=True)) == 3


def test_the_order_of_components_does_not_matter(model, data):
    X, source, W = data
    other = DBMD(R, init=W[::-1], random_state=0).fit(X, source=source)
    assert_allclose(other.components_std_[::-1], model.components_std_, rtol=0.3)  # up to the draw of made-up samples


def test_components_std_has_the_units_of_the_data(data):
    X, source, W = np.abs(data[0]), data[1], data[2]
    plain = DBMD(R, init=W).fit(X, source=source)
    larger = DBMD(R, init=7.0 * W).fit(7.0 * X, source=source)
    assert_allclose(larger.components_std_, 7.0 * plain.components_std_, rtol=1e-3)
    scale = np.geomspace(1e-3, 1e3, M)
    scaled = [DBMD(R, init=W * s, scaling="standard").fit(X * s, source=source) for s in (np.ones(M), scale)]
    assert_allclose(scaled[1].components_std_, scaled[0].components_std_ * scale, rtol=1e-3)
    # log(1 + x): by the delta method
    log = DBMD(R, init=W, log=True).fit(X, source=source)
    by_hand = DBMD(R, init=np.log1p(W)).fit(np.log1p(X), source=source)
    assert_allclose(log.components_std_, by_hand.components_std_ * np.exp(by_hand.components_), rtol=1e-6)


def test_known_components_are_exact(data):
    X, source, W = data
    model = DBMD(R, known=W[:1], init=W).fit(X, source=source)
    assert not model.components_std_[0].any()
    assert (model.components_std_[1:] > 0.0).all()
    all_known = DBMD(R, known=W).fit(X, source=source)
    assert not all_known.components_std_.any()
    assert (all_known.transform(X, source=source, return_std=True)[1] > 0.0).all()


def test_gaps_offsets_and_dropped_samples(data):
    X, source, W = data
    full = DBMD(R, init=W).fit(X, source=source)
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    holes[:, 0] = X[:, 0]
    gappy = DBMD(R, init=W, missing="allow").fit(holes, source=source)
    H, std = gappy.transform(holes, source=source, return_std=True)
    assert std.mean() > 1.1 * full.transform(X, source=source, return_std=True)[1].mean()
    assert (gappy.components_std_ > 0.0).all()
    assert np.isfinite(gappy.membership_sample_.std).all()
    left = DBMD(R, init=W, missing="drop").fit(np.where(np.arange(600)[:, None] < 5, np.nan, X), source=source)
    H, std = left.transform(np.where(np.arange(600)[:, None] < 5, np.nan, X), source=source, return_std=True)
    assert_array_equal(np.isnan(std), np.isnan(H))
    moved = X + np.where(source, 1.0, 0.0)[:, None]
    batches = DBMD(R, init=W, offsets=True).fit(moved, source=source)
    assert (batches.transform(moved, source=source, return_std=True)[1] > 0.0).all()
    assert (batches.components_std_ > 0.0).all()


def test_map_has_deviations_for_its_components_as_they_are(data):
    X, source, W = data
    model = DBMD(R, inference="map", alpha=2.0, init=W, max_iter=20).fit(X, source=source)
    H, std = model.transform(X, source=source, return_std=True)
    assert (std > 0.0).all()
    assert_allclose(model.transform(X, source=source, kind="mean"), H, atol=1e-9)  # the peak is inside
    assert not hasattr(model, "components_std_")


def test_a_saved_model_says_the_same_and_an_older_one_says_less(model, data, tmp_path):
    X, source, _ = data
    again = load(model.save(tmp_path / "model"))
    assert_array_equal(again.components_std_, model.components_std_)
    assert_array_equal(again.membership_sample_.std, model.membership_sample_.std)
    expected = model.transform(X, source=source, return_std=True)[1]
    assert_array_equal(again.transform(X, source=source, return_std=True)[1], expected)
    del again._uncertainty
    assert not hasattr(again, "components_std_")
    assert (again.transform(X, source=source, return_std=True)[1] <= expected + 1e-12).all()


def test_a_further_batch_takes_what_was_known_of_the_errors_away(data):
    X, source, W = data
    model = DBMD(R, init=W).fit(X, source=source)
    assert model.components_std_.any()
    model.partial_fit(X[:100], source=source[:100])
    assert not hasattr(model, "components_std_")
    assert (model.transform(X, source=source, return_std=True)[1] > 0.0).all()


def test_the_likely_errors_are_found_once(model, data, monkeypatch):
    calls = []
    monkeypatch.setattr("dbmd.estimator._uncertainty.likely_errors", lambda *a: calls.append(1) or likely_errors(*a))
    fresh = load_like(model)
    for _ in range(2):
        fresh.transform(data[0], source=data[1], return_std=True)
    assert fresh.components_std_.any()
    assert len(calls) == 1


def load_like(model):
    fresh = DBMD(**model.get_params())
    fresh.__dict__.update({k: v for k, v in model.__dict__.items() if k != "_w_errors"})
    return fresh


def test_collections_of_dask_are_computed_later(model, data):
    da = pytest.importorskip("dask.array")
    X, source, _ = data
    lazy = model.transform(da.from_array(X, chunks=(250, -1)), source=source, return_std=True, kind="mean")
    for found, expected in zip(lazy, model.transform(X, source=source, return_std=True, kind="mean"), strict=True):
        assert isinstance(found, da.Array)
        assert_allclose(found.compute(scheduler="sync"), expected, atol=1e-12)
    with pytest.raises(ValueError, match="say in source="):
        model.transform(da.from_array(X, chunks=(250, -1)), return_std=True)


def test_a_source_that_was_not_in_the_fit_gets_a_noise_level(model, data):
    X, source, _ = data
    named = model.transform(X[source == 1], source=np.ones((source == 1).sum(), int), return_std=True)[1]
    new = model.transform(X[source == 1], source=np.full((source == 1).sum(), 9), return_std=True)[1]
    assert_allclose(new.mean(), named.mean(), rtol=0.1)


def test_frames_stay_frames(model, data):
    X, source, _ = data
    framed = load_like(model).set_output(transform="pandas")
    assert list(framed.transform(X, source=source).columns) == ["dbmd0", "dbmd1", "dbmd2"]
    H, std = framed.transform(X, source=source, return_std=True)
    assert_allclose(np.asarray(H), model.transform(X, source=source))
    assert isinstance(std, np.ndarray)


def test_samples_that_are_kept_are_the_same_whenever_and_wherever_somebody_looks(data):
    X, source, W = data
    model, again = (DBMD(R, init=W).fit(X, source=source) for _ in range(2))
    expected = again.membership_sample_
    model.noise_variance_[:] = 1e9  # whoever changes a model does not change what was found
    meeting = Barrier(4, timeout=30.0)
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(lambda: (meeting.wait(), model.membership_sample_.std)[1]) for _ in range(4)]
        assert all(np.array_equal(look.result(), expected.std) for look in looks)
    unseen = DBMD(R, init=W).fit(X, source=source)
    for each in (model, deepcopy(unseen), pickle.loads(pickle.dumps(unseen))):
        assert_array_equal(each.membership_sample_.std, expected.std)
        assert_array_equal(each.membership_sample_.memberships, expected.memberships)


@pytest.mark.parametrize("further", [{}, {"brightness": True, "shares": "energy"}])
def test_samples_that_are_kept_number_components_as_the_model_does(further, data, monkeypatch):
    X, source, _ = data
    order = np.array([2, 0, 1])
    monkeypatch.setattr("dbmd.estimator._fitting.order_by_size", lambda *_: order)
    model = DBMD(R, random_state=0, **further).fit(X, source=source)
    sample = model.membership_sample_
    H, std = model.transform(X[sample.rows], source=source[sample.rows], return_std=True)
    assert_allclose(sample.memberships, H, atol=1e-6)
    # These include the uncertainty of the components.
    assert np.abs(sample.std - std).mean() < 0.2 * np.abs(sample.std[:, order] - std).mean()


def test_a_pickle_holds_nothing_but_the_samples_that_are_kept(model):
    assert b"Peaks" not in pickle.dumps(load_like(model))


def test_a_pickle_of_a_model_with_gaps_does_not_hold_them(rng):
    X = rng.dirichlet(np.ones(2), 500) @ rng.random((2, 2000))
    X[rng.random(X.shape) < 0.1] = np.nan
    model = DBMD(2, missing="allow", random_state=0).fit(X)
    assert len(pickle.dumps(model)) < 0.5 * X.size
    assert np.isfinite(model.membership_sample_.std).all()
