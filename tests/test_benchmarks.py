"""The benchmark: that all of it runs, what it counts, and what it says. Not how fast anything is."""

import json
import shutil

import numpy as np
import pytest
from benchmarks import real_data, sets, tables
from benchmarks.__main__ import main
from benchmarks.cells import cells
from benchmarks.counted import counted
from benchmarks.methods import METHODS
from benchmarks.parts import PARTS
from benchmarks.plan import README, Plan
from benchmarks.results import Results
from benchmarks.targets import Target, targets

from dbmd import DBMD

HERE = tuple(name for name in METHODS if name != "mllib_k_means")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    sets.prepare("cells", folder, quick=True)
    return folder


@pytest.fixture
def plan(cache):
    return Plan(data=("cells",), methods=HERE, repeats=1, quick=True, threads=2, cache=cache)


def test_made_up_cells_are_as_sparse_as_asked_and_the_same_for_the_same_seed():
    X, label = cells(2_500, 400, 5, seed=3)
    assert X.shape == (2_500, 400)
    assert X.dtype == np.float32
    assert X.nnz / np.prod(X.shape) == pytest.approx(0.05, rel=0.05)
    assert set(label) == set(range(5))
    again, same = cells(2_500, 400, 5, seed=3)
    assert (again != X).nnz == 0
    np.testing.assert_array_equal(label, same)


def test_methods_take_turns(plan):
    order = [(task["seed"], task["method"]) for task in PARTS["peers"].tasks(Plan(("cells",), HERE, repeats=2))]
    assert order == [(seed, method) for seed in (0, 1) for method in HERE]


def test_nmf_is_only_for_what_is_not_negative():
    methods = [task["method"] for task in PARTS["peers"].tasks(Plan(("covtype",), tuple(METHODS), repeats=1))]
    assert methods == ["dbmd", "k_means", "mini_batch_k_means", "mllib_k_means"]


@pytest.mark.slow
def test_every_method_tells_seconds_passes_memory_and_accuracy(plan):
    for task in PARTS["peers"].tasks(plan):
        record = PARTS["peers"].run(task)
        assert record["seconds"] > 0.0
        assert record["passes"] > 0
        assert 0.0 < record["accuracy"] <= 1.0
        assert record["peak_mb"] is None or record["peak_mb"] >= 0.0
        assert isinstance(record["converged"], bool)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["passes", "scaling", "h_step"])
def test_timings_are_positive(part, plan):
    (task,) = PARTS[part].tasks(plan)
    record = PARTS[part].run(task)
    found = {
        "passes": lambda: [record["bare"], record["warm"], record["cold"]],
        "scaling": lambda: list(record["microseconds"].values()),
        "h_step": lambda: [row["microseconds"] for row in record["rows"]],
    }[part]()
    assert min(found) > 0.0


def test_passes_are_the_questions_that_read_all_samples(rng):
    X = rng.random((300, 4))
    with counted(len(X)) as count:
        DBMD(2, init="random", max_iter=4, tol=1.0, random_state=0).fit(X)
    # Drawing samples, the first noise level, sweeps, and a last one; labels and the W-steps read nothing.
    assert count.full["sweep"] >= 1
    assert {"nearest", "survey"} <= set(count.full)
    assert not {"own_labels", "count", "gradient"} & set(count.full)
    with counted(len(X) + 1) as part:
        DBMD(2, init="random", max_iter=4, tol=1.0, random_state=0).fit(X)
    assert part.passes == 0
    assert part.record()["over_a_part_in_passes"] == pytest.approx(count.passes * 300 / 301)


@pytest.mark.slow
def test_the_limit_is_farther_on_and_near(plan):
    (task,) = PARTS["limit"].tasks(plan)
    record = PARTS["limit"].run(task)
    assert 0.0 <= record["distance"] < 0.2
    assert record["passes"] >= record["iterations"]
    assert 0.0 < record["accuracy"] <= 1.0


