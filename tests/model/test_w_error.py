"""By how much W is likely to be off, and what of it the statistics of a pass tell."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd import DBMD
from dbmd.model.parts import Parts
from dbmd.model.statistics import PerSource
from dbmd.model.uncertainty import Squares, uncertainty
from dbmd.model.w_error import dirichlet_of, likely_errors, variance_within
from strategies import statistics, sums_of


def moments_of(alpha):
    mean = alpha / alpha.sum()
    return np.outer(mean, mean) + (np.diag(mean) - np.outer(mean, mean)) / (alpha.sum() + 1.0)


def errors(W, alpha, noise=0.02, n=4000.0, is_free=None):
    r = W.shape[1]
    free = np.ones(r, bool) if is_free is None else is_free
    return likely_errors(W, free, np.array([noise]), np.array([n]), moments_of(np.asarray(alpha)))


def test_a_dirichlet_distribution_is_found_from_its_moments(rng):
    alpha = rng.uniform(0.1, 2.0, 5)
    assert_allclose(dirichlet_of(moments_of(alpha)), alpha, rtol=1e-9)


def test_crisp_memberships_make_the_simplex_too_large_and_spread_ones_too_small(rng):
    W = rng.uniform(size=(30, 4))
    crisp, spread = (np.diag(errors(W, np.full(4, a), 0.05).mean(axis=0)) for a in (0.1, 1.0))
    assert (crisp > 0.02).all()
    assert (spread < -0.02).all()


def test_what_is_exact_has_no_error(rng):
    W, free = rng.uniform(size=(30, 4)), np.array([False, True, True, False])
    found = errors(W, np.full(4, 0.3), is_free=free)
    assert not found[:, :, ~free].any()
    assert found[:, :, free].any()
    assert not errors(W, np.full(4, 0.3), is_free=np.zeros(4, bool)).any()
    assert not errors(W[:, :1], np.ones(1)).any()
    assert not errors(np.ones((5, 3)), np.ones(3)).any()
    variance = variance_within(W, found)
    assert variance.shape == (4, 30)
    assert not variance[~free].any()


def test_an_error_is_within_the_plane_and_has_the_scale_of_the_components(rng):
    W = rng.uniform(size=(30, 4))
    found = errors(W, np.full(4, 0.3))
    assert_allclose(found.sum(axis=1), 0.0, atol=1e-9)
    assert_allclose(errors(1e3 * W, np.full(4, 0.3), 0.02e6), found, atol=1e-6)
    assert_allclose(variance_within(W, found).sum(axis=1), np.square(W @ found).sum(axis=1).mean(axis=0))


def test_out_of_the_plane_it_is_a_regression_on_the_memberships(rng):
    """With the memberships known, the covariance of W is sigma^2 (H H')^-1; a noisy feature has a larger one."""
    n, m, r = 4000, 40, 3
    W, H = rng.uniform(size=(m, r)), rng.dirichlet(np.ones(r), n)
    std = np.where(np.arange(m) < 20, 0.05, 0.2)
    X = H @ W.T + rng.normal(size=(n, m)) * std
    sigma2, origin = np.array([np.square(std).mean()]), X.mean(axis=0)
    stats = PerSource({0: statistics(X, H, origin)})
    squares = PerSource({0: Squares.of(sums_of(X, H), origin, np.zeros(X.shape[1]))})
    found = uncertainty(stats, squares, W, parts=Parts(r), sigma2=sigma2, origin=origin)
    expected = np.outer(np.diag(np.linalg.inv(H.T @ H)), std**2)
    assert_allclose(found.apart, expected, rtol=0.35)  # less what lies in the plane
    assert found.apart.sum() == pytest.approx(expected.sum() * (1.0 - (r - 1) / m), rel=0.1)
    assert_allclose(found.moments, H.T @ H / n)
    order = np.array([2, 0, 1])
    assert_allclose(found.reordered(order).apart, found.apart[order])


@pytest.mark.parametrize(("alpha", "snr"), [(0.2, 12.0), (1.0, 5.0)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(alpha, snr):
    rng = np.random.default_rng(5)
    patterns, H = rng.uniform(size=(3, 40)), rng.dirichlet(np.full(3, alpha), 2500)
    clean = H @ patterns
    X = clean + rng.normal(size=clean.shape) * np.sqrt(clean.var(axis=0).mean() / 10 ** (snr / 10.0))
    model = DBMD(3, init=patterns, random_state=0).fit(X)
    peak, std = model.transform(X, return_std=True)
    mean = model.transform(X, kind="mean")
    for each in (peak, mean):
        assert 0.85 <= (np.abs(each - H) <= 1.645 * std).mean() <= 0.95
    without = model.membership_sample_
    assert (np.abs(without.memberships - H[without.rows]) <= 1.645 * without.std).mean() < 0.85
    assert (np.abs(model.components_ - patterns) <= 1.645 * model.components_std_).mean() > 0.8
