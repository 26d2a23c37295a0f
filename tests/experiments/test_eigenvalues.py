"""The experiment on the eigenvalues of sum_c H_c H_c': the second moments, and what is drawn from records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.data.synthetic import bernoulli_memberships, dirichlet_memberships
from dbmd.experiments.eigenvalues import draw, second_moment
from experiments.records import run_all

SETTING = {
    "sources": 2, "components": 4, "n_per_source": [50, 200, 800], "p": 0.3, "alpha0": 1.0, "repeats": 30, "seed": 1,
}  # fmt: skip
ABOUT = {"small": SETTING}


@pytest.fixture(scope="module")
def records():
    return run_all("eigenvalues", SETTING)


@given(r=st.integers(2, 12), p=st.floats(0.02, 0.95), alpha0=st.floats(0.1, 10.0))
def test_second_moments_are_those_of_memberships_that_sum_to_one(r, p, alpha0):
    for moment in (second_moment.bernoulli(r, p), second_moment.dirichlet(r, alpha0)):
        assert moment.sum() == pytest.approx(1.0)
        assert np.linalg.eigvalsh(moment)[0] > 0.0
        assert np.linalg.eigvalsh(moment)[-1] >= 1.0 / r - 1e-12


@pytest.mark.parametrize(("r", "p", "alpha0"), [(2, 0.5, 0.3), (5, 0.2, 1.0), (8, 0.6, 4.0)])
def test_second_moments_are_the_limit_of_draws(rng, r, p, alpha0):
    """200,000 samples: entries are means of numbers in [0, 1], known to 0.0011; 5 of these."""
    n = 200_000
    for H, moment in (
        (bernoulli_memberships(rng, r, n, p), second_moment.bernoulli(r, p)),
        (dirichlet_memberships(rng, r, n, alpha0), second_moment.dirichlet(r, alpha0)),
    ):
        np.testing.assert_allclose(H @ H.T / n, moment, atol=0.006)


@given(r=st.integers(2, 12), p=st.floats(0.02, 0.95))
def test_without_the_samples_that_get_the_last_component_the_largest_eigenvalue_is_the_least_there_can_be(r, p):
    moment, empty = second_moment.bernoulli(r, p), second_moment.empty(r, p)
    moment[-1, -1] -= empty
    assert np.linalg.eigvalsh(moment)[-1] / (1.0 - empty) == pytest.approx(1.0 / r)


def test_every_draw_has_at_least_the_largest_eigenvalue_that_column_sums_of_one_demand(records):
    for record in records:
        assert min(record["largest"]) >= record["samples"] / record["components"] * (1 - 1e-12)
        assert min(record["condition"]) >= 1.0
        assert record["samples"] == 2 * record["n_per_source"]


def test_figure_table_and_claims_come_from_records_alone(records):
    assert set(draw.draw(records, ABOUT)) == {"eigenvalues"}
    table = draw.table(records, ABOUT)
    assert [row[0] for row in table.rows] == ["50", "200", "800"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [claim.holds for claim in draw.claims(records, ABOUT)] == [True] * 4


def test_growth_that_is_not_linear_and_a_condition_that_grows_are_noticed(records):
    bent = [r | {"largest": [v * r["n_per_source"] ** 0.1 for v in r["largest"]]} for r in records]
    assert not draw.claims(bent, ABOUT)[0].holds
    worse = [r | {"condition": [v * r["n_per_source"] for v in r["condition"]]} for r in records]
    assert not draw.claims(worse, ABOUT)[1].holds
