"""The experiment on sources of different noise: what is made noisy, how it is scored, and what is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.experiments.noisy_mnist import draw
from dbmd.experiments.noisy_mnist.images import accuracies, add_noise
from dbmd.experiments.noisy_mnist.mixtures import errors, prepare, simulate
from dbmd.metrics import clustering_accuracy
from experiments.records import run_all

SETTING = {
    "images": {
        "data": "digits", "n": 300, "pixel_range": 16.0, "components": 10, "shares": [0.2, 0.6, 0.2],
        "sigmas": [0.03, 0.3], "last_sigma": [0.0, 2.85], "runs": 2, "seed": 1,
        "fit": {"inference": "map", "tol": 1e-3},
    },
    "mixtures": {
        "data": ["simulated"], "genes": [50, 100], "runs": 2, "seed": 1, "fit": {},
        "simulated": {"genes": 400, "cells": 40, "depths": [400, 800, 800, 1600]},
    },
}  # fmt: skip
ABOUT = {"small": SETTING}


@pytest.fixture(scope="module")
def records():
    return run_all("noisy-mnist", SETTING)


def images(records, **values):
    return [r for r in records if r["part"] == "images" and all(r[name] == v for name, v in values.items())]


def mixtures(records, **values):
    return [r for r in records if r["part"] == "mixtures" and all(r[name] == v for name, v in values.items())]


# -- images ------------------------------------------------------------------------------------------------------------


@given(n=st.integers(10, 200), seed=st.integers(0, 99), last=st.floats(0.0, 9.0))
def test_groups_have_their_shares_and_noise_differs_by_its_scale_alone(n, seed, last):
    X = np.zeros((n, 3), np.float32)
    noisy, group = add_noise(X, [0.2, 0.6, 0.2], [0.5, 1.0, last], seed)
    unit, same = add_noise(X, [0.2, 0.6, 0.2], [1.0, 1.0, 1.0], seed)
    assert np.abs(np.bincount(group, minlength=3) - n * np.array([0.2, 0.6, 0.2])).max() <= 1.0
    assert (group == same).all()
    np.testing.assert_allclose(noisy, unit * np.array([0.5, 1.0, last])[group][:, None], rtol=1e-6, atol=1e-30)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=4, max_size=40))
def test_accuracy_is_that_of_the_library_and_the_mean_over_the_groups(rows):
    classes, clusters, group = np.array(rows).T
    group = np.unique(group, return_inverse=True)[1]
    found = accuracies(classes, clusters, group)
    assert found["accuracy"] == pytest.approx(clustering_accuracy(classes, clusters))
    assert np.average(found["accuracy_by_group"], weights=np.bincount(group)) == pytest.approx(found["accuracy"])


@pytest.mark.slow
def test_noise_of_each_group_is_found_by_its_source(records):
    for record in images(records, method="source", last_sigma=2.85):
        np.testing.assert_allclose(record["sigmas_found"][1:], [0.3, 2.85], rtol=0.2)
        assert record["sigmas_found"][0] < 0.2
    for record in images(records, method="shared"):
        assert len(set(record["sigmas_found"])) == 1


def test_a_very_noisy_group_harms_the_others_less_if_it_has_a_level_of_its_own(records):
    for run in range(2):
        shared, source = (images(records, method=m, last_sigma=2.85, run=run)[0] for m in ("shared", "source"))
        assert source["accuracy_by_group"][0] > shared["accuracy_by_group"][0] + 0.1


@pytest.mark.slow
def test_the_control_takes_as_many_iterations_as_one_level_or_ends_before(records):
    for shared in images(records, method="shared"):
        task = {name: shared[name] for name in ("last_sigma", "run")}
        control, free = (images(records, method=m, **task)[0] for m in ("source, same iterations", "source"))
        assert control["iterations"] == min(shared["iterations"], free["iterations"])


# -- mixtures ----------------------------------------------------------------------------------------------------------


def test_simulated_mixtures_are_linear_in_their_proportions():
    """With counts without end, the noise is gone: three profiles explain all."""
    counts, batch, truth = simulate(genes=60, cells=20, depths=[10**8, 10**9], seed=0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    profiles = np.linalg.lstsq(truth, shares, rcond=None)[0]
    np.testing.assert_allclose(truth @ profiles, shares, atol=3e-4)
    np.testing.assert_allclose(profiles.sum(axis=1), 1.0)
    assert np.bincount(batch).tolist() == [20, 20]


@given(st.integers(0, 99), st.lists(st.floats(0.5, 20.0), min_size=12, max_size=12))
def test_prepared_counts_do_not_depend_on_depth(seed, depths):
    counts = np.random.default_rng(seed).gamma(2.0, size=(12, 30))
    X = prepare(counts, 20)
    np.testing.assert_allclose(prepare(counts * np.array(depths)[:, None], 20), X, rtol=1e-4)
    np.testing.assert_allclose(X.var(axis=0), 1.0, rtol=1e-4)


@given(st.integers(0, 99), st.permutations(range(3)))
def test_errors_do_not_depend_on_the_order_of_components(seed, order):
    rng = np.random.default_rng(seed)
    truth, found, batch = rng.dirichlet(np.ones(3), 20), rng.dirichlet(np.ones(3), 20), np.arange(20) % 4
    one, other = errors(found, truth, batch), errors(found[:, order], truth, batch)
    assert all(one[name] == pytest.approx(other[name]) for name in one)
    assert errors(truth[:, order], truth, batch)["error"] == 0.0


def test_mixtures_are_found_better_than_by_equal_parts_and_deep_batches_best(records):
    own = mixtures(records, method="source", genes=100)
    # A start may go astray; most do not.
    assert np.median([record["error"] / record["error_of_equal_parts"] for record in own]) < 0.6
    for record in own:
        assert record["error_by_batch"][3] < record["error_by_batch"][0]
        assert record["sigmas_found"][3] < record["sigmas_found"][0]


# -- what is drawn -----------------------------------------------------------------------------------------------------


def test_figures_table_and_claims_come_from_records_alone(records):
    figures = draw.draw(records, ABOUT)
    assert list(figures) == ["accuracy", "groups", "mixtures"]
    assert [len(figure.axes) for figure in figures.values()] == [2, 3, 2]
    table = draw.table(records, ABOUT)
    assert len(table.rows) == 2 + 2 + 4  # levels, numbers of genes, batches
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(draw.claims(records, ABOUT)) == 9


def test_titles_stay_above_their_own_panels(records):
    for figure in draw.draw(records, ABOUT).values():
        figure.draw_without_rendering()
        titles = [ax.title if ax.get_title() else ax._left_title for ax in figure.axes]
        boxes = [title.get_window_extent() for title in titles]
        for i, box in enumerate(boxes):
            assert box.x1 <= figure.bbox.x1
            assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_claims_follow_the_records(records):
    assert draw.claims(records, ABOUT)[2].holds  # a level for each source is clearly better
    worse = [r | {"accuracy": 0.1} if r["method"].startswith("source") else r for r in records if r["part"] == "images"]
    spoilt = draw.claims(worse + mixtures(records), ABOUT)
    assert not any(claim.holds for claim in spoilt[:3])


def test_what_is_left_without_the_last_group_is_less_than_all(records):
    own = images(records)
    accuracy = draw.by_level(own, "source", "accuracy")
    assert accuracy.shape == (2, 2)
    assert draw.without_last_group(own, "source") < accuracy[0].mean()