@pytest.mark.slow
def test_a_run_writes_json_and_the_tables_of_a_copy(cache, tmp_path):
    real = README.read_text()
    copy = tmp_path / "README.md"
    shutil.copy(README, copy)
    command = ["peers", "--quick", "--repeats", "1", "--data", "cells", "--methods", "dbmd", "k_means"]
    where = ["--cache", str(cache), "--results", str(tmp_path / "results"), "--readme", str(copy)]
    main([*command, *where])

    content = json.loads((tmp_path / "results" / "peers.json").read_text())
    assert {"part", "machine", "threads", "quick", "records"} <= set(content)
    assert [record["method"] for record in content["records"]] == ["dbmd", "k_means"]
    for record in content["records"]:
        assert {"data", "seed", "seconds", "passes", "peak_mb", "accuracy", "code", "run", "date", "load"} <= set(
            record
        )

    text = copy.read_text()
    assert "| scikit-learn KMeans (n_init=1) |" in text
    assert "Small parts of the data" in text
    assert "Load of the machine" in text
    assert "### Data larger than memory" in text
    assert text.partition(tables.BEGIN)[0] == real.partition(tables.BEGIN)[0]
    assert text.partition(tables.END)[2] == real.partition(tables.END)[2]
    assert README.read_text() == real

    main(["table", *where])
    assert copy.read_text() == text


def test_what_failed_is_told(tmp_path):
    done = {"data": "mnist", "method": "dbmd", "seed": 0, "date": "2026-01-01", "code": "abc"}
    done |= {"n": 9, "m": 3, "r": 2, "type": "float32", "seconds": 2.0, "passes": 9, "accuracy": 0.5, "converged": True}
    failed = {"data": "mnist", "method": "nmf", "seed": 0, "date": "2026-01-01", "code": "abc", "failed": "no | memory"}
    machine = {"processor": "Z80", "cores": 2, "memory_gb": 1, "system": "CP/M", "versions": {"numpy": "2"}}
    contents = {"peers": {"machine": machine, "threads": 2, "quick": False, "records": [done, failed]}}
    text = tables.tables(contents)
    assert "1 failed: no &#124; memory" in text
    assert all(target.verdict.startswith("not measured") for target in targets(contents))


def test_resuming_leaves_out_what_the_same_code_was_measured_at(plan, tmp_path):
    tasks = [{"data": "cells", "method": method, "seed": 0} for method in ("dbmd", "k_means", "nmf")]
    results = Results(tmp_path, "peers")
    assert results.begin(plan, tasks, resume=True) == tasks
    results.add(tasks[0], {"seconds": 1.0})
    results.add(tasks[1], {"failed": "for some reason"})
    assert Results(tmp_path, "peers").begin(plan, tasks, resume=True) == tasks[1:]
    fresh = Results(tmp_path, "peers")
    assert fresh.begin(plan, tasks[:1], resume=False) == tasks[:1]
    assert [record["method"] for record in fresh.records] == ["k_means"]


def test_a_verdict_says_what_does_not_hold():
    assert Target("x", 0.5, 2.0, 1.0).verdict == "holds, stretch too"
    assert Target("x", 1.5, 2.0, 1.0).verdict == "holds"
    assert Target("x", 3.0, 2.0, 1.0, "of few").verdict == "**does not hold**: 1.5 times the target; of few"
    assert Target("x", None, 2.0).verdict == "not measured"


def test_the_largest_distance_and_the_repetitions_are_told():
    fits = [{"data": "covtype", "method": "dbmd", "seconds": 1.0, "converged": True, "run": 1}]
    fits.append({"data": "covtype", "method": "k_means", "seconds": 1.0, "converged": True, "run": 2})
    limits = [{"data": "covtype", "distance": distance, "passes": 9} for distance in (0.002, 0.02)]
    found = {target.what: target for target in targets({"peers": {"records": fits}, "limit": {"records": limits}})}
    fit = next(target for what, target in found.items() if "KMeans, CoverType" in what)
    assert fit.reached == pytest.approx(1.0)
    assert "of 1 and 1 repetitions only, not of one run" in fit.verdict
    limit = next(target for what, target in found.items() if "limit" in what and "CoverType" in what)
    assert limit.reached == 0.02
    assert "**does not hold**" in limit.verdict


def test_unknown_parts_are_named(capsys):
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown part 'speed'" in capsys.readouterr().err


def test_made_up_batches_differ_from_those_without_offsets_by_one_vector_for_each_source():
    plain, H, source = real_data.batches(0, False, 0.0)
    shifted, same, _ = real_data.batches(0, False, 1.0)
    np.testing.assert_allclose(H.sum(axis=1), 1.0)
    np.testing.assert_array_equal(H, same)
    for c in range(4):
        D = (shifted - plain)[source == c]
        np.testing.assert_allclose(D, np.broadcast_to(D[0], D.shape), atol=1e-12)


def test_unknown_parts_of_the_model_are_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["real_data.py", "colour"])
    with pytest.raises(SystemExit, match="Known: brightness, offsets, gaps, scaling, known"):
        real_data.main()
