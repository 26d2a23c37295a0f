"""The experiment on Theorem 1: the formulas, and what is drawn from records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.experiments.variance_ratio import draw
from dbmd.experiments.variance_ratio.run import exact_ratio, memberships
from experiments.records import run_all

SETTING = {
    "sources": 3, "n_per_source": 40, "components": 3, "height": 1.5, "length": 6, "coherence": 1, "p": 0.3,
    "last_sigma": [1.0, 3.0], "repeats": 6, "tol": 1e-8, "seed": 1,
    "methods": {"exact": {}, "admm": {"rho": 10.0}, "cease": {}},
}  # fmt: skip
ABOUT = {"small": SETTING}


@pytest.fixture(scope="module")
def records():
    return run_all("variance-ratio", SETTING)


def test_there_is_a_record_for_each_noise_and_method(records):
    assert [(r["last_sigma"], r["method"]) for r in records] == [
        (sigma, method) for sigma in SETTING["last_sigma"] for method in SETTING["methods"]
    ]
    assert all(len(r["squared_errors"]) == len(r["squared_errors_unweighted"]) == 6 for r in records)


def test_with_equal_noise_weights_change_nothing(records):
    for record in records[:3]:
        assert record["exact_ratio"] == pytest.approx(1.0)
        assert record["ratio_of_means"] == pytest.approx(1.0)
        assert draw.ratio(record)[0] == pytest.approx(1.0, abs=1e-12)


def test_all_methods_have_the_same_errors(records):
    exact, *others = records[3:]
    for record in others:
        assert record["squared_errors"] == pytest.approx(exact["squared_errors"], rel=1e-4)


@given(sigma=st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3), seed=st.integers(0, 50))
def test_the_exact_ratio_is_at_most_one_and_that_of_the_means_where_nodes_are_alike(sigma, seed):
    H, sigma2 = memberships(SETTING, seed), np.square(sigma)
    assert exact_ratio(H, sigma2) <= 1.0 + 1e-9
    means = (3 / (1 / sigma2).sum()) / sigma2.mean()
    assert exact_ratio([H[0]] * 3, sigma2) == pytest.approx(means)


def test_the_error_of_a_ratio_is_that_of_many_repeats():
    """A ratio of means of errors that rise and fall together, simulated: 2000 times 50 repeats, within 10 %."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        common = rng.gamma(20.0, size=50)
        weighted, plain = common * rng.uniform(0.4, 0.6, 50), common
        found.append(draw.ratio({"squared_errors": weighted, "squared_errors_unweighted": plain}))
    ratios, errors = np.transpose(found)
    assert errors.mean() == pytest.approx(ratios.std(), rel=0.1)


def test_figure_table_and_claims_come_from_records_alone(records):
    assert set(draw.draw(records, ABOUT)) == {"ratio"}
    table = draw.table(records, ABOUT)
    assert [row[0] for row in table.rows] == ["1", "3"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    _, same, _ = draw.claims(records, ABOUT)
    assert same.holds


def test_a_method_that_finds_another_w_is_noticed(records):
    wrong = [
        r | {"squared_errors": [1.1 * e for e in r["squared_errors"]]} if r["method"] == "cease" else r for r in records
    ]
    _, same, _ = draw.claims(wrong, ABOUT)
    assert not same.holds
