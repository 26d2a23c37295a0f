"""Theorem 1 of the paper, as point 12 of docs/paper.md puts it: what weighing the nodes by their precision gains.

For known memberships and lambda = 0 the W-step with weights w_c is (sum w_c B_c)(sum w_c A_c)^-1: unbiased, with
total variance m tr(M^-1 (sum w_c^2 sigma_c^2 A_c) M^-1), M = sum w_c A_c. The ratio of the variance with
w = 1 / sigma^2 to that with w = 1 is near the harmonic over the arithmetic mean of the sigma_c^2, and equal to it
where all A_c are equal.
"""

import numpy as np
import pytest

from dbmd.data.synthetic import banded_basis
from dbmd.engines.local import Engine
from dbmd.experiments.variance_ratio.run import exact_ratio, variance
from dbmd.model.node import Node
from dbmd.model.problem import Problem
from dbmd.model.statistics import PerSource, Quadratic, Statistics
from dbmd.solvers import exact

C, R, N_C = 5, 10, 100
W = banded_basis(R)
M = len(W)
REPEATS = 60


def crossed(rng):
    """Return memberships of the paper's first kind, H_c of shape (10, 100) for five nodes: Bernoulli(0.1)."""
    return [(rng.random((R, N_C)) < 0.1).astype(float) for _ in range(C)]


def statistics(H, sigmas, rng):
    """Return the statistics of X_c = W H_c + noise, a source for each node."""
    stats = PerSource()
    for c, (H_c, sigma) in enumerate(zip(H, sigmas, strict=True)):
        X = W @ H_c + sigma * rng.normal(size=(M, H_c.shape[1]))
        stats[c] = Statistics(X @ H_c.T, H_c @ H_c.T, float((X**2).sum()), H_c.shape[1], 0.0)
    return stats


def w_step(stats, sigma2):
    """Return W of the exact solver, lambda = 0, each node in a place of its own."""
    nodes = [Node(f"source {c}", quadratic=Quadratic.of(PerSource({c: s}), sigma2)) for c, s in stats.items()]
    start = np.zeros((M, R))
    problem = Problem.of(stats.map(lambda s: s.summary(start)), sigma2, 0.0, len(nodes))
    return exact.solve(start, Engine(nodes).ask, problem).W


def simulate(H, sigmas, seed):
    """Return the mean squared errors of the weighted and of the unweighted W, and their mean errors (for the bias)."""
    rng = np.random.default_rng(seed)
    sigma2 = np.square(sigmas)
    errors = [
        [w_step(stats, levels) - W for levels in (sigma2, np.ones(C))]
        for stats in (statistics(H, sigmas, rng) for _ in range(REPEATS))
    ]
    squares = np.square(errors).sum(axis=(2, 3)).mean(axis=0)
    return squares[0], squares[1], np.mean(errors, axis=0)


def levels(last):
    return np.array([1.0, 1.0, 1.0, 1.0, last])


@pytest.fixture(scope="module")
def memberships():
    return crossed(np.random.default_rng(42))


@pytest.mark.parametrize("last", [2.0, 5.0, 10.0])
def test_the_variance_ratio_is_that_of_the_formula(last, memberships):
    """Tolerance 3 %: a variance is the mean of 60 x 182 independent rows, known to about 1 %, and a ratio has two."""
    sigmas = levels(last)
    weighted, plain, bias = simulate(memberships, sigmas, seed=int(last))
    sigma2 = sigmas**2
    expected = [M * variance(memberships, sigma2, weights) for weights in (1 / sigma2, np.ones(C))]
    assert weighted == pytest.approx(expected[0], rel=0.03)
    assert plain == pytest.approx(expected[1], rel=0.03)
    assert weighted / plain == pytest.approx(expected[0] / expected[1], rel=0.03)
    # Both are unbiased: the mean error of 60 is a sixtieth of the variance, and no more.
    assert (bias**2).sum(axis=(1, 2)) * REPEATS == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize(
    ("last", "expected", "means"), [(2, 0.7386, 0.7353), (5, 0.2159, 0.2134), (10, 0.0616, 0.0599)]
)
def test_the_ratio_is_near_the_harmonic_over_the_arithmetic_mean(last, expected, means):
    """The figures of docs/paper.md, point 12, on average over 100 draws of the memberships."""
    sigma2 = levels(last) ** 2
    ratios = [exact_ratio(crossed(np.random.default_rng(seed)), sigma2) for seed in range(100)]
    harmonic_over_arithmetic = (C / (1 / sigma2).sum()) / sigma2.mean()
    assert harmonic_over_arithmetic == pytest.approx(means, abs=5e-5)
    assert np.mean(ratios) == pytest.approx(expected, rel=0.02)
    assert np.mean(ratios) == pytest.approx(harmonic_over_arithmetic, rel=0.04)
    assert max(ratios) < 1.0


def test_the_ratio_is_that_of_the_means_where_all_nodes_have_the_same_memberships(memberships):
    sigmas = levels(5.0)
    same = [memberships[0]] * C
    weighted, plain, _ = simulate(same, sigmas, seed=1)
    assert weighted / plain == pytest.approx((C / (1 / sigmas**2).sum()) / np.square(sigmas).mean(), rel=0.03)


def test_no_other_weights_have_less_variance(memberships):
    """Gauss-Markov, for any n_c: weights off by some percent never gain."""
    rng = np.random.default_rng(0)
    sizes = [100, 60, 30, 80, 15]
    H = [H_c[:, :n] for H_c, n in zip(memberships, sizes, strict=True)]
    sigma2 = levels(3.0) ** 2
    best = variance(H, sigma2, 1 / sigma2)
    for _ in range(50):
        assert variance(H, sigma2, np.exp(0.3 * rng.normal(size=C)) / sigma2) >= best


def test_weighing_is_what_the_solver_does(memberships):
    """The W-step is (sum w_c B_c)(sum w_c A_c)^-1 with w = 1 / sigma^2."""
    sigma2 = levels(5.0) ** 2
    stats = statistics(memberships, np.sqrt(sigma2), np.random.default_rng(3))
    A = sum(s.HHt / sigma2[c] for c, s in stats.items())
    B = sum(s.XHt / sigma2[c] for c, s in stats.items())
    np.testing.assert_allclose(w_step(stats, sigma2), B @ np.linalg.inv(A), rtol=1e-9, atol=1e-9)
