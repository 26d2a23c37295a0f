"""The experiment on known memberships: what is made up, how errors are measured, and what is drawn and claimed."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbmd.experiments.truth import data as data_module
from dbmd.experiments.truth import draw, methods
from dbmd.experiments.truth.data import levels, made, matched, membership_error, mixtures, pattern_error
from dbmd.experiments.truth.run import run, tasks
from experiments.records import run_all

MADE_UP = {"name": "made up", "kind": "mixtures", "alpha": 0.3, "snr": 15.0, "components": 3, "n": 600}
LEVELS = {"name": "levels", "kind": "levels", "sigmas": [0.1, 0.5, 2.0], "n": 900}
SETTING = {
    "runs": 2, "methods": ["k-means", "nmf", "nn-fac", "archetypes", "map", "map, 150 iterations", "evidence"],
    "sets": [MADE_UP, LEVELS],
    "iterations": {"sets": ["made up", "levels"], "max_iter": 60},
    "archetypes": {"samples": 300, "max_iter": 15},
    "nn_fac": {"samples": 200, "max_iter": 30, "volume": 0.01},
}  # fmt: skip
ABOUT = {"small": SETTING}


@pytest.fixture(scope="module")
def records():
    return run_all("truth", SETTING)


def errors(records, **values):
    own = [r for r in records if r["part"] == "errors" and all(r[name] == v for name, v in values.items())]
    return np.array([record["error"] for record in own])


def curve(records, name, **values):
    own = [r for r in records if r["part"] == "iterations" and all(r[key] == v for key, v in values.items())]
    return np.array([point[name] for point in own[0]["curve"]])


# -- what is made up ---------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 99), alpha=st.floats(0.1, 3.0), snr=st.floats(0.0, 20.0), largest=st.sampled_from([0.6, 1.0])
)
def test_mixtures_have_the_noise_and_the_memberships_that_were_asked_for(seed, alpha, snr, largest):
    made_up = mixtures(seed, alpha=alpha, snr=snr, components=4, n=500, largest=largest)
    H, clean = made_up.memberships, made_up.memberships @ made_up.patterns
    np.testing.assert_allclose(H.sum(axis=1), 1.0)
    assert H.shape == (500, 4)
    assert H.max() <= largest
    found = clean.var(axis=0).mean() / (made_up.X - clean).var()
    assert 10 * np.log10(found) == pytest.approx(snr, abs=0.3)


def test_each_source_has_its_noise():
    made_up = levels(3, sigmas=[0.1, 0.3, 4.0], n=3000)
    noise = made_up.X - made_up.memberships @ made_up.patterns
    found = [noise[made_up.source == c].std() for c in range(3)]
    np.testing.assert_allclose(found, made_up.sigmas, rtol=0.05)


def test_runs_have_samples_of_their_own_and_a_seed_gives_the_same():
    np.testing.assert_array_equal(made(MADE_UP, 1).X, made(MADE_UP, 1).X)
    assert np.abs(made(MADE_UP, 1).X - made(MADE_UP, 2).X).max() > 0.1


# -- how errors are measured -------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 99), order=st.permutations(range(4)))
def test_errors_do_not_depend_on_the_order_of_components(seed, order):
    rng = np.random.default_rng(seed)
    truth, found = rng.dirichlet(np.ones(4), 30), rng.dirichlet(np.ones(4), 30)
    assert membership_error(found[:, order], truth) == pytest.approx(membership_error(found, truth))
    assert membership_error(truth[:, order], truth) == 0.0
    np.testing.assert_array_equal(matched(truth[:, order], truth), truth)
    assert pattern_error(found.T[list(order)], truth.T) == pytest.approx(pattern_error(found.T, truth.T))
    assert pattern_error(1.1 * truth.T[list(order)], truth.T) == pytest.approx(0.1)


@given(seed=st.integers(0, 99))
def test_the_scales_of_components_do_not_change_what_a_factorisation_says(seed):
    rng = np.random.default_rng(seed)
    truth, scales = rng.dirichlet(np.ones(3), 50), rng.uniform(0.1, 10.0, 3)
    np.testing.assert_allclose(methods.shares(truth * scales), truth, atol=1e-8)


@pytest.mark.slow
def test_all_methods_give_memberships_and_beat_equal_parts(records):
    for about in SETTING["sets"]:
        truth = made(about, 0).memberships
        equal_parts = np.sqrt(((truth - 1 / 3) ** 2).mean())
        for method in SETTING["methods"]:
            found = errors(records, data=about["name"], method=method)
            assert (found < equal_parts).all()
    found = methods.METHODS["archetypes"](made(MADE_UP, 0), 0, SETTING)
    np.testing.assert_allclose(found.memberships.sum(axis=1), 1.0, rtol=1e-5)
    assert found.memberships.shape == (300, 3)


@pytest.mark.slow
def test_nmf_is_left_out_where_samples_are_as_often_negative_as_positive(records):
    ran = {(task["data"], task["method"]) for task in tasks(SETTING)}
    assert ("made up", "nmf") in ran
    assert not {("levels", "nmf"), ("levels", "nn-fac")} & ran
    assert errors(records, data="levels", method="nmf").size == 0


# -- DBMD --------------------------------------------------------------------------------------------------------------


def test_memberships_are_found_by_evidence_nearer_than_by_k_means_and_by_map_that_goes_on(records):
    for name in ("made up", "levels"):
        own = errors(records, data=name, method="evidence")
        assert (own < 0.6 * errors(records, data=name, method="k-means")).all()
    assert (errors(records, data="made up", method="evidence")
            < errors(records, data="made up", method="map, 150 iterations")).all()  # fmt: skip


def test_noise_levels_are_those_put_in_with_evidence_and_too_low_with_map(records):
    for method, low, high in (("evidence", 0.93, 1.07), ("map", 0.7, 0.95)):
        own = [r for r in records if r["part"] == "errors" and (r["data"], r["method"]) == ("levels", method)]
        ratio = np.array([r["sigmas_found"] for r in own]).mean(axis=0) / LEVELS["sigmas"]
        assert (ratio > low).all()
        assert (ratio < high).all()


def test_evidence_stays_and_map_goes_away(records):
    on_levels = {m: curve(records, "pattern_error", data="levels", method=m) for m in ("map", "evidence")}
    assert on_levels["evidence"][-1] < 1.2 * on_levels["evidence"].min()
    assert on_levels["map"][-1] > 2 * on_levels["evidence"][-1]
    last = {m: curve(records, "error", data="made up", method=m) for m in ("map", "evidence")}
    assert last["map"][-1] > 1.2 * last["map"].min()
    assert last["evidence"][-1] < last["map"][-1]


# -- what is missing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", [{"kind": "jasper"}, {"kind": "cellmix", "genes": 10}], ids=["jasper", "cellmix"])
def test_without_its_files_a_set_says_which_folder_is_missing(about, monkeypatch, tmp_path):
    monkeypatch.setenv("DBMD_DATA", str(tmp_path))
    data_module.jasper.cache_clear()
    data_module.cellmix.cache_clear()
    setting = SETTING | {"sets": [MADE_UP, about | {"name": "real"}]}
    (record,) = run({"part": "errors", "data": "real", "run": 0, "method": "evidence"}, setting)
    assert "was not found" in record["missing"]
    assert str(tmp_path) in record["missing"]


@pytest.mark.parametrize(("method", "package"), [("archetypes", "archetypes"), ("nn-fac", "nn_fac.min_vol_nmf")])
def test_without_its_package_a_method_says_how_to_install_it(method, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    (record,) = run({"part": "errors", "data": "made up", "run": 0, "method": method}, SETTING)
    assert "pip install 'dbmd[peers]'" in record["missing"]


def test_what_is_missing_is_told_in_the_table_and_by_a_claim(records):
    task = {"part": "errors", "run": 0, "data": "Jasper Ridge"}
    gone = [task | {"method": m, "kind": "jasper", "alpha": None, "missing": "No files."} for m in SETTING["methods"]]
    told = draw.table(records + gone, ABOUT)
    assert "not run" in told.markdown()
    assert "Not run: No files." in told.note
    last = draw.claims(records + gone, ABOUT)[-1]
    assert "No files." in last.text
    assert not last.holds
    assert len(draw.draw(records + gone, ABOUT)) == 2


# -- what is drawn -----------------------------------------------------------------------------------------------------


def test_figures_table_and_claims_come_from_records_alone(records):
    figures = draw.draw(records, ABOUT)
    assert list(figures) == ["errors", "iterations"]
    assert [len(figure.axes) for figure in figures.values()] == [1, 2]
    table = draw.table(records, ABOUT)
    assert len(table.rows) == 2 + 2 + 2 + 1  # sets, W and noise, curves, seconds
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(draw.claims(records, ABOUT)) == 6 + 2 + 6  # other methods, noise levels, curves


def test_claims_follow_the_records(records):
    worse = [r | {"error": 1.0} if r["part"] == "errors" and r["method"] == "evidence" else r for r in records]
    assert not any(claim.holds for claim in draw.claims(worse, ABOUT)[:6])
    better = [r | {"error": 0.0} if r["part"] == "errors" and r["method"] == "evidence" else r for r in records]
    assert all(claim.holds for claim in draw.claims(better, ABOUT)[:6])
    flat = [r | {"curve": [p | {"error": 0.1, "pattern_error": 0.1} for p in r["curve"]]} if "curve" in r else r
            for r in records]  # fmt: skip
    assert [claim.holds for claim in draw.claims(flat, ABOUT)[-6:]] == [False, True, False] * 2
