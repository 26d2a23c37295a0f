"""Batches one after the other: laws of the statistics that are kept, and sources that come and go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd import DBMD
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.engines.local import Engine
from dbmd.model.past import PastStatistics
from dbmd.online import update
from dbmd.sweep import sweep
from estimator.streams import basis, batch, batches, streamed

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
    """Of one component, every sample is a full member: it is the weighted mean of all samples."""
    stream = [(X + 10.0 * i, source) for i, (X, source) in enumerate(batches(4, n=100))]
    model = streamed(stream, n_components=1, forget_factor=0.5)
    means = [X.mean(axis=0) for X, _ in stream]
    assert_allclose(model.components_[0], np.average(means, axis=0, weights=[0.125, 0.25, 0.5, 1.0]))


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
