"""The experiment on the solvers' rounds: rates and formulas, and what is drawn from records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.experiments.convergence import draw
from dbmd.experiments.convergence.run import make
from dbmd.experiments.convergence.theory import Curvature
from dbmd.experiments.convergence.trace import Trace, log_loss, rounds_to
from dbmd.experiments.style import where
from experiments.records import run_all

SETTING = {
    "sources": 3, "n_per_source": [40, 150], "components": 4, "height": 1.5, "length": 6, "coherence": 1,
    "p": 0.25, "alpha0": 1.0, "lam": 0.01, "seed": 1, "rounds": 60,
    "methods": [
        {"solver": "exact", "options": {}},
        {"solver": "agd", "options": {}},
        {"solver": "admm", "options": {"rho": 50.0}},
        {"solver": "admm", "options": {}},
        {"solver": "cease", "options": {"gamma": 0.001}},
        {"solver": "cease", "options": {}},
    ],
    "gamma": 0.001, "gamma_over_mu": [1.0, 10.0], "gamma_rounds": 40,
    "rho": [1.0, 10.0, 100.0], "rho_rounds": 100,
}  # fmt: skip
ABOUT = {"small": SETTING}
scales = st.floats(0.01, 100.0)


@pytest.fixture(scope="module")
def records():
    return run_all("convergence", SETTING)


def random_curvature(seed, spread):
    """Return A_c of three nodes, which differ by a part of them."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(4, 8))
    H = [common + spread * rng.normal(size=(4, 8)) for _ in range(3)]
    return [H_c @ H_c.T for H_c in H]


def admm_radius(A, rho):
    """Return the spectral radius of a round of ADMM with lam = 0, a linear map of (W, U_1, ..., U_C)."""
    r, C = len(A[0]), len(A)
    zero, eye = np.zeros((r, r)), np.eye(r)
    U = [np.hstack([zero, *(eye if d == c else zero for d in range(C))]) for c in range(C)]
    W = np.hstack([eye, *[zero] * C])
    W_c = [np.linalg.solve(A_c + rho * eye, U_c + rho * W) for A_c, U_c in zip(A, U, strict=True)]
    new = sum(W_c[c] - U[c] / rho for c in range(C)) / C
    step = np.vstack([new, *(U[c] + rho * (new - W_c[c]) for c in range(C))])
    return np.abs(np.linalg.eigvals(step)).max()


@given(seed=st.integers(0, 1000), rho=scales)
def test_the_rate_of_admm_is_that_of_its_linear_map_where_nodes_are_alike(seed, rho):
    A = random_curvature(seed, 0.0)
    assert Curvature.of(A).admm(rho) == pytest.approx(admm_radius(A, rho), rel=1e-6)


@given(seed=st.integers(0, 1000), factor=scales)
def test_no_rho_has_a_better_rate_than_the_best_one(seed, factor):
    curvature = Curvature.of(random_curvature(seed, 0.3))
    assert curvature.admm(factor * curvature.best_rho) >= curvature.admm(curvature.best_rho) - 1e-12
    root = np.sqrt(curvature.kappa)
    assert curvature.admm(curvature.best_rho) == pytest.approx(root / (1.0 + root))


@given(seed=st.integers(0, 1000), spread=st.floats(0.0, 0.5), over_mu=scales)
def test_the_bound_of_cease_holds_for_its_linear_map(seed, spread, over_mu):
    """With lam = 0 a round takes W - W* to (W - W*)(I - A mean_c (A_c + gamma)^-1), A the mean of the A_c."""
    A = random_curvature(seed, spread)
    curvature = Curvature.of(A)
    gamma = over_mu * curvature.mu
    bound = curvature.cease(gamma)
    inverse = np.mean([np.linalg.inv(A_c + gamma * np.eye(4)) for A_c in A], axis=0)
    factor = np.linalg.norm(np.eye(4) - np.mean(A, axis=0) @ inverse, 2)
    if bound < 1.0:
        assert factor <= bound + 1e-9


@given(rate=st.floats(0.05, 0.99), rounds=st.integers(2, 300))
def test_the_rate_of_a_geometric_series_is_found_and_rounding_left_out(rate, rounds):
    errors = np.maximum(rate ** np.arange(rounds + 1.0), 1e-15)
    found = Trace(errors, errors, errors).rate()
    assert found.late == pytest.approx(rate)
    assert found.worst == pytest.approx(rate)


def test_the_late_rate_is_that_of_the_slowest_part():
    k = np.arange(400.0)
    errors = 0.5**k + 1e-3 * 0.95**k
    found = Trace(errors, errors, errors).rate()
    assert found.late == pytest.approx(0.95, abs=1e-6)


@given(gaps=st.lists(st.floats(0.0, 1.0), min_size=1), gap=st.floats(0.0, 1.0))
def test_rounds_are_counted_to_the_first_that_reaches_a_gap(gaps, gap):
    reached = rounds_to(gaps, gap)
    if reached is None:
        assert min(gaps) > gap
    else:
        assert gaps[reached] <= gap
        assert all(before > gap for before in gaps[:reached])


def test_the_log_loss_is_that_of_the_data(rng):
    """Formed from X itself: at W = 0 it is ln(sum ||X_c||^2 / C), and lam counts once."""
    problem = make("A", 40, SETTING)
    W = rng.normal(size=problem.terms[0].B.shape)
    zero = np.zeros_like(W)
    assert log_loss(problem, zero) == pytest.approx(np.log(2.0 * problem.constant / 3))
    squares = 2.0 * (problem.constant + sum(0.5 * np.vdot(W @ f.A, W) - np.vdot(f.B, W) for f in problem.terms))
    assert log_loss(problem, W) == pytest.approx(np.log((squares + 0.01 * np.abs(W).sum()) / 3))


def test_every_problem_is_the_same_for_all_methods_and_no_method_gets_below_the_exact_one(records):
    own = where(records, study="methods")
    assert len(own) == 2 * 2 * 6
    for record in own:
        (exact,) = where(own, data=record["data"], n_per_source=record["n_per_source"], solver="exact")
        assert record["gaps"][0] == exact["gaps"][0] > 0.0
        assert len(exact["gaps"]) == 2
        assert exact["gaps"][1] == 0.0
        assert min(record["gaps"]) > -1e-12


def test_cease_keeps_its_bound_and_records_say_where_it_says_nothing(records):
    own = where(records, study="cease")
    assert len(own) == 2 * 2 * 3
    assert all(record["worst"] <= record["bound"] for record in own if record["bound"] < 1.0)


@pytest.mark.slow
def test_figures_table_and_claims_come_from_records_alone(records):
    assert set(draw.draw(records, ABOUT)) == {"gap", "loss", "cease", "admm"}
    table = draw.table(records, ABOUT)
    assert [row[:2] for row in table.rows] == [(kind, n) for kind in "AB" for n in ("40", "150")]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(claim.text for claim in draw.claims(records, ABOUT))


def test_a_bound_that_is_broken_and_a_minimum_that_is_none_are_noticed(records):
    def failing(changed):
        return {claim.text.split(":")[0].split(" (")[0] for claim in draw.claims(changed, ABOUT) if not claim.holds}

    broken = [r | {"worst": 1.5} if r["study"] == "cease" else r for r in records]
    lower = [r | {"gaps": [*r["gaps"], -1e-6]} if r.get("solver") == "agd" else r for r in records]
    assert failing(broken) - failing(records) == {"Theorem 2, put right"}
    assert "Exact is at the minimum after one round" in failing(lower) - failing(records)
