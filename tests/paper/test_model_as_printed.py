"""The H-step and the noise as the paper prints them, beside what the model says (docs/paper.md, points 1 to 3)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd.kernels.reference import solve_h
from strategies import memberships


def mixture(rng, n, sigma, m=8, r=3):
    """Return Xt, Ht and W with noise of a level."""
    W, Ht = rng.normal(size=(m, r)), memberships(rng, n, r)
    return Ht @ W.T + sigma * rng.normal(size=(n, m)), Ht, W


@pytest.mark.parametrize("alpha", [np.array([1.0, 3.0, 6.0]), np.array([0.5, 0.5, 0.2])])
def test_the_dirichlet_term_is_least_at_the_mode_and_not_at_the_mean(alpha):
    """alpha is the concentration less one, as in Eq. (opt2)."""

    def term(h):
        return -(alpha * np.log(h)).sum()

    mode, mean = alpha / alpha.sum(), (alpha + 1.0) / (alpha + 1.0).sum()
    near = np.random.default_rng(0).dirichlet(100.0 * mode, 200)
    assert min(term(h) for h in near) >= term(mode)
    assert term(mean) > term(mode)


def test_below_a_concentration_of_one_the_dirichlet_term_is_not_convex():
    alpha = -0.5
    ends, middle = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.5, 0.5])
    assert -(alpha * np.log(middle)).sum() > np.mean([-(alpha * np.log(h)).sum() for h in ends])


def test_the_memberships_do_not_depend_on_the_unit_of_the_data_if_the_prior_is_weighed_by_the_noise(rng):
    sigma, alpha, unit = 0.3, 1.0, 100.0
    Xt, _, W = mixture(rng, 50, sigma)

    def h_step(scale, weight):
        V = scale * W
        return solve_h(V.T @ V, scale * Xt @ V, np.full(3, weight * alpha))

    assert_allclose(h_step(unit, (unit * sigma) ** 2), h_step(1.0, sigma**2), atol=1e-6)
    assert np.abs(h_step(unit, 1.0) - h_step(1.0, 1.0)).max() > 0.1  # sigma = 1, as in Eq. (opt2)


def test_a_basis_of_the_nodes_own_explains_its_noise_away(rng):
    """||X_c - W_c H_c||^2 / (m n_c) is sigma^2 (1 - r / n_c) for the fit of the node alone, sigma^2 at the true W."""
    n, r, sigma = 20, 5, 2.0
    own, common = [], []
    for _ in range(200):
        Xt, Ht, W = mixture(rng, n, sigma, r=r)
        W_c = np.linalg.lstsq(Ht, Xt, rcond=None)[0].T
        own.append(((Xt - Ht @ W_c.T) ** 2).mean())
        common.append(((Xt - Ht @ W.T) ** 2).mean())
    assert np.mean(own) == pytest.approx(sigma**2 * (1.0 - r / n), rel=0.03)
    assert np.mean(common) == pytest.approx(sigma**2, rel=0.03)
