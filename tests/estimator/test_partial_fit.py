"""Batches one after the other: laws of what is remembered, sources that come and go, streams that drift."""

import copy
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import dbmd
from dbmd import DBMD, open_data
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.engines.local import Engine
from dbmd.model.past import PastStatistics
from dbmd.online import update
from dbmd.report.page import render
from dbmd.sweep import sweep


def basis(seed=0, m=8, r=3):
    return 3 * np.random.default_rng(seed).normal(size=(m, r))


def batch(seed, W, n=150, sigmas=(0.3,), concentration=0.3):
    """Return samples and the number of the source of each, by the model."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(sigmas), n)
    Ht = rng.dirichlet(np.full(W.shape[1], concentration), n)
    return Ht @ W.T + rng.normal(size=(n, len(W))) * np.array(sigmas)[source, None], source


def batches(count, first_seed=0, **setting):
    """Return batches of one stream: samples and sources."""
    return [batch(first_seed + seed, basis(), **setting) for seed in range(count)]


def streamed(stream, **parameters):
    """Return a model after a stream; that a short fit of the first batch did not converge is not the point here."""
    model = DBMD(**{"n_components": 3, "random_state": 0} | parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for X, source in stream:
            model.partial_fit(X, source=source)
    return model


def distance(model, W):
    """Return how far the components are from a basis, in the best order, relative to its size."""
    cost = ((model.components_[:, None, :] - W.T[None]) ** 2).sum(axis=2)
    return np.sqrt(cost[linear_sum_assignment(cost)].sum() / (W**2).sum())


def learned(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


# -- what is remembered --------------------------------------------------------------------------------------------


def test_the_first_batch_is_fitted():
    [(X, source)] = batches(1, sigmas=(0.1, 1.0))
    model = streamed([(X, source)])
    expected = DBMD(3, random_state=0).fit(X, source=source)
    for name in ("components_", "noise_variance_", "labels_", "sources_", "cluster_sizes_", "objective_", "n_iter_"):
        assert_array_equal(getattr(model, name), getattr(expected, name))
    assert (model.n_steps_, model.n_samples_seen_) == (expected.n_steps_, expected.n_samples_seen_) == (1, len(X))


def test_the_data_of_a_fit_are_a_batch():
    first, second = batches(2, sigmas=(0.1, 1.0))
    model = DBMD(3, random_state=0).fit(first[0], source=first[1])
    model.partial_fit(second[0], source=second[1])
    assert_array_equal(model.components_, streamed([first, second]).components_)
    assert (model.n_steps_, model.n_samples_seen_) == (2, 300)


def test_a_fit_forgets_the_stream():
    (X, source), *later = batches(4)
    model = streamed([*later, (X, source)])
    model.fit(X, source=source)
    model.partial_fit(later[0][0], source=later[0][1])
    assert_array_equal(model.components_, streamed([(X, source), later[0]]).components_)
    assert model.n_steps_ == 2


def sums_of(stream, W, sigma2, origin):
    """Return the statistics of all batches together, at W."""
    X, source = (np.concatenate(parts) for parts in zip(*stream, strict=True))
    with Engine(partition(X, source, 2)) as engine:
        return engine.ask(lambda node: sweep(node, W, sigma2=sigma2, prior=np.zeros(3), origin=origin))


def assert_same_statistics(mine, other, rtol=1e-9):
    assert mine.keys() == other.keys()
    for c in mine:
        for name in ("XHt", "HHt", "sq_norm", "n"):
            scale = np.abs(getattr(other[c], name)).max()
            assert_allclose(getattr(mine[c], name), getattr(other[c], name), rtol=rtol, atol=rtol * scale)


def test_with_nothing_forgotten_and_the_same_w_the_past_is_that_of_all_samples():
    stream, W, sigma2 = batches(3, sigmas=(0.1, 1.0)), basis(), np.array([0.01, 1.0])
    past = PastStatistics.of_nothing(8)
    for X, source in stream:
        with Engine(partition(X, source, 2)) as engine:
            found = engine.ask(lambda node: sweep(node, W, sigma2=sigma2, prior=np.zeros(3)))
        past = PastStatistics(past.faded(1.0).stats + found, past.origin)
    assert_same_statistics(past.stats, sums_of(stream, W, sigma2, np.zeros(8)))


def test_a_sample_that_came_k_batches_ago_counts_for_f_to_the_k():
    stream = batches(4, n=100)
    model = streamed(stream, forget_factor=0.5)
    assert_allclose(model._past.stats[0].n, 100 * (1 + 0.5 + 0.25 + 0.125))


@pytest.mark.parametrize("lam", [0.0, 50.0])
def test_one_update_is_the_minimiser_on_the_batch_and_the_past(lam):
    """By hand: one batch remembered, half forgotten, so lam weighs against one and a half batches."""
    (X1, _), (X2, _) = batches(2)
    config = Config(n_components=3, noise=1.0, forget_factor=0.5, lam=lam)
    W, nothing = basis(1), np.zeros(8)
    past = PastStatistics(sums_of([(X1, np.zeros(len(X1), int))], W, np.ones(1), nothing), nothing)
    with Engine(partition(X2, 0, 2)) as engine:
        setting = {"numbers": np.zeros(1, int), "n_classes": 0, "dtype": np.dtype(float)}
        found = update(engine, config, past, W, np.ones(1), None, **setting).W
    H1, H2 = (memberships_at(W, X) for X in (X1, X2))
    G = found @ (0.5 * H1.T @ H1 + H2.T @ H2) - (0.5 * H1.T @ X1 + H2.T @ X2).T
    assert_allclose(G[found != 0], -lam * np.sign(found[found != 0]), atol=1e-6)
    assert (np.abs(G[found == 0]) <= lam).all()
    assert (found == 0).any() == (lam > 0)


def memberships_at(W, X):
    model = DBMD(W.shape[1], noise=1.0)
    model.components_, model.n_features_in_ = W.T, len(W)
    model.noise_variance_, model.sources_ = np.ones(1), np.array([0])
    return model.transform(X)


def test_a_source_that_is_long_gone_is_forgotten_but_for_its_noise_level():
    X, source = batch(0, basis(), sigmas=(0.2, 1.0), n=60)
    model = streamed([(X, source)], forget_factor=1e-4)
    level = model.noise_variance_[0]
    for _ in range(4):
        model.partial_fit(X[source == 1], source=source[source == 1])
    assert model._past.stats.keys() == {1}
    assert model.sources_.tolist() == [0, 1]
    assert model.noise_variance_[0] == level


# -- what does not matter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [1, 3, 7])
def test_the_number_of_nodes_does_not_matter(n_nodes):
    stream = batches(3, sigmas=(0.1, 1.0))
    assert_allclose(
        streamed(stream, n_nodes=n_nodes).components_, streamed(stream, n_nodes=2).components_, rtol=1e-8, atol=1e-8
    )


def test_the_order_of_the_rows_of_a_later_batch_does_not_matter():
    first, (X, source), third = batches(3, sigmas=(0.1, 1.0))
    order = np.random.default_rng(0).permutation(len(X))
    model, other = streamed([first, (X, source), third]), streamed([first, (X[order], source[order]), third])
    assert_allclose(other.components_, model.components_, rtol=1e-9, atol=1e-9)
    assert_allclose(other.noise_variance_, model.noise_variance_, rtol=1e-9)


def test_sparse_is_dense():
    stream = [(np.where(np.abs(X) > 1.0, X, 0.0), source) for X, source in batches(3)]
    model = streamed([(sparse.csr_array(X), source) for X, source in stream])
    assert_allclose(model.components_, streamed(stream).components_, rtol=1e-8, atol=1e-8)


def test_float32_is_float64_but_for_rounding():
    stream = batches(3)
    single = streamed([(X.astype(np.float32), source) for X, source in stream])
    assert single.components_.dtype == np.float32
    # Memberships on the edge of the simplex are found to the root of the precision only.
    assert_allclose(single.components_, streamed(stream).components_, atol=0.01)


def test_the_type_may_change_in_the_stream():
    stream = [(X + 1000.0, source) for X, source in batches(4)]
    mixed = [(X.astype([np.float64, np.float32][i % 2]), source) for i, (X, source) in enumerate(stream)]
    model, other = streamed(stream), streamed(mixed)
    assert other.components_.dtype == np.float32
    assert_allclose(other.components_, model.components_, atol=1e-2)
    assert_allclose(other.noise_variance_, model.noise_variance_, rtol=1e-3)


@pytest.mark.parametrize("noise", ["source", "shared"])
def test_scale(noise):
    stream = batches(3, sigmas=(0.1, 1.0))
    model = streamed(stream, noise=noise)
    scaled = streamed([(4.0 * X, source) for X, source in stream], noise=noise)
    assert_allclose(scaled.components_, 4.0 * model.components_, rtol=1e-8, atol=1e-8)
    assert_allclose(scaled.noise_variance_, 16.0 * model.noise_variance_, rtol=1e-8)


# -- sources -------------------------------------------------------------------------------------------------------


def test_the_noise_levels_of_two_sources_are_found():
    model = streamed(batches(20, sigmas=(0.2, 1.0), n=300), forget_factor=0.9)
    # Six numbers to a sample are free to follow the noise, two of eight are not.
    assert_allclose(np.sqrt(model.noise_variance_), [0.2, 1.0], rtol=0.15)


def test_a_source_that_appears_later_comes_behind_the_others():
    X, source = batch(0, basis(), sigmas=(0.2, 1.0))
    names = np.array(["quiet", "loud"])[source]
    quiet = names == "quiet"
    model = streamed([(X[quiet], names[quiet])])
    before = model.noise_variance_
    model.partial_fit(X[~quiet], source=names[~quiet])
    assert model.sources_.tolist() == ["quiet", "loud"]
    assert model.noise_variance_[0] == before[0]  # it was not in the batch
    assert_allclose(np.sqrt(model.noise_variance_[1]), 1.0, rtol=0.25)
    assert model.profile_.n.tolist() == [0, (~quiet).sum()]
    assert model.fit_info_["explained_by_source"][0] is None
    model.partial_fit(X, source=names)
    assert model.sources_.tolist() == ["quiet", "loud"]
    assert model.profile_.n.tolist() == [quiet.sum(), (~quiet).sum()]
    assert model.noise_variance_[0] != before[0]
    assert_array_equal(model.labels_, model.predict(X, source=names))


def test_the_names_of_the_sources_do_not_matter():
    stream = [(X, np.array(["b", "a"])[source]) for X, source in batches(3, sigmas=(0.2, 1.0), n=300)]
    model = streamed(stream)
    assert model.sources_.tolist() == ["a", "b"]
    renamed = streamed([(X, np.where(names == "a", "z", names)) for X, names in stream])
    assert renamed.sources_.tolist() == ["b", "z"]
    assert_allclose(renamed.components_, model.components_, rtol=1e-8, atol=1e-8)
    assert_allclose(renamed.noise_variance_, model.noise_variance_[::-1], rtol=1e-8)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
@pytest.mark.parametrize("noise", ["shared", 0.5])
def test_one_level_for_all_and_fixed_levels_hold_for_new_sources(noise, alpha):
    X, source = batch(0, basis(), sigmas=(0.2, 0.2, 1.0))
    model = streamed(
        [(X[source == c], source[source == c]) for c in range(3)], inference="map", noise=noise, alpha=alpha
    )
    assert model.sources_.tolist() == [0, 1, 2]
    assert len(set(model.noise_variance_)) == 1
    if noise == 0.5:
        assert model.noise_variance_[0] == 0.5


def test_labels_of_another_kind_are_refused():
    X, source = batch(0, basis(), sigmas=(1.0, 1.0))
    model = streamed([(X, source)])
    with pytest.raises(TypeError, match=r"labels of the kind that the model knows, such as .*0.*\. Got .*'a'"):
        model.partial_fit(X, source=np.array(["a", "b"])[source])


def test_a_batch_without_labels_is_of_the_only_source():
    X, _ = batch(0, basis())
    model = streamed([(X, ["only"] * len(X)), (X, None)])
    assert model.sources_.tolist() == ["only"]
    assert_array_equal(model.components_, streamed([(X, None), (X, None)]).components_)


def test_a_batch_without_labels_is_refused_where_there_are_several_sources():
    X, source = batch(0, basis(), sigmas=(1.0, 1.0))
    with pytest.raises(ValueError, match=r"knows 2 sources: say in source= which"):
        streamed([(X, source), (X, None)])


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
    assert not hasattr(fresh, "_past")


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
    assert_allclose(loaded._past.stats[0].n + loaded._past.stats[1].n, 150)  # of the batches before nothing
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
    assert pickle.dumps(loaded.profile_) == pickle.dumps(model.profile_)
    loaded.profile_ = model.profile_
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
    assert request.requests == {"source": True}
