"""The paper's theorems as they are printed, beside what holds (docs/paper.md, points 12 and 13)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strategies import generators, memberships

positive = st.floats(1e-3, 1e3)


# -- Theorem 1: the variance ratio ---------------------------------------------------------------------------------


def harmonic_over_arithmetic(sigma2):
    return (len(sigma2) / (1.0 / sigma2).sum()) / sigma2.mean()


@given(st.lists(positive, min_size=1, max_size=8))
def test_the_ratio_as_printed_is_the_square_of_the_number_of_nodes_whatever_the_noise(levels):
    sigma2, C = np.array(levels), len(levels)
    printed = (C / (1.0 / sigma2)).sum() / (sigma2 / C).sum()
    assert printed == pytest.approx(C**2)


@given(st.lists(positive, min_size=1, max_size=8))
def test_the_harmonic_over_the_arithmetic_mean_is_at_most_one(levels):
    sigma2 = np.array(levels)
    assert harmonic_over_arithmetic(sigma2) <= 1.0 + 1e-12
    assert harmonic_over_arithmetic(np.full(len(levels), levels[0])) == pytest.approx(1.0)
    # Equality for equal levels alone: for two of ratio q it is 4 q / (1 + q)^2.
    q = levels[0] / levels[-1]
    assert harmonic_over_arithmetic(np.array([levels[0], levels[-1]])) == pytest.approx(4.0 * q / (1.0 + q) ** 2)


# -- Theorem 2: the contraction of CEASE ---------------------------------------------------------------------------


def tau_printed(delta, mu, gamma):
    return (delta * np.sqrt(mu**2 + 2.0 * gamma * mu) + gamma) / (mu + gamma) ** 2


def tau(delta, mu_0, mu, gamma):
    """Return the contraction factor; mu_0: the least eigenvalue of all A_c, mu: that of their mean."""
    return (delta / (mu_0 + gamma) * np.sqrt(mu**2 + 2.0 * gamma * mu) + gamma) / (mu + gamma)


def contraction(A, gamma):
    """Return by which factor a round of CEASE without penalty changes the error at most.

    W_c = W - G (A_c + gamma)^-1 with the mean gradient G = (W - W*) A_bar, so the error is multiplied by
    mean_c [ I - A_bar (A_c + gamma)^-1 ].
    """
    identity = np.eye(A.shape[1])
    return np.linalg.norm((identity - A.mean(axis=0) @ np.linalg.inv(A + gamma * identity)).mean(axis=0), 2)


def structure(A):
    """Return delta, mu_0 and mu."""
    mean = A.mean(axis=0)
    delta = np.abs(np.linalg.eigvalsh(A - mean)).max()
    return delta, max(np.linalg.eigvalsh(A).min(), 0.0), np.linalg.eigvalsh(mean)[0]


@given(positive, positive, positive, st.sampled_from([0.1, 10.0]))
def test_a_contraction_factor_has_no_unit_but_the_printed_one_has(delta, mu, gamma, factor):
    """Twice the samples, or X in other units with W fixed, scale delta, mu and gamma alike."""
    scaled = factor * delta, factor * mu, factor * gamma
    assert tau(scaled[0], scaled[1], *scaled[1:]) == pytest.approx(tau(delta, mu, mu, gamma))
    assert tau_printed(*scaled) != pytest.approx(tau_printed(delta, mu, gamma), rel=1e-6)


def test_the_printed_factor_promises_what_no_proximal_step_does():
    # Equal nodes: delta = 0, and a round is the proximal step, which shrinks the error by gamma / (mu + gamma).
    A = np.array([np.eye(2)] * 3)
    assert contraction(A, 99.0) == pytest.approx(0.99)
    assert tau(0.0, 1.0, 1.0, 99.0) == pytest.approx(0.99)
    assert tau_printed(0.0, 1.0, 99.0) < 0.01


@given(positive, positive, positive)
def test_the_condition_of_the_theorem_says_that_the_factor_is_below_one(delta, mu, gamma):
    holds = delta**2 / (mu + gamma) ** 2, mu / (mu + 2.0 * gamma)
    assume(abs(holds[0] / holds[1] - 1.0) > 1e-6)
    assert (holds[0] < holds[1]) == (tau(delta, mu, mu, gamma) < 1.0)


@given(generators(), st.integers(2, 4), st.integers(2, 6), st.integers(4, 60), st.sampled_from([0.0, 0.01, 0.3, 3.0]))
def test_cease_contracts_at_least_by_the_factor_with_the_least_curvature_of_a_node(rng, r, C, n, gamma):
    A = np.array([Ht.T @ Ht for Ht in (memberships(rng, n, r) for _ in range(C))])
    delta, mu_0, mu = structure(A)
    gamma *= mu
    assume(mu_0 + gamma > 1e-6 * mu)
    factor = tau(delta, mu_0, mu, gamma)
    if factor < 1.0:
        assert contraction(A, gamma) <= factor * (1.0 + 1e-9)


def test_with_the_curvature_of_the_mean_in_its_place_the_theorem_would_promise_too_much():
    A = np.array([[[0.1]], [[1.9]]])
    delta, mu_0, mu = structure(A)
    assert tau(delta, mu, mu, 0.0) == pytest.approx(0.9)
    assert contraction(A, 0.0) > 4.0
    assert tau(delta, mu_0, mu, 0.0) > 4.0


def test_nodes_grow_alike_with_their_size_by_the_mean_and_not_by_the_sum(rng):
    """Synthetic data B of the paper: five nodes, r = 20, Dirichlet(1). Averages of ten draws."""
    by_mean, by_sum = {}, {}
    for n in (100, 5000):
        ratios = []
        for _ in range(10):
            A = np.array([Ht.T @ Ht for Ht in (memberships(rng, n, 20) for _ in range(5))])
            delta, _, mu = structure(A)
            rest = A.sum(axis=0) - A
            ratios.append((delta / mu, np.linalg.eigvalsh(rest).max() / (5 * mu)))
        by_mean[n], by_sum[n] = np.mean(ratios, axis=0)
    assert by_mean[100] == pytest.approx(3.4, rel=0.15)
    assert by_mean[5000] == pytest.approx(0.33, rel=0.15)
    assert min(by_sum.values()) > 16.0  # the condition of Theorem 2 asks for less than one, without gamma
