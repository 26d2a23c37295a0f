"""What evidence promises: laws of J, and ends at the truth that depend neither on the tolerance nor on the seed."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.data.partition import partition
from dbmd.engines.local import Engine
from dbmd.model.evidence import Evidence
from dbmd.model.lasso import minimise
from dbmd.model.noise import Noise
from dbmd.model.objective import objective
from dbmd.model.statistics import Quadratic
from dbmd.registry import load
from dbmd.sweep import sweep
from profiles import examples
from strategies import generators

SIGMAS = (0.1, 0.5, 2.0)


def mixtures(seed, n=2000, m=50, r=4, concentration=0.3, decibels=15.0):
    """Return mixtures of r patterns with noise, and the memberships."""
    rng = np.random.default_rng(seed)
    W, Ht = rng.uniform(size=(m, r)), rng.dirichlet(np.full(r, concentration), n)
    X = Ht @ W.T
    return X + np.sqrt(X.var(axis=0).mean() / 10 ** (decibels / 10)) * rng.normal(size=X.shape), Ht


def several_levels(seed, sigmas=SIGMAS, n=3000, m=8, r=3):
    rng = np.random.default_rng(seed)
    source, W = rng.integers(0, len(sigmas), n), 3.0 * rng.normal(size=(m, r))
    X = rng.dirichlet(np.full(r, 0.4), n) @ W.T + rng.normal(size=(n, m)) * np.array(sigmas)[source, None]
    return X, source, W


def fitted(X, source=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**{"random_state": 0} | parameters).fit(X, source=source)


def matched(found, truth):
    """Return the rows of ``found`` in the order that is nearest to the rows of ``truth``."""
    return found[linear_sum_assignment(((found[:, None] - truth[None]) ** 2).sum(axis=2).T)[1]]


def off(components, limit):
    """Return how far components are from others, relative to the size of their simplex."""
    return np.linalg.norm(matched(components, limit) - limit) / np.linalg.norm(limit - limit.mean(axis=0))


def membership_error(model, X, Ht):
    return np.sqrt(np.mean((matched(model.transform(X).T, Ht.T) - Ht.T) ** 2))


# -- J --------------------------------------------------------------------------------------------------------------


def with_faces_fixed(X, source, W, sigma2, Ht, excess):
    """Return J at W and sigma for memberships on the faces of Ht, by its definition."""
    m = len(W)
    value = 0.0
    for c in range(len(sigma2)):
        own = source == c
        value += 0.5 * np.sum((X[own] - Ht[own] @ W.T) ** 2) / sigma2[c] + 0.5 * m * own.sum() * np.log(sigma2[c])
        for h in Ht[own]:
            face = np.flatnonzero(h > 1e-6)
            f = len(face)
            V = W[:, face] - W[:, face].mean(axis=1, keepdims=True)
            G = V.T @ V / (excess * sigma2[c]) + f * (f + 1) * np.eye(f)
            log_det = np.linalg.slogdet(G)[1] + np.log(np.linalg.inv(G).sum() / f) - (f - 1) * np.log(f * (f + 1))
            value += 0.5 * excess * log_det
    return value


def peaks_on_faces(X, W, faces):
    """Return for each sample the least-squares point on the plane of its face, shape (n, r): what H is, faces fixed."""
    Ht = np.zeros((len(X), W.shape[1]))
    for i, face in enumerate(faces):
        V, last = W[:, face], W[:, face[-1]]
        free = np.linalg.lstsq(V[:, :-1] - last[:, None], X[i] - last, rcond=None)[0]
        Ht[i, face] = [*free, 1.0 - free.sum()]
    return Ht


def passed(X, source, W, sigma2, evidence, n_nodes=2):
    with Engine(partition(X, source, n_nodes)) as engine:
        step = partial(sweep, sigma2=sigma2, prior=np.zeros(W.shape[1]), evidence=evidence)
        return engine.ask(step, W)


@examples(usual=5, thorough=15)
@given(generators(), st.sampled_from([1, 2, 3, 5]), st.sampled_from([1.0, 7.0]))
def test_a_pass_brings_J(rng, r, excess):
    X, W, sigma2 = rng.normal(size=(40, 6)), rng.normal(size=(6, r)), np.array([0.3, 2.0])
    source = np.arange(40) % 2
    stats = passed(X, source, W, sigma2, Evidence((excess, excess)))
    found = objective(stats.map(lambda s: s.summary(W)), W, sigma2, 0.0).value
    Ht = load("kernels", "cpu").solve_h(W.T @ W, X @ W, np.zeros(r))  # exact: zeros are zeros
    assert_allclose(found, with_faces_fixed(X, source, W, sigma2, Ht, excess), rtol=1e-7)


@examples(usual=8, thorough=20)
@given(generators(), st.sampled_from([2, 3, 5]), st.sampled_from([1.0, 7.0]), st.sampled_from([0.0, 3.0]))
def test_with_faces_fixed_neither_w_step_nor_noise_step_nor_h_step_raises_J(rng, r, excess, lam):
    X, W, sigma2 = rng.normal(size=(40, 6)), rng.normal(size=(6, r)), np.array([0.3, 2.0])
    source = np.arange(40) % 2
    Ht = load("kernels", "cpu").solve_h(W.T @ W, X @ W, np.zeros(r))
    faces = [np.flatnonzero(h > 1e-6) for h in Ht]
    stats = passed(X, source, W, sigma2, Evidence((excess, excess)))
    V = minimise(Quadratic.of(stats, sigma2), lam, W)
    levels = Noise("source", 2, 1e-12).levels(stats.map(lambda s: s.summary(V)), V)

    def J(W, sigma2, Ht):
        return with_faces_fixed(X, source, W, sigma2, Ht, excess) + lam * np.abs(W).sum()

    values = [
        J(W, sigma2, Ht), J(V, sigma2, Ht), J(V, levels, Ht), J(V, levels, peaks_on_faces(X, V, faces))
    ]  # fmt: skip
    scale = 0.5 * X.size + lam * np.abs(W).sum()
    assert np.diff(values).max() <= 1e-10 * scale
    # What the driver computes after the W-step is an upper bound.
    bound = objective(stats.map(lambda s: s.summary(V)), V, levels, lam).value
    assert values[2] <= bound + 1e-10 * scale


def test_J_is_flat_from_the_fit_of_the_sample_on():
    """Over a whole fit J may rise, where samples change faces; what the passes over all data change is little."""
    for seed in range(3):
        X, _ = mixtures(seed)
        model = fitted(X, n_components=4, tol=1e-7)
        values = np.array([record.objective for record in model.history_] + [model.objective_])
        assert np.ptp(values) <= 1e-3 * 0.5 * X.size


# -- where it ends --------------------------------------------------------------------------------------------------

SETS = {
    "Dirichlet(1), 15 dB": ({"concentration": 1.0}, 0.02),
    "Dirichlet(.3), 15 dB": ({}, 0.02),
    "Dirichlet(.3), 5 dB": ({"decibels": 5.0}, 0.045),
    "Dirichlet(.1), 8 dB, 10 components": ({"concentration": 0.1, "decibels": 8.0, "r": 10}, 0.05),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_memberships_are_found_whatever_the_tolerance_and_the_seed(name):
    kind, allowed = SETS[name]
    X, Ht = mixtures(3, **kind)
    models = [
        fitted(X, n_components=Ht.shape[1], tol=tol, random_state=seed)
        for tol, seed in ((1e-3, 0), (2e-3, 0), (1e-7, 0), (2e-3, 1), (2e-3, 2))
    ]
    errors = [membership_error(model, X, Ht) for model in models]
    assert max(errors) <= allowed
    assert max(errors) <= 1.1 * min(errors)
    assert np.ptp([model.objective_ for model in models]) <= 1e-3 * 0.5 * X.size


def test_seeds_end_at_the_same_J():
    X, _ = mixtures(4)
    values = [fitted(X, n_components=4, tol=1e-6, random_state=seed).objective_ for seed in range(5)]
    assert np.ptp(values) <= 1e-5 * 0.5 * X.size


@pytest.mark.slow
@pytest.mark.parametrize("sigmas", [(0.1, 0.3, 4.0), SIGMAS, (0.1, 0.3, 1.0)])
def test_patterns_and_noise_of_sources_of_several_levels_are_found(sigmas):
    for seed in range(2):
        X, source, W = several_levels(seed, sigmas)
        for tol in (1e-3, 2e-3, 1e-7):
            model = fitted(X, source, n_components=3, tol=tol)
            found = matched(model.components_, W.T)
            assert np.linalg.norm(found - W.T) <= 0.02 * np.linalg.norm(W)
            levels = np.sqrt(model.noise_variance_) / sigmas
            assert_allclose(levels[:-1], 1.0, atol=0.03)
            assert_allclose(levels[-1], 1.0, atol=0.08)


@pytest.mark.parametrize("name", SETS)
def test_the_default_is_within_one_percent_of_the_limit(name):
    X, Ht = mixtures(5, **SETS[name][0])
    limit = fitted(X, n_components=Ht.shape[1], tol=1e-9).components_
    assert off(fitted(X, n_components=Ht.shape[1]).components_, limit) <= 0.01


def test_the_same_data_twice_end_where_they_end_once(monkeypatch):
    """Above so many rows a part is fitted first: it must not show."""
    X, Ht = mixtures(1, n=4000)
    monkeypatch.setattr("dbmd.model.start.SAMPLE", 1000)
    few, many = fitted(X[:1500], n_components=4), fitted(np.tile(X[:1500], (4, 1)), n_components=4)
    errors = [membership_error(model, X[:1500], Ht[:1500]) for model in (few, many)]
    assert_allclose(errors[1], errors[0], rtol=0.05)


def test_map_goes_on_past_the_truth_and_evidence_stays():
    X, Ht = mixtures(0, decibels=5.0)
    start = {"n_components": 4, "init": X[np.argmax(Ht, axis=0)], "tol": 0.0}
    errors = {
        inference: [
            membership_error(fitted(X, inference=inference, max_iter=count, **start), X, Ht) for count in (20, 150)
        ]
        for inference in ("map", "evidence")
    }
    assert errors["map"][1] > 1.2 * errors["map"][0]
    assert errors["evidence"][1] <= 1.02 * errors["evidence"][0]
    assert errors["evidence"][1] < 0.8 * errors["map"][1]


# -- what follows from it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "r"), [(np.float64, 3), (np.float64, 14), (np.float32, 3)])
def test_neither_nodes_nor_storage_matter(dtype, r):
    X, source, _ = several_levels(1, n=600, m=20, r=3)
    X = X.astype(dtype)
    start = {"n_components": r, "init": X[:r], "max_iter": 5}
    expected = fitted(X, source, n_nodes=1, **start).components_
    for form, n_nodes in ((np.asarray, 5), (sparse.csr_array, 3)):
        found = fitted(form(X), source, n_nodes=n_nodes, **start).components_
        assert_allclose(found, expected, atol=(1e-8 if dtype == np.float64 else 2e-3) * np.abs(expected).max())


def test_of_many_samples_the_covariances_of_25_000_do():
    """Beyond twelve components: H H' from so many samples is that of all to 1e-3."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(20, 14))
    X = rng.dirichlet(np.full(14, 0.2), 100_000) @ W.T + 0.3 * rng.normal(size=(100_000, 20))
    all_of_them, some = (passed(X, 0, W, np.array([0.09]), Evidence((1.0,), one_in))[0].HHt for one_in in (1, 4))
    assert np.linalg.norm(some - all_of_them) <= 1e-3 * np.linalg.norm(all_of_them)


