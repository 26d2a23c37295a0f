"""The W-step as the paper prints it, beside what its solvers have to be (docs/paper.md, points 6 to 9, 11 and 14).

Each method is written down in a few lines from A_c = H_c H_c' and B_c = X_c H_c' of the nodes. The reference is the
minimiser of (P), sum_c f_c(W) / sigma_c^2 + lam ||W||_1.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dbmd.model.lasso import minimise
from dbmd.model.penalty import soft
from dbmd.model.statistics import Quadratic
from strategies import memberships

M, R = 6, 3


def nodes(rng, sizes, sigma2):
    """Return A_c and B_c of all nodes, stacked: shapes (C, r, r) and (C, m, r)."""
    W = rng.normal(size=(M, R))
    A, B = [], []
    for n, level in zip(sizes, sigma2, strict=True):
        Ht = memberships(rng, n, R)
        Xt = Ht @ W.T + np.sqrt(level) * rng.normal(size=(n, M))
        A.append(Ht.T @ Ht)
        B.append(Xt.T @ Ht)
    return np.array(A), np.array(B)


def solution(A, B, weights, lam):
    """Return the minimiser of (P) with these weights in place of 1 / sigma_c^2."""
    f = Quadratic(np.tensordot(weights, A, 1), np.tensordot(weights, B, 1))
    return minimise(f, lam, np.zeros((M, R)))


def distance(W, V):
    return np.linalg.norm(W - V) / np.linalg.norm(V)


# -- AGD: the momentum of FISTA ------------------------------------------------------------------------------------


def momenta(following, rounds=200):
    """Return (t_k - 1) / t_k+1 for a rule that gives t_k+1 from t_k = 1, ..."""
    t, found = 1.0, []
    for _ in range(rounds):
        t, before = following(t), t
        found.append((before - 1.0) / t)
    return np.array(found)


def test_the_momentum_as_printed_goes_to_one_like_one_minus_three_over_k():
    k = np.arange(1, 201)
    found = momenta(lambda t: (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0)
    assert (np.diff(found) > 0.0).all()
    assert_allclose(found[20:], 1.0 - 3.0 / (k[20:] + 3.0), atol=0.02)


def test_the_momentum_without_the_half_of_the_root_stops_at_one_half():
    found = momenta(lambda t: 0.5 + np.sqrt(1.0 + 4.0 * t * t))
    assert found.max() <= 0.5
    assert_allclose(found[10:], 0.5, atol=1e-3)


# -- ADMM ----------------------------------------------------------------------------------------------------------


def admm(A, B, weights, threshold, rho, *, dual=True, rounds=3000):
    """Return W and the duals of Algorithm 2 with weighted averages, and with or without the dual update."""
    W, U = np.zeros((M, R)), np.zeros_like(B)
    inverse = np.linalg.inv(A + rho * np.eye(R))
    for _ in range(rounds):
        W_c = (B + U + rho * W) @ inverse
        W = soft(np.tensordot(weights / weights.sum(), W_c - U / rho, 1), threshold)
        if dual:
            U = U + rho * (W - W_c)
    return W, U


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_admm_without_the_dual_update_ends_elsewhere(lam, rng):
    A, B = nodes(rng, [40, 10, 25], [1.0] * 3)
    weights, rho = np.ones(3), 5.0
    expected = solution(A, B, weights, lam)
    with_dual, _ = admm(A, B, weights, lam / (3 * rho), rho)
    without, _ = admm(A, B, weights, lam / (3 * rho), rho, dual=False)
    assert distance(with_dual, expected) < 1e-9
    assert distance(without, expected) > 0.01


def test_the_threshold_of_admm_must_know_the_precisions(rng):
    """lam / (C rho) solves (P) with lam S / C: right where the precisions are of mean one, and nowhere else."""
    sigma2 = np.array([0.05, 0.2, 1.0])
    A, B = nodes(rng, [40, 40, 40], sigma2)
    weights, lam, rho = 1.0 / sigma2, 20.0, 5.0
    S, C = weights.sum(), 3
    right, _ = admm(A, B, weights, lam / (rho * S), rho)
    printed, _ = admm(A, B, weights, lam / (rho * C), rho)
    rescaled, _ = admm(A, B, weights * C / S, lam / (rho * C), rho)
    assert distance(right, solution(A, B, weights, lam)) < 1e-9
    assert distance(printed, solution(A, B, weights, lam)) > 0.1
    assert distance(printed, solution(A, B, weights, lam * S / C)) < 1e-9
    assert distance(rescaled, solution(A, B, weights * C / S, lam)) < 1e-9


def test_the_duals_of_admm_end_at_the_gradients_of_the_nodes(rng):
    """So they are made of the data, and no constants, as the proof of Theorem 1 has them."""
    A, B = nodes(rng, [40, 40, 40], [1.0] * 3)
    W, U = admm(A, B, np.ones(3), 0.0, 5.0)
    assert_allclose(U, W @ A - B, atol=1e-8)


def rounds_of_admm(A, B, rho, tol=1e-6):
    """Return after how many rounds W is within tol of the minimiser, lam = 0, all weights equal."""
    expected = B.sum(axis=0) @ np.linalg.inv(A.sum(axis=0))
    W, U = np.zeros((M, R)), np.zeros_like(B)
    inverse = np.linalg.inv(A + rho * np.eye(R))
    for k in range(1, 10_000):
        W_c = (B + U + rho * W) @ inverse
        W = (W_c - U / rho).mean(axis=0)
        U = U + rho * (W - W_c)
        if distance(W, expected) < tol:
            return k
    raise AssertionError("not within 10,000 rounds")


def test_with_its_penalty_on_the_scale_of_the_data_admm_is_as_fast_at_every_size(rng):
    """A fixed rho, here the paper's 50, is too large for small nodes and too small for large ones."""
    fixed, scaled = [], []
    for n in (100, 500, 5000):
        A, B = nodes(rng, [n] * 5, [1.0] * 5)
        values = np.linalg.eigvalsh(A.mean(axis=0))
        fixed.append(rounds_of_admm(A, B, 50.0))
        scaled.append(rounds_of_admm(A, B, np.sqrt(values[0] * values[-1])))
    assert max(scaled) < 1.2 * min(scaled)
    assert min(fixed[0], fixed[2]) > 2 * max(fixed[1], *scaled)


