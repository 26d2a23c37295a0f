import json

import numpy as np
import pytest

from dbmd.engines import Link
from dbmd.experiments.communication import draw as drawing
from dbmd.experiments.communication import findings
from dbmd.experiments.communication.costs import by_table_1, floats, reached, seconds, sent, time_map
from dbmd.experiments.communication.run import run, tasks
from dbmd.experiments.experiment import Experiment
from dbmd.experiments.style import where
from dbmd.storage import plain

ABOUT = Experiment.load("communication").about
SETTING = ABOUT["small"] | {
    "components": 4,
    "length": 6,
    "shapes": [[3, 60]],
    "p": 0.2,
    "timings": 1,
    "waiting": [{"data": "B", "nodes": 2, "n_per_node": 60, "latency": 0.01, "bandwidth": 1e6}],
    "waiting_rounds": 2,
}
M, R = 6 + 3 * 4, 4
GAP = min(ABOUT["gaps"])


@pytest.fixture(scope="module")
def records():
    found = [task | record for task in tasks(SETTING) for record in run(task, SETTING)]
    return json.loads(json.dumps(plain(found), allow_nan=False))


@pytest.fixture(scope="module")
def counting(records):
    return where(records, kind="counting")


def test_every_solver_meets_every_problem_and_comes_within_the_gap(counting):
    assert len(counting) == 2 * 4
    for record in counting:
        assert (record["m"], record["r"]) == (M, R)
        assert reached(record, GAP) is not None
        assert min(record["gaps"]) > -1e-12


def test_a_smaller_gap_takes_no_fewer_rounds_and_what_was_spent_never_falls(counting):
    for record in counting:
        rounds = [reached(record, gap) for gap in sorted(ABOUT["gaps"], reverse=True)]
        assert rounds == sorted(rounds)
        for name in ("asks", "floats_down", "floats_up", "seconds"):
            assert len(record[name]) == len(record["gaps"])
            assert record[name][0] == 0
            assert np.all(np.diff(record[name]) > 0)


def test_numbers_counted_are_those_of_table_1(counting):
    for record in counting:
        for k in range(1, len(record["gaps"])):
            assert floats(record, k) == by_table_1(record, k, ABOUT["published"])


def test_the_exact_solver_takes_one_question_with_W_down_and_the_statistics_up(counting):
    for record in where(counting, method="exact"):
        traffic = sent(record, reached(record, GAP))
        assert (traffic.asks, traffic.floats_down, traffic.floats_up) == (1, M * R, M * R + R * R)
        assert abs(record["gaps"][1]) < 1e-12


def test_time_is_computing_and_messages(counting):
    for record in counting:
        k = reached(record, GAP)
        assert seconds(record, GAP, Link(0.0, float("inf"))) == record["seconds"][k]
        slow = seconds(record, GAP, Link(0.1, 1e7)) - record["seconds"][k]
        assert slow == pytest.approx(0.2 * record["asks"][k] + 64 * floats(record, k) / 1e7)


def test_a_gap_that_was_not_reached_has_no_time(counting):
    assert reached(counting[1], -1.0) is None
    assert np.isnan(seconds(counting[1], -1.0, Link(0.1, 1e7)))


def test_the_map_of_times_has_the_seconds_of_every_link(counting):
    problem = where(counting, data="B")
    latency, bandwidth = np.array([1e-4, 1e-2, 1.0]), np.array([1e6, 1e9])
    times = time_map(problem, GAP, latency, bandwidth)
    for record in problem:
        expected = [[seconds(record, GAP, Link(d, b)) for d in latency] for b in bandwidth]
        np.testing.assert_allclose(times[record["method"]], expected)


def test_waiting_takes_at_least_as_long_as_the_model_says_of_the_links(records):
    waiting = where(records, kind="waiting")
    assert len(waiting) == 4
    for record in waiting:
        assert record["real_seconds"] >= record["link_seconds"]
        assert record["rounds"] == (1 if record["method"] == "exact" else 2)
    by_method = {record["method"]: record["link_seconds"] for record in waiting}
    assert by_method["agd"] == by_method["admm"] == by_method["cease"] / 2


@pytest.mark.slow
def test_figures_table_and_claims_come_from_the_records_alone(records, counting):
    figures = drawing.draw(records, ABOUT)
    assert set(figures) == {"numbers", "time", "map", "waiting"}
    assert len(figures["map"].axes) == 2
    for figure in figures.values():
        figure.draw_without_rendering()
    table = drawing.table(records, ABOUT)
    assert len(table.rows) == len(counting)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(claim.text for claim in drawing.claims(records, ABOUT))


def test_a_solver_that_does_not_arrive_is_shown_so_and_saves_nothing(records):
    stuck = [
        record | {"gaps": [1.0] * len(record["gaps"])} if record["method"] == "admm" and "gaps" in record else record
        for record in records
    ]
    assert "not reached" in drawing.table(stuck, ABOUT).markdown()
    drawing.draw(stuck, ABOUT)
    claim = findings.saves_against_agd(where(stuck, kind="counting"), "admm", GAP)
    assert not claim.holds
    assert "not reached" in claim.text


def test_numbers_that_are_not_those_of_table_1_are_told(counting):
    wrong = [record | {"floats_up": [1 + n for n in record["floats_up"]]} for record in counting]
    assert findings.table_1_is_right(counting, ABOUT["published"]).holds
    assert not findings.table_1_is_right(wrong, ABOUT["published"]).holds
