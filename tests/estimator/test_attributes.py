"""What the fitted attributes mean, and that the noise that was put in is found."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from dbmd import DBMD
from dbmd.model.result import Iteration
from estimator.making import fitted, mixture

# -- what the attributes mean --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_labels_predictions_and_memberships_agree(form, alpha, n_nodes, data):
    X, source = data
    X = form(X)
    model = fitted(X, source, alpha=alpha, n_nodes=n_nodes)
    H = model.transform(X, source=source)
    assert_array_equal(model.labels_, H.argmax(axis=1))
    assert_array_equal(model.labels_, model.predict(X, source=source))
    assert (H >= 0).all()
    assert_allclose(H.sum(axis=1), 1.0, atol=1e-14)
    assert_allclose(model.cluster_sizes_, H.sum(axis=0), rtol=1e-6)
    if form is np.asarray:
        assert_array_equal(model.predict_proba(X, source=source), H)
        assert_array_equal(model.inverse_transform(H), H @ model.components_)


def negative_log_posterior(model, X, source, alpha, lam):
    """Return Eq. (opt1) at the components, noise levels and memberships of a model."""
    m = X.shape[1]
    H = model.transform(X, source=source)
    value = lam * np.abs(model.components_).sum() - (np.asarray(alpha) - 1.0) @ np.log(H).sum(axis=0)
    for label, sigma2 in zip(model.sources_, model.noise_variance_, strict=True):
        rows = source == label
        squares = ((X[rows] - H[rows] @ model.components_) ** 2).sum()
        value += squares / (2 * sigma2) + m * rows.sum() * np.log(np.sqrt(sigma2))
    return value


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["exact", "agd", "admm", "cease"])
@pytest.mark.parametrize("noise", ["source", "shared", 0.7])
@pytest.mark.parametrize("alpha", [(2.0, 2.0, 2.0), (1.5, 2.0, 3.0)], ids=["equal", "unequal"])
def test_the_objective_is_the_negative_log_posterior(solver, noise, alpha, data):
    X, source = data
    model = fitted(X, source, solver=solver, noise=noise, alpha=alpha, lam=0.8)
    assert_allclose(model.objective_, negative_log_posterior(model, X, source, alpha, 0.8), rtol=1e-9)
    last = model.history_[-1].objective
    assert model.objective_ <= last + 1e-9 * (abs(last) + X.size)


def test_the_history_has_a_record_with_all_names_for_each_iteration(data):
    X, source = data
    model = fitted(X, source, solver="admm")
    fixed = {"iteration", "objective", "seconds", "rounds", "floats_up", "floats_down"}
    assert len(model.history_) == model.n_iter_
    for number, record in enumerate(model.history_, 1):
        assert isinstance(record, Iteration)
        assert fixed <= set(record) == {field.name for field in fields(Iteration)}
        assert len(record) == len(dict(record)) == len(record.asdict())
        assert record["iteration"] == record.iteration == number
        assert record.seconds > 0
        assert "seconds" in record
        assert "hours" not in record
        with pytest.raises(KeyError, match="hours"):
            record["hours"]


def test_the_score_is_the_mean_log_likelihood(model, data):
    X, source = data
    residual = X - model.inverse_transform(model.transform(X, source=source))
    sigma2 = model.noise_variance_[source][:, None]
    by_hand = -0.5 * (residual**2 / sigma2 + np.log(2 * np.pi * sigma2)).sum(axis=1).mean()
    assert_allclose(model.score(X, source=source), by_hand, rtol=1e-9)


def test_fixed_noise_is_kept(data):
    X, source = data
    assert_array_equal(fitted(X, source, noise=0.7).noise_variance_, [0.7, 0.7, 0.7])


def test_shared_noise_is_one_level(data):
    X, source = data
    levels = fitted(X, source, noise="shared").noise_variance_
    assert levels[0] == levels[1] == levels[2]


def test_without_sources_there_is_one(data):
    X, _ = data
    model = fitted(X)
    assert model.sources_.shape == model.noise_variance_.shape == (1,)
    assert_array_equal(model.components_, fitted(X, np.full(len(X), "all")).components_)


# -- noise is found, and weighs ------------------------------------------------------------------------------------


def test_the_noise_that_was_put_in_is_found():
    """Tolerance 10 %: a sample's r - 1 free memberships explain (r - 1) / m = 5 % of its noise, the rest is chance."""
    sigmas = np.array([0.2, 0.6, 1.5, 4.0])
    for seed in range(5):
        X, source, _, _ = mixture(seed, n=1200, m=40, sigmas=sigmas)
        model = DBMD(3, random_state=0).fit(X, source=source)
        assert_allclose(model.noise_variance_, sigmas**2, rtol=0.1)


def error_of(model, W):
    """Return the relative error of the components, matched to the true ones."""
    distance = ((model.components_[:, None] - W.T[None]) ** 2).sum(axis=2)
    return np.sqrt(distance[linear_sum_assignment(distance)].sum()) / np.linalg.norm(W)


def test_clean_sources_count_for_more():
    """With a level for each source the components are much nearer to the truth than with one for all, in most draws."""
    better = 0
    for seed in range(10):
        X, source, W, _ = mixture(seed, n=300, sigmas=(0.1, 0.3, 4.0))
        one_each, one_for_all = (
            error_of(fitted(X, source, noise=noise, init=W.T, tol=0.0, max_iter=30), W)
            for noise in ("source", "shared")
        )
        better += one_each < 0.3 * one_for_all
    assert better >= 9