def test_effective_features_can_be_given_and_are_found_again():
    X, _ = mixtures(0, n=500)
    assert fitted(X, n_components=4, effective_features=12.5).effective_features_ == 12.5
    estimated = fitted(X, n_components=4).effective_features_
    assert 40.0 <= estimated <= 50.0  # the noise is white
    for init in ("random", "k-means||", X[:4]):
        assert_allclose(fitted(X, n_components=4, init=init, max_iter=2).effective_features_, estimated, rtol=0.05)
    assert not hasattr(fitted(X, n_components=4, inference="map"), "effective_features_")


def test_fewer_effective_features_make_a_smaller_simplex():
    """Noise in the plane of W that is counted as noise is not taken for mixtures."""
    X, _ = mixtures(0, n=1000, decibels=5.0)
    sizes = [np.ptp(fitted(X, n_components=4, effective_features=m).components_, axis=0).sum() for m in (50, 15, 5)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_clusters_are_numbered_by_size_unless_the_order_is_given():
    X, _ = mixtures(0, n=800, concentration=0.2)
    for inference in ("evidence", "map"):
        model = fitted(X, n_components=4, inference=inference)
        assert (np.diff(model.cluster_sizes_) <= 0.0).all()
        assert_allclose(model.transform(X).sum(axis=0), model.cluster_sizes_, rtol=1e-6)
        given_order = fitted(X, n_components=4, inference=inference, init=model.components_[::-1])
        assert off(given_order.components_[::-1], model.components_) < 0.1
        assert given_order.cluster_sizes_[0] < given_order.cluster_sizes_[-1]


def test_batches_remember_the_covariance():
    X, Ht = mixtures(0, n=4000, decibels=5.0)
    model = DBMD(4, random_state=0, forget_factor=0.95)
    for batch in np.array_split(X, 40):
        model.partial_fit(batch)
    limit = fitted(X, n_components=4).components_
    assert off(model.components_, limit) < 0.15
    peaks = DBMD(4, random_state=0, forget_factor=0.95, inference="map")
    for batch in np.array_split(X, 40):
        peaks.partial_fit(batch)
    assert membership_error(model, X, Ht) < membership_error(peaks, X, Ht)
