"""The experiment on scalability: laws of the simulation, and figures, table and claims from records alone."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.config import Config
from dbmd.data import partition
from dbmd.engines import Link, Traffic
from dbmd.engines.local import Engine
from dbmd.experiments.experiment import Experiment
from dbmd.experiments.scalability import claims as claiming
from dbmd.experiments.scalability import derived
from dbmd.experiments.scalability import draw as drawing
from dbmd.experiments.scalability.run import at_spark, measured_at, mixtures, run, simulated, tasks
from dbmd.experiments.scalability.simulation import Work, efficiency, speed_up
from dbmd.experiments.scalability.timing import Alone, iterate, works
from dbmd.experiments.style import where
from dbmd.storage import plain

ABOUT = Experiment.load("scalability").about
FREE = Link(0.0, math.inf)
TINY = {
    "data": "synthetic",
    "rows": 200,
    "features": 4,
    "components": 2,
    "noise": 1.0,
    "alpha": 2.0,
    "lam": 1.0,
    "iterations": 2,
    "repeats": 2,
    "seed": 0,
    "engines": ["local"],
    "nodes": [1, 2, 3],
    "link": {"latency": 0.001, "bandwidth": 1e9},
    "rules": {
        "paper": {"exact": {}, "agd": {"max_rounds": 4, "tol": 0.0}, "admm": {"max_rounds": 2}, "cease": {"tol": 0.01}},
        "ours": {"agd": {"tol": 1e-2}, "admm": {"tol": 1e-2}, "cease": {"tol": 1e-2}},
    },
    "cost": {
        "n": 100,
        "m": 4,
        "r": 2,
        "warm_passes": 2,
        "against": {"n": [100, 200], "m": [2, 4], "r": [2, 5, 6]},
    },
}
times = st.floats(0.0, 10.0)


@st.composite
def pieces_of_work(draw):
    n_asks, n_nodes = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    nodes = draw(st.lists(times, min_size=n_asks * n_nodes, max_size=n_asks * n_nodes))
    traffic = Traffic(n_asks, draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6)))
    return Work(np.array(nodes).reshape(n_asks, n_nodes), draw(times), traffic)


@st.composite
def links(draw):
    return Link(draw(st.floats(0.0, 1.0)), draw(st.floats(1e3, 1e12)))


def test_time_and_speed_up_of_made_up_work_are_those_by_hand():
    traffic = Traffic(asks=2, floats_down=600, floats_up=400)
    one = Work(np.array([[6.0], [4.0]]), 1.0, traffic)
    two = Work(np.array([[3.5, 2.5], [1.0, 3.0]]), 1.0, traffic)
    link = Link(latency=0.1, bandwidth=64_000)  # a thousand numbers a second

    assert one.seconds(link) == 11.0  # no network for one machine
    assert two.slowest == 6.5
    # Four messages, and the numbers of both nodes one after the other.
    assert two.messages(link) == pytest.approx(4 * 0.1 + 2.0)
    assert two.seconds(link) == pytest.approx(6.5 + 1.0 + 2.4)
    assert speed_up(11.0, 9.9) == pytest.approx(1.111, abs=1e-3)
    assert efficiency(11.0, 9.9, 2) == pytest.approx(0.556, abs=1e-3)


@given(st.floats(1e-3, 10.0), st.integers(1, 4), st.integers(1, 16))
def test_equal_nodes_without_messages_or_a_driver_are_as_many_times_faster(seconds, n_asks, n_nodes):
    traffic = Traffic(n_asks, 1000, 1000)
    one = Work(np.full((n_asks, 1), seconds), 0.0, traffic).seconds(FREE)
    many = Work(np.full((n_asks, n_nodes), seconds / n_nodes), 0.0, traffic).seconds(FREE)
    assert speed_up(one, many) == pytest.approx(n_nodes)
    assert efficiency(one, many, n_nodes) == pytest.approx(1.0)


@given(pieces_of_work(), links())
def test_no_part_of_the_work_can_be_left_out(work, link):
    found = work.seconds(link)
    total, n_nodes = work.nodes.sum(), work.nodes.shape[1]
    assert found >= work.driver
    assert found >= work.messages(link)
    assert total / n_nodes - 1e-9 <= work.slowest <= total + 1e-9


@given(pieces_of_work(), links(), st.floats(1.0, 100.0))
def test_a_slower_network_never_helps(work, link, factor):
    slower = Link(link.latency * factor, link.bandwidth / factor)
    assert work.seconds(link) <= work.seconds(slower) + 1e-9
    assert work.seconds(FREE) <= work.seconds(link)


@given(pieces_of_work(), st.floats(0.0, 5.0))
def test_the_least_of_repeats_forgets_what_disturbed_some(work, delay):
    disturbed = replace(work, nodes=work.nodes + delay, driver=work.driver + delay)
    least = Work.least([disturbed, work])
    np.testing.assert_array_equal(least.nodes, work.nodes)
    assert (least.driver, least.traffic) == (work.driver, work.traffic)


@pytest.fixture(scope="module")
def X():
    return mixtures(300, 5, 3, seed=0)


def config(solver, **options):
    return Config(
        3, solver=solver, inference="map", noise=1.0, alpha=2.0, lam=1.0, max_iter=3, tol=0.0, solver_options=options
    )


def test_nodes_that_work_alone_find_what_nodes_at_the_same_time_find(X):
    alone = iterate(Alone(partition(X, 0, 3)), config("cease", tol=1e-3), X.dtype, seed=1)
    with Engine(partition(X, 0, 3), 3) as engine:
        together = iterate(engine, config("cease", tol=1e-3), X.dtype, seed=1)
    assert [r.objective for r in alone] == [r.objective for r in together]


@pytest.mark.parametrize(("solver", "options", "asks"), [("exact", {}, 1), ("agd", {"max_rounds": 4, "tol": 0.0}, 6)])
def test_the_work_of_an_iteration_is_that_of_its_questions(X, solver, options, asks):
    found = works(partition(X, 0, 3), config(solver, **options), X.dtype, seed=1)
    assert len(found) == 3
    for work in found:
        assert work.nodes.shape == (asks, 3)
        assert (work.nodes >= 0.0).all()
        assert work.driver >= -1e-6
        assert work.traffic.asks == asks
        assert work.traffic.floats_down == asks * 5 * 3


def test_the_tasks_do_not_depend_on_the_machine(monkeypatch):
    """Records of one machine can be drawn on another."""
    listed = {}
    for cores in ("1", "7"):
        monkeypatch.setenv("DBMD_NUM_THREADS", cores)
        listed[cores] = tasks(ABOUT["paper"])
    assert listed["1"] == listed["7"]
    assert {task["engine"] for task in listed["1"] if task["part"] == "speed-up"} == {"local", "spark"}


def test_the_small_setting_starts_no_spark_and_loads_no_files():
    small = ABOUT["small"]
    assert (small["engines"], small["data"]) == (["local"], "synthetic")


@pytest.fixture(scope="module")
def records():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBMD_NUM_THREADS", "2")
        found = [task | record for task in tasks(TINY) for record in run(task, TINY)]
    return json.loads(json.dumps(plain(found), allow_nan=False))


def test_all_numbers_of_nodes_are_simulated_and_those_with_cores_measured(records):
    runs = where(records, part="speed-up", rule="paper", solver="admm")
    assert [r["nodes"] for r in where(runs, how="simulated")] == [1, 2, 3]
    assert [r["nodes"] for r in where(runs, how="measured")] == [1, 2]
    for record in where(runs, how="simulated"):
        parts = record["slowest_seconds"] + record["centre_seconds"] + record["message_seconds"]
        assert record["seconds"] == pytest.approx(parts)
    assert where(runs, how="simulated", nodes=1)[0]["message_seconds"] == 0.0


@pytest.mark.slow
def test_figures_table_and_claims_come_from_the_records_alone(records):
    assert set(drawing.draw(records, ABOUT)) == {"speed-up", "iteration", "cost"}
    table = drawing.table(records, ABOUT)
    assert len(table.rows) == 7
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(drawing.claims(records, ABOUT)) == 4 + 2 + 1 + 1 + 3


def speed_ups(asks, seconds=1.0, latency=0.0):
    """Return records of nodes that share work evenly, and ask so often over links with a latency."""
    link, found = Link(latency, math.inf), []
    for solver, n_asks in asks.items():
        task = {"part": "speed-up", "engine": "local", "rule": "paper", "solver": solver}
        for p in (1, 2, 10):
            work = Work(np.full((n_asks, p), seconds / n_asks / p), 0.0, Traffic(n_asks, 100, 100))
            found.append(task | simulated(p, [[work]], link))
            if p <= 2:
                found.append(task | measured_at(p, [(2 * seconds / p, [seconds / p])]))
    return found


def test_ideal_work_scales_ideally_and_is_what_is_measured():
    runs = speed_ups({"exact": 1, "agd": 32, "admm": 6, "cease": 6})
    for own in derived.by(where(runs, how="simulated"), "solver"):
        gain, used = derived.gains(own)
        np.testing.assert_allclose(gain, [1, 2, 10])
        np.testing.assert_allclose(used, 1.0)
    assert all(claim.holds for claim in [*claiming.scaling(runs), *claiming.on_the_cores(runs)])
    assert claiming.agreement(runs).holds
    # Nobody loses anything, so AGD does not lose more.
    assert not any(claim.holds for claim in claiming.losses(runs, ABOUT))


def test_who_asks_more_often_loses_more_on_a_slow_network():
    runs = speed_ups({"exact": 1, "agd": 32, "admm": 6, "cease": 6}, latency=0.01)
    (claim,) = claiming.losses(runs, ABOUT)
    assert claim.holds
    # T_10 is 0.1 s and 0.02 s a question.
    assert "AGD 0.14 with 32 questions" in claim.text
    assert "exact 0.83 with 1 question," in claim.text


def test_a_measurement_far_from_the_simulation_is_told():
    runs = speed_ups({"exact": 1})
    slow = [r | {"seconds": 2 * r["seconds"]} if r["how"] == "measured" and r["nodes"] == 2 else r for r in runs]
    claim = claiming.agreement(slow)
    assert not claim.holds
    assert "within 50%" in claim.text


def test_on_spark_every_question_counts_with_its_own_time():
    runs = speed_ups({"agd": 32})
    spark = {"part": "speed-up", "engine": "spark", "rule": "paper", "solver": "agd"}
    spark |= measured_at(2, [(5.0, [4.0])], question_seconds=0.1)
    np.testing.assert_allclose(derived.foreseen([spark], runs), [[0.5 + 32 * 0.1, 4.0]])


def test_where_spark_is_missing_claims_and_figure_say_so(records):
    task = {"part": "speed-up", "engine": "spark", "rule": "paper", "solver": "exact"}
    found = [*records, task | {"how": "missing", "nodes": 1, "reason": "There is no Java."}]
    (told,) = [claim for claim in drawing.claims(found, ABOUT) if "no Java" in claim.text]
    assert not told.holds
    texts = [text.get_text() for text in drawing.draw(found, ABOUT)["speed-up"].axes[0].texts]
    assert any("Spark was NOT measured" in text for text in texts)


@given(st.floats(0.1, 10.0), st.floats(-3.0, 3.0))
def test_the_slope_of_a_power_is_its_exponent(factor, power):
    x = np.array([1.0, 3.0, 10.0, 40.0])
    assert derived.slope(x, factor * x**power) == pytest.approx(power, abs=1e-9)


@given(st.floats(0.1, 10.0), st.floats(0.01, 10.0))
def test_a_straight_line_is_found(a, b):
    x = np.array([10.0, 50.0, 200.0, 1000.0])
    found = derived.affine(x, a + b * x)
    assert found[1] == pytest.approx(b)
    assert found[2] < 1e-6


@pytest.mark.spark
def test_a_fit_on_spark_is_measured_from_the_start_to_the_last_iteration(spark, monkeypatch):
    monkeypatch.setenv("MASTER", "local[2]")  # which it sets, too
    task = {"part": "speed-up", "engine": "spark", "rule": "paper", "solver": "exact"}
    record = at_spark(task, TINY | {"repeats": 1}, 2)
    assert record["how"] == "measured"
    assert record["fit_seconds"] > TINY["iterations"] * record["seconds"] > 0.0
    assert record["question_seconds"] > 0.0
