"""A sample of weight 3 counts as three samples, and a sample of weight 0 as none: in every pass, and in a fit."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from clusters import DATA, clusters
from dbmd import DBMD
from dbmd.data import partition
from dbmd.dataset import in_memory
from dbmd.engines.local import Engine
from dbmd.errors import DataError
from dbmd.model.draw import Chances, draw_fraction, draw_uniform, moments
from dbmd.model.evidence import Evidence
from dbmd.model.measure import draw_by_distance, measure, tally
from dbmd.model.start import nearest
from dbmd.survey import survey
from dbmd.sweep import sweep
from profiles import examples
from strategies import generators

M, R = 4, 3
W = np.random.default_rng(1).normal(size=(M, R))
SIGMA2 = np.array([0.5, 1.0, 2.0])
FREE = {"prior": np.zeros(R)}
PASSES = {
    "moments": moments,
    "nearest": partial(nearest, origin=W.mean(axis=1)),
    "peak": partial(sweep, sigma2=SIGMA2, **FREE, origin=W.mean(axis=1)),
    "prior": partial(sweep, sigma2=SIGMA2, prior=np.full(R, 0.5)),
    "evidence": partial(sweep, sigma2=SIGMA2, **FREE, evidence=Evidence((1.0, 2.0, 1.5))),
    "measure": measure,
}


@st.composite
def weighted(draw):
    """Strategy: samples of up to three sources, and how often each occurs."""
    rng = draw(generators())
    n = draw(st.integers(1, 30))
    counts = rng.integers(0, 4, n)
    counts[rng.integers(n)] += 1  # at least one is left
    return 2.0 * rng.normal(size=(n, M)), rng.integers(0, 3, n), counts, draw(st.integers(1, 3))


def replies(Xt, sources, n_nodes, weights, *asked):
    with Engine(partition(Xt, sources, n_nodes, weights=weights), n_threads=1) as engine:
        return [engine.ask(*each) for each in asked]


def numbers(reply):
    """Return the sums of a reply about each source, without what is about rows."""
    skip = ("stored", "largest", "rows")
    return {c: [value for name, value in vars(each).items() if name not in skip] for c, each in reply.items()}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", PASSES)
@given(weighted())
def test_a_pass_counts_a_sample_as_often_as_its_weight_says(name, kind, data):
    Xt, sources, counts, n_nodes = data
    asked = (PASSES[name],) if name == "moments" else (PASSES[name], W.T if name == "measure" else W)
    repeated = DATA[kind](np.repeat(Xt, counts, axis=0)), np.repeat(sources, counts)
    (one,) = replies(DATA[kind](Xt), sources, n_nodes, counts.astype(float), asked)
    (other,) = replies(*repeated, 1, None, asked)
    assert one.keys() == other.keys()  # a source without weight does not occur
    close = {"rtol": 1e-4, "atol": 1e-4} if kind == "float32" else {"rtol": 1e-9, "atol": 1e-9}
    for c, values in numbers(one).items():
        for mine, its in zip(values, numbers(other)[c], strict=True):
            assert_allclose(mine, its, **close)


@given(weighted())
def test_sizes_are_weighted_and_counts_are_of_samples_with_a_weight(data):
    Xt, sources, counts, n_nodes = data
    last = partial(survey, sigma2=SIGMA2, **FREE, origin=W.mean(axis=1)), W
    (one,) = replies(Xt, sources, n_nodes, counts.astype(float), last)
    (other,) = replies(np.repeat(Xt, counts, axis=0), np.repeat(sources, counts), 1, None, last)
    (left,) = replies(Xt[counts > 0], sources[counts > 0], 1, None, last)
    assert_allclose(one.profile.sizes, other.profile.sizes, atol=1e-9)
    for name in ("n", "counts", "largest", "memberships"):
        assert_array_equal(getattr(one.profile, name), getattr(left.profile, name))


@given(weighted())
def test_candidates_are_weighted(data):
    Xt, sources, counts, n_nodes = data
    asked = partial(tally, precision={0: 1.0, 1: 2.0, 2: 0.5}), W.T
    (one,) = replies(Xt, sources, n_nodes, counts.astype(float), asked)
    (other,) = replies(np.repeat(Xt, counts, axis=0), np.repeat(sources, counts), 1, None, asked)
    assert_allclose(one, other)


@given(weighted(), st.integers(0, 99))
def test_a_sample_without_weight_is_never_drawn(data, seed):
    Xt, sources, counts, n_nodes = data
    present = Xt[counts > 0]
    drawn = replies(
        Xt,
        sources,
        n_nodes,
        counts.astype(float),
        (partial(draw_uniform, seed=seed, take=50),),
        (partial(draw_by_distance, seed=seed, take=50, precision=dict.fromkeys(range(3), 1.0)), W.T),
        (partial(draw_fraction, seed=seed, chances=Chances(1.0, np.zeros(M), {})),),
    )
    for found in (drawn[0].Xt, drawn[1].Xt, drawn[2].in_order()[0]):
        assert_array_equal(np.unique(found, axis=0), np.unique(present, axis=0))
    assert_array_equal(drawn[2].in_order()[2], counts[counts > 0])


def test_heavy_samples_are_drawn_more_often_and_the_drawn_stand_for_all(rng):
    n = 20_000
    Xt, weights = rng.normal(size=(n, M)), rng.exponential(size=n)
    nodes = partition(Xt, 0, 2, weights=weights)
    with Engine(nodes, n_threads=1) as engine:
        known = engine.ask(moments)
        drawn = engine.ask(partial(draw_fraction, seed=3, chances=Chances.of(known, 0.1)))
        some = engine.ask(partial(draw_uniform, seed=3, take=2000))
    found, _, stands_for = drawn.in_order()
    assert abs(len(found) - 0.1 * n) < 200
    assert_allclose(stands_for.sum(), weights.sum(), rtol=0.05)
    assert_allclose(stands_for @ found**2 / stands_for.sum(), weights @ Xt**2 / weights.sum(), rtol=0.1)
    mean = weights[(Xt[:, None, 0] == some.Xt[None, :, 0]).any(axis=1)].mean()
    assert 1.6 < mean < 2.05  # 2, were they drawn with replacement


OPTIONS = {
    "evidence": {"effective_features": 4.0},
    "map": {"inference": "map", "alpha": 1.3, "lam": 2.0},
    "over the nodes": {"effective_features": 4.0, "solver": "admm", "noise": "shared"},
}
# Parts of the model, each of which must count samples by their weights.
PARTS = {
    "offsets": {"offsets": True},
    "brightness": {"brightness": True},
    "scaling": {"scaling": "standard"},
    "gaps": {"missing": "allow", "scaling": "minmax", "offsets": True},
    "samples with gaps left out": {"missing": "drop"},
    "signs": {"nonnegative": True},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["dense", "CSR"])
@pytest.mark.parametrize("options", OPTIONS)
@examples(3, 10)
@given(generators())
def test_integer_weights_give_the_fit_of_repeated_samples(options, kind, rng):
    X, _ = clusters(rng, n=120, m=M, r=R)
    sources, counts = np.arange(120) % 2, rng.integers(0, 4, 120)
    names = np.array(["a", "b"])
    model = DBMD(R, init=X[:R], max_iter=8, tol=0.0, n_nodes=2, **OPTIONS[options])
    form = DATA[kind]
    one = model.fit(in_memory(form(X), names, sources, sample_weight=counts))
    repeated = in_memory(form(np.repeat(X, counts, axis=0)), names, np.repeat(sources, counts))
    other = DBMD(**model.get_params()).fit(repeated)
    assert_allclose(one.components_, other.components_, rtol=1e-6, atol=1e-6)
    assert_allclose(one.noise_variance_, other.noise_variance_, rtol=1e-5)
    assert_allclose(one.objective_, other.objective_, rtol=1e-6)
    assert_allclose(one.cluster_sizes_, other.cluster_sizes_, rtol=1e-6)
    assert_array_equal(np.repeat(one.labels_, counts), other.labels_)


def samples_of_parts(rng, name):
    """Return samples, with gaps where these are allowed, their sources, and how often each occurs."""
    X, _ = clusters(rng, n=120, m=M, r=R)
    sources = np.arange(120) % 2
    X += sources[:, None]
    if "missing" in PARTS[name]:
        X = np.where(rng.random(X.shape) < 0.1, np.nan, X)
        X[np.isnan(X).all(axis=1)] = 1.0
    return X, sources, rng.integers(0, 4, 120)


def estimator(rng, name, **options):
    start = 3.0 * rng.normal(size=(R, M))
    return DBMD(R, init=start, effective_features=4.0, max_iter=5, tol=0.0, **PARTS[name], **options)


def assert_same_model(one, other):
    assert_allclose(one.components_, other.components_, rtol=1e-6, atol=1e-6)
    assert_allclose(one.noise_variance_, other.noise_variance_, rtol=1e-5)
    assert_allclose(one.objective_, other.objective_, rtol=1e-6)
    assert_allclose(one.cluster_sizes_, other.cluster_sizes_, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::dbmd.errors.DataWarning")
@pytest.mark.parametrize("name", PARTS)
@examples(2, 8)
@given(generators())
def test_every_part_of_the_model_counts_samples_by_their_weights(name, rng):
    X, sources, counts = samples_of_parts(rng, name)
    model = estimator(rng, name, n_nodes=2)
    repeated, theirs = np.repeat(X, counts, axis=0), np.repeat(sources, counts)
    one = clone(model).fit(X, source=sources, sample_weight=counts)
    other = clone(model).fit(repeated, source=theirs)
    assert_same_model(one, other)
    score = other.score(repeated, source=theirs)
    assert_allclose(one.score(X, source=sources, sample_weight=counts), score, rtol=1e-6)
    one.partial_fit(X, source=sources, sample_weight=counts)
    assert_same_model(one, other.partial_fit(repeated, source=theirs))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::dbmd.errors.DataWarning")
def test_samples_with_gaps_that_are_left_out_are_as_if_they_were_not_there(rng):
    X, sources, counts = samples_of_parts(rng, "samples with gaps left out")
    there = ~np.isnan(X).any(axis=1)
    model = estimator(rng, "samples with gaps left out")
    one = clone(model).fit(X, source=sources, sample_weight=counts)
    other = clone(model).set_params(missing="error").fit(X[there], source=sources[there], sample_weight=counts[there])
    assert_same_model(one, other)
    assert_array_equal(one.labels_[there], other.labels_)
    assert_array_equal(one.labels_[~there], -1)
    assert_array_equal(np.isnan(one.transform(X, source=sources)).any(axis=1), ~there)
    gone = X[~there], {"source": sources[~there]}
    for method in (one.score, one.partial_fit):
        with pytest.raises(DataError, match=r"^No sample is left: each has a missing entry"):
            method(gone[0], **gone[1])


@pytest.mark.parametrize("inference", ["evidence", "map"])
def test_only_the_ratios_of_weights_matter_without_a_penalty(inference, rng):
    X, _ = clusters(rng, m=M, r=R)
    weights = rng.exponential(size=len(X))
    one, other = (
        DBMD(R, inference=inference, random_state=0).fit(in_memory(X, sample_weight=c * weights)) for c in (1.0, 1e-5)
    )
    assert one.n_iter_ == other.n_iter_
    assert_allclose(one.components_, other.components_, rtol=1e-9)
    assert_allclose(1e-5 * one.objective_, other.objective_, rtol=1e-9)


@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_every_start_leaves_out_what_has_no_weight(init, rng):
    X, centres = clusters(rng, n=300, m=M, r=R)
    weights = np.ones(300)
    X[::3], weights[::3] = 1e3 * rng.normal(size=(100, M)), 0.0
    model = DBMD(R, init=init, random_state=0).fit(in_memory(X, sample_weight=weights))
    assert np.abs(model.components_).max() < 3.0 * np.abs(centres).max()
    assert model.profile_.n.sum() == 200
