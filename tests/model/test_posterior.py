"""The posterior of memberships: a plain twin, sample by sample, and laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import erfcx

from dbmd.model import posterior as module
from dbmd.model.parts import Parts
from dbmd.model.posterior import PosteriorModel, grams
from dbmd.registry import load_kernel
from strategies import generators

BASES = {
    "plain": lambda rng, m, r: rng.normal(size=(m, r)),
    "ill-conditioned": lambda rng, m, r: rng.normal(size=(m, r)) * np.geomspace(1.0, 1e-6, r),
    "duplicate columns": lambda rng, m, r: rng.normal(size=(m, max(1, r // 2)))[:, np.arange(r) % max(1, r // 2)],
    "far from zero": lambda rng, m, r: 1e3 + rng.normal(size=(m, r)),
}


def made(rng, r, noise, n=40, m=9, basis="plain", alpha=0.4):
    """Return W, samples and their peaks."""
    W = BASES[basis](rng, m, r)
    X = rng.dirichlet(np.full(r, alpha), n) @ W.T + np.sqrt(noise) * rng.normal(size=(n, m))
    V = W - W.mean(axis=1, keepdims=True)
    H = load_kernel("cpu").solve_h(V.T @ V, (X - W.mean(axis=1)) @ V, np.zeros(r))
    return V, X - W.mean(axis=1), H


def found(W, X, H, noise, **options):
    Q = W.T @ W
    parts = options.pop("parts", Parts(W.shape[1]))
    return PosteriorModel(Q, noise, parts, np.zeros(W.shape[1]), **options).at(H, H @ Q - X @ W)


def twin(Q, b, h, noise, E=None):
    """Return the mean and the covariance of the posterior of one sample, by the formulas as they are written."""
    r, F = len(h), np.flatnonzero(h > 1e-6)
    f, one = len(F), np.ones((h > 1e-6).sum())
    G = Q[np.ix_(F, F)] / noise + f * (f + 1) * np.eye(f)
    inverse = np.linalg.inv(G)
    C, mean, g = np.zeros((r, r)), h.copy(), (Q @ h - b) / noise
    C[np.ix_(F, F)] = inverse - np.outer(inverse @ one, inverse @ one) / (one @ inverse @ one)
    moved = np.zeros(r) if E is None else C @ (-Q @ E @ h / noise - E.T @ g)
    for k in set(range(r)) - set(F.tolist()):
        q = Q[F, k] / noise
        u = np.zeros(r)
        u[F] = -inverse @ q + inverse @ one * (one @ inverse @ q - 1.0) / (one @ inverse @ one)
        u[k] = 1.0
        kappa = u @ (Q / noise + f * (f + 1) * np.eye(r)) @ u
        t = (g[k] - g[F].mean()) / np.sqrt(kappa)
        hazard = np.sqrt(2.0 / np.pi) / erfcx(t / np.sqrt(2.0))
        mean += (hazard - t) / np.sqrt(kappa) * u
        C += (1.0 + t * hazard - hazard**2) / kappa * np.outer(u, u)
    mean = np.maximum(mean, 0.0)
    return mean / mean.sum(), C + np.outer(moved, moved)


@settings(max_examples=25)
@given(generators(), st.integers(1, 7), st.sampled_from([1e-2, 1.0, 30.0]), st.booleans())
def test_agrees_with_the_formulas_sample_by_sample(rng, r, noise, has_errors):
    W, X, H = made(rng, r, noise)
    E = 0.1 * rng.normal(size=(r, r)) if has_errors else None
    all_at_once = found(W, X, H, noise, errors=None if E is None else E[None])
    each = [twin(W.T @ W, x @ W, h, noise, E) for x, h in zip(X, H, strict=True)]
    assert_allclose(all_at_once.mean, [mean for mean, _ in each], atol=1e-9)
    assert_allclose(all_at_once.std, [np.sqrt(np.minimum(np.diag(C), 0.25)) for _, C in each], atol=1e-7)


@settings(max_examples=10)
@given(generators(), st.integers(2, 5), st.booleans())
def test_shares_have_the_variance_of_the_delta_method(rng, r, by_energy):
    W, X, H = made(rng, r, 0.3)
    norms = rng.uniform(0.5, 2.0, r - 1) if by_energy else None
    shares = found(W, X, H, 0.3, parts=Parts(r - 1, has_dark=True), norms=norms)
    weights = np.ones(r - 1) if norms is None else norms
    for i, (x, h) in enumerate(zip(X, H, strict=True)):
        mean, C = twin(W.T @ W, x @ W, h, 0.3)
        parts, total = mean[:-1] * weights, mean[:-1] @ weights
        J = (np.diag(weights) - np.outer(parts / total, weights)) / total
        expected = np.minimum(np.diag(J @ C[:-1, :-1] @ J.T), (r - 2.0) / ((r - 1) ** 2 * r))
        assert_allclose(shares.mean[i], parts / total, atol=1e-9)
        assert_allclose(shares.std[i] ** 2, expected, atol=1e-9)
        assert_allclose(shares.brightness[i], 1.0 - mean[-1], atol=1e-9)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("r", [1, 2, 13, 50])
@pytest.mark.parametrize("noise", [1e-12, 1e-2, 1e10])
def test_means_are_on_the_simplex_and_deviations_are_bounded(r, basis, noise, rng):
    W, X, H = made(rng, r, min(noise, 1.0), n=15, m=20, basis=basis)
    values = found(W, X, H, noise)
    assert (values.mean >= 0.0).all()
    assert_allclose(values.mean.sum(axis=1), 1.0)
    assert np.isfinite(values.std).all()
    assert (values.std <= 0.5).all()
    if r == 1:
        assert not values.std.any()


def test_components_may_come_in_any_order(rng):
    W, X, H = made(rng, 5, 0.5)
    order = rng.permutation(5)
    straight, other = found(W, X, H, 0.5), found(W[:, order], X, H[:, order], 0.5)
    assert_allclose(other.mean, straight.mean[:, order])
    assert_allclose(other.std, straight.std[:, order])


def test_units_of_the_data_do_not_matter(rng):
    W, X, H = made(rng, 4, 0.5)
    assert_allclose(found(1e3 * W, 1e3 * X, H, 0.5e6).std, found(W, X, H, 0.5).std)


def test_without_noise_nothing_is_uncertain(rng):
    W, X, H = made(rng, 4, 1e-9)
    values = found(W, X, H, 1e-9)
    assert values.std.max() < 1e-3
    assert_allclose(values.mean, H, atol=1e-3)


def test_a_membership_of_zero_is_not_certain_and_pieces_do_not_matter(rng, monkeypatch):
    W, X, H = made(rng, 4, 1.0, n=200)
    whole = found(W, X, H, 1.0)
    assert (whole.std[H < 1e-6] > 1e-3).all()
    monkeypatch.setattr(module, "NUMBERS", 50)
    pieces = found(W, X, H, 1.0)
    assert_allclose(pieces.std, whole.std, rtol=1e-12)
    assert_allclose(pieces.mean, whole.mean, rtol=1e-12, atol=1e-15)


def test_gaps_make_memberships_less_certain(rng, monkeypatch):
    W, X, H = made(rng, 3, 0.1, n=60)
    missing = rng.random(X.shape) < 0.4
    own = grams(W, missing, W.T @ W)
    assert_allclose(own[7], W[~missing[7]].T @ W[~missing[7]])
    monkeypatch.setattr(module, "NUMBERS", 20)
    assert_allclose(grams(W, missing, W.T @ W), own)
    model = PosteriorModel(W.T @ W, 0.1, Parts(3), np.zeros(3))
    inside = np.flatnonzero((H > 1e-6).all(axis=1))
    level = np.zeros((len(inside), 3))
    assert (model.at(H[inside], level, own[inside]).std >= model.at(H[inside], level).std - 1e-12).all()


def test_a_prior_that_draws_to_the_centre_makes_memberships_more_certain(rng):
    Q, H = np.zeros((3, 3)), np.full((1, 3), 1.0 / 3.0)
    stds = [PosteriorModel(Q, 1.0, Parts(3), np.full(3, a - 1.0)).at(H, 0.0 * H).std[0, 0] for a in (2.0, 10.0, 100.0)]
    # The Dirichlet distribution itself, by Laplace's approximation at its peak.
    assert_allclose(stds, [np.sqrt(2.0 / 27.0 / (a - 1.0)) for a in (2.0, 10.0, 100.0)])


def test_the_standard_deviation_is_that_of_the_posterior():
    """By brute force, with two components: the posterior is a normal distribution between 0 and 1."""
    grid = np.linspace(0.0, 1.0, 20001)
    for peak in (0.5, 0.2, 0.0, -0.1):
        noise = 0.01  # W = (0, 1): x = h_1 + noise
        density = np.exp(-0.5 * (grid - peak) ** 2 / noise)
        mean = (density * grid).sum() / density.sum()
        std = np.sqrt((density * (grid - mean) ** 2).sum() / density.sum())
        W, h = np.array([[0.0, 1.0]]), np.clip(peak, 0.0, 1.0)
        H = np.array([[1.0 - h, h]])
        values = found(W, np.array([[peak]]), H, noise)
        assert values.std[0, 1] == pytest.approx(std, rel=0.06)
        assert values.mean[0, 1] == pytest.approx(mean, abs=0.01)