# -- CEASE ---------------------------------------------------------------------------------------------------------


def cease(A, B, *, gradient_weights, lam, gamma, rounds):
    """Return W of every round, shape (rounds + 1, m, r), the W_c averaged evenly."""
    W = np.zeros((M, R))
    found = [W]
    for _ in range(rounds):
        G = np.tensordot(gradient_weights, W @ A - B, 1)
        local = [minimise(Quadratic(A_c, W @ A_c - G), lam, W) for A_c in A + gamma * np.eye(R)]
        W = np.mean(local, axis=0)
        found.append(W)
    return np.array(found)


@pytest.mark.parametrize("C", [3, 5, 8])
def test_cease_with_the_sum_in_place_of_the_mean_grows_about_C_minus_1_fold_a_round(C, rng):
    A, B = nodes(rng, [2000] * C, [1.0] * C)
    expected = solution(A, B, np.ones(C), 0.0)

    def errors(gradient_weights):
        found = cease(A, B, gradient_weights=gradient_weights, lam=0.0, gamma=1e-3, rounds=6)
        return np.linalg.norm(found - expected, axis=(1, 2))

    with_sum, with_mean = errors(np.ones(C)), errors(np.ones(C) / C)
    assert_allclose(with_sum[1:] / with_sum[:-1], C - 1, rtol=0.05)
    assert with_mean[-1] < 1e-4 * with_mean[0]


def test_cease_with_the_mean_gradient_and_lambda_as_printed_solves_the_problem_with_C_times_lambda(rng):
    C, lam = 4, 5.0
    A, B = nodes(rng, [300] * C, [1.0] * C)

    def limit(local_lam):
        return cease(A, B, gradient_weights=np.ones(C) / C, lam=local_lam, gamma=1.0, rounds=60)[-1]

    expected = solution(A, B, np.ones(C), lam)
    assert distance(limit(lam / C), expected) < 1e-9
    assert distance(limit(lam), expected) > 0.01
    assert distance(limit(lam), solution(A, B, np.ones(C), C * lam)) < 1e-9


def test_any_averaging_of_the_local_solutions_leaves_the_limit_of_cease_where_it_is(rng):
    A, B = nodes(rng, [300] * 3, [1.0] * 3)
    lam, W = 5.0, solution(A, B, np.ones(3), 5.0)
    G = (W @ A - B).mean(axis=0)
    for A_c in A:  # at the minimiser every node answers with the minimiser, so every average is it, too
        assert distance(minimise(Quadratic(A_c, W @ A_c - G), lam / 3, np.zeros((M, R))), W) < 1e-9


def test_cease_diverges_where_a_small_node_is_not_scaled_up_to_stand_for_the_whole(rng):
    sizes = np.array([20, 400, 400])
    A, B = nodes(rng, sizes, [1.0] * 3)
    expected = solution(A, B, np.ones(3), 0.0)
    share = sizes / sizes.sum()
    raw = cease(A, B, gradient_weights=np.ones(3) / 3, lam=0.0, gamma=1e-3, rounds=15)
    # f_c / n_c, and the mean gradient of all samples; averaged by the shares it would be faster still
    per_sample = share[:, None, None]
    scaled = cease(A / per_sample, B / per_sample, gradient_weights=share, lam=0.0, gamma=1.0, rounds=60)
    assert distance(raw[-1], expected) > 1e6 * distance(raw[0], expected)
    assert distance(scaled[-1], expected) < 1e-6
