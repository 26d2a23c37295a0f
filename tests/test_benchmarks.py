"""The benchmark: that all of it runs, what it counts, and what it says. Not how fast anything is."""

import json
import shutil
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import on_gpu, real_data, sets, tables
from benchmarks.__main__ import main
from benchmarks.cells import cells
from benchmarks.counted import counted
from benchmarks.gpu import data as gpu_data
from benchmarks.gpu import device as gpu_device
from benchmarks.gpu import expected, fits, floors, passes, report
from benchmarks.methods import METHODS
from benchmarks.parts import PARTS
from benchmarks.plan import README, Plan
from benchmarks.results import Results
from benchmarks.targets import Target, targets
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from dbmd import DBMD
from dbmd.model.statistics import Statistics
from device import standin_cuda
from device.found import has_device

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


# -- the GPU ---------------------------------------------------------------------------------------------------------

CEILINGS = {"what": "ceilings", "read_gbs": 4000.0, "to_device_gbs": 50.0, "to_host_gbs": 50.0, "float32_tflops": 50.0}
CEILINGS |= {"launch_us": 5.0, "get_us": 13.0, "products": {"10": {"XW": 0.5, "HX": 0.7}}}


def times(ms):
    return {"ms": ms, "low": 0.9 * ms, "high": 1.1 * ms, "wall_ms": 1.2 * ms, "first_ms": 9.0, "repeats": 5}


def gpu_content(*records):
    machine = {"processor": "Z80", "cores": 2, "memory_gb": 1, "system": "CP/M", "versions": {"numpy": "2"}}
    device = {"name": "NVIDIA H200", "devices": 1, "memory_gb": 4, "cupy": "14", "cuda": "13.0", "driver": "13.0"}
    shape = {"n": 400_000, "m": 784, "r": 10, "type": "float32", "date": "2026-01-01T00:00:00", "code": "abc"}
    found = [shape | record for record in records]
    return {"part": "gpu", "machine": machine | {"device": device}, "quick": False, "threads": 2, "records": found}


ALL_ROWS = [
    CEILINGS,
    {"what": "pass", "r": 10, "warm": times(1.0), "cold": times(2.0)},
    {"what": "pass", "r": 50, "warm": times(6.0), "cold": times(7.0)},
    {"what": "pieces", "r": 10, **{name: times(0.2) for name in ("products", "h_step", "sums", "covariance")}},
    {"what": "h_step", "r": 10, "warm": times(0.09), "cold": times(0.15)},
    {"what": "h_step", "r": 50, "warm": times(1.0), "cold": times(3.0)},
    {"what": "fit", "where": "device", **times(60.0), "iterations": [9, 11, 10]},
    {"what": "fit", "where": "host", **times(140.0), "iterations": [9, 11, 10]},
    {"what": "csr", "n": 100_000, "m": 5_000, "r": 20, "filled": 0.05, "warm": times(2.0), "cold": times(3.0)},
    {"what": "streamed", "bytes": 16_000_000_000, "bus_gbs": 50.0, "of_the_bus": 0.8, **times(400.0)},
    {"what": "k_means", **times(80.0), "iterations": 100, "most": 100},
    {"what": "two_cores", "cores": 2, "most": 100}
    | {"dbmd": {"ms": 9e3, "iterations": 12}, "k_means": {"ms": 4e4, "iterations": 90}},
]


def test_each_target_of_the_gpu_has_one_task_and_one_record_decides_on_it():
    whats = [(task["what"], task.get("r"), task.get("where")) for task in PARTS["gpu"].tasks(Plan((), ()))]
    assert len(set(whats)) == len(whats)
    decided = [(target, record) for target, record, _ in report.rows(gpu_content(*ALL_ROWS))]
    assert all(target.reached is not None for target, _ in decided)
    assert {(record["what"], record["r"], record.get("where")) for _, record in decided} <= set(whats)
    none = [target.verdict for target, _, _ in report.rows(gpu_content())]
    assert none == ["not measured"] * len(decided)


def test_the_tables_of_the_gpu_tell_targets_floors_peers_and_what_failed():
    failed = {"what": "csr", "r": 20, "failed": "out of | memory"}
    text = "\n".join(report.section({"gpu": gpu_content(*ALL_ROWS, failed)}))
    assert "Measured on one NVIDIA H200" in text
    row = next(line for line in text.splitlines() if line.startswith("| One pass, r = 10"))
    # Reading 1.29 GB at 4,000 GB/s takes 0.32 ms, 12.6 GFLOP at 50 TFLOP/s 0.25 ms.
    assert [entry.strip() for entry in row.split("|")[2:-1]] == [
        "1 [0.9, 1.1]", "1.2", "0.32", "1.2", "0.6", "holds"
    ]  # fmt: skip
    slow = next(line for line in text.splitlines() if line.startswith("| One pass, r = 50"))
    assert "**does not hold**: 1.2 times the target" in slow
    streamed = next(line for line in text.splitlines() if "stay in host memory, 16 GB" in line)
    assert "holds; 80 % of the 50 GB/s of the bus" in streamed
    assert "| scikit-learn KMeans, 2 cores | 40 | 90 |" in text
    assert "100, its limit" in text
    assert "- failed: csr, r = 20: out of | memory" in text
    assert "come before" not in text
    warmed = [
        record | {"warm_ups": 4} | ({"warm": record["warm"] | {"warm_ups": 700}} if "warm" in record else {})
        for record in ALL_ROWS
    ]
    assert "At least 700 passes, and 4 fits, come before those that count." in report.heading(gpu_content(*warmed))


def test_the_page_of_the_gpu_gets_what_was_measured_and_what_other_cards_should_take(tmp_path):
    page = tmp_path / "gpu.md"
    page.write_text(f"before\n{tables.BEGIN}\nthe last ones\n{tables.END}\nafter\n")
    tables.write_gpu_page(tmp_path, page)
    assert "the last ones" in page.read_text()  # nothing was measured
    (tmp_path / "gpu.json").write_text(json.dumps(gpu_content(*ALL_ROWS)))
    tables.write_gpu_page(tmp_path, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "the last ones" not in text
    rows = {line.split(" | ")[0]: line.split(" | ")[4] for line in text.splitlines() if line.count(" | ") == 5}
    assert float(rows["| H200"]) == 1.0  # what was measured
    assert float(rows["| H200"]) < float(rows["| A100"]) < float(rows["| L4"])
    page.write_text("no marks")
    with pytest.raises(ValueError, match=r"must have the lines .*measured: begin"):
        tables.write_gpu_page(tmp_path, page)


@given(st.sampled_from(expected.CARDS), st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.floats(1.0, 5.0))
def test_a_card_that_is_slower_in_something_is_expected_to_take_longer(card, rest, exact, factor):
    assert expected.expected_ms(card, card, rest, exact) == pytest.approx(rest + exact)
    for name in ("read_gbs", "float32_tflops"):
        slower = card._replace(**{name: getattr(card, name) / factor})
        assert expected.expected_ms(slower, card, rest, exact) == pytest.approx(factor * rest + exact)
    slower = card._replace(float64_tflops=card.float64_tflops / factor)
    assert expected.expected_ms(slower, card, rest, exact) == pytest.approx(rest + factor * exact)


@given(st.sampled_from(["read_gbs", "float32_tflops", "to_device_gbs"]), st.floats(1.0, 100.0))
def test_no_floor_rises_with_a_faster_machine(which, factor):
    for record in gpu_content(*ALL_ROWS)["records"]:
        floor = floors.floor_of(record)
        if floor is not None:
            assert floor.ms(CEILINGS | {which: factor * CEILINGS[which]}) <= floor.ms(CEILINGS)


def test_what_is_on_the_bus_is_part_of_the_floor():
    device, host = (next(r for r in ALL_ROWS if r["what"] == "fit" and r["where"] == w) for w in ("device", "host"))
    shape = {"n": 400_000, "m": 784, "r": 10, "type": "float32"}
    assert floors.floor_of(shape | device).sends == 0
    assert floors.floor_of(shape | host).ms(CEILINGS) == pytest.approx(4 * 400_000 * 784 / 50e6)


def test_made_up_mixtures_do_not_depend_on_the_number_of_threads(monkeypatch):
    many, W = gpu_data.mixture(20_000, 7, 3, seed=1)
    monkeypatch.setattr(gpu_data, "available_cores", lambda: 1)
    one, same = gpu_data.mixture(20_000, 7, 3, seed=1)
    np.testing.assert_array_equal(many, one)
    np.testing.assert_array_equal(W, same)
    assert many.dtype == np.float32
    assert not np.array_equal(many[: gpu_data.ROWS], many[gpu_data.ROWS : 2 * gpu_data.ROWS])


def test_a_large_mixture_repeats_a_small_one():
    X, _ = gpu_data.repeated(450_000, 2, 2, seed=0)
    assert X.shape == (450_000, 2)
    np.testing.assert_array_equal(X[:200_000], X[200_000:400_000])
    np.testing.assert_array_equal(X[:50_000], X[400_000:])


def test_k_means_beside_the_fit_finds_what_that_of_scikit_learn_finds():
    X, _ = gpu_data.mixture(3_000, 6, 4, seed=0, dtype="float64")
    centres = fits.first_centres(X, 4, seed=0)
    theirs = KMeans(4, init=centres, n_init=1, max_iter=300).fit(X)
    iterations, found = fits.lloyd(X, centres, 300)
    assert 1 < iterations < 300
    assert fits.inertia(X, found) == pytest.approx(theirs.inertia_, rel=1e-3)


def test_statistics_that_are_not_numbers_differ():
    zero = Statistics(np.ones((2, 1)), np.ones((1, 1)), 1.0, 3, 1.0)
    assert passes.difference({0: zero}, {0: zero}) == 0.0
    assert passes.difference({0: zero}, {0: replace(zero, sq_norm=np.nan)}) == np.inf
    assert passes.difference({0: replace(zero, h_cost=1.5)}, {0: zero}) == pytest.approx(0.5)


def test_four_fifths_of_the_times_leave_out_a_tenth_on_either_side():
    found = gpu_device.spread([float(k) for k in range(20)])
    assert (found["low"], found["high"]) == (2.0, 17.0)


@pytest.mark.skipif(gpu_device.found(), reason="this machine has a device")
def test_without_a_device_the_benchmark_says_what_it_needs(capsys, tmp_path, monkeypatch):
    with pytest.raises(SystemExit):
        main(["gpu"])
    assert "needs CuPy and a device" in capsys.readouterr().err
    assert on_gpu.main([str(tmp_path), "--bench-only"]) == 0
    assert "needs CuPy and a device" in (tmp_path / "summary.md").read_text()


def test_the_script_for_a_gpu_tells_when_tests_fail(capsys, tmp_path):
    test = tmp_path / "test_gpu_nothing.py"
    test.write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    folder = tmp_path / "out"
    assert on_gpu.main([str(folder), str(test), "--tests-only", "--processes", "2"]) == 1
    text = (folder / "summary.md").read_text()
    assert "1 failed" in text
    assert "1 passed" in text
    test.write_text("def test_good(): pass\n")  # one share has no test
    assert on_gpu.main([str(folder), str(test), "--tests-only", "--processes", "2"]) == 0
    test.write_text("")
    assert on_gpu.main([str(folder), str(test), "--tests-only", "--processes", "2"]) == 1


def test_the_script_for_a_gpu_leaves_out_what_cannot_be_imported_and_says_so(tmp_path):
    (tmp_path / "test_gpu_a.py").write_text("raise ModuleNotFoundError(\"No module named 'cvxpy'\")\n")
    (tmp_path / "test_gpu_b.py").write_text("def test_good(): pass\n")
    passed, words = on_gpu.suite([str(tmp_path)], tmp_path, 60.0)
    assert passed
    assert "1 passed, 1 skipped" in words[0]
    assert "NOT TESTED: cvxpy is not installed" in (tmp_path / "suite-0.log").read_text()
    (tmp_path / "test_gpu_a.py").write_text("import dbmd.nonsense\n")
    assert not on_gpu.suite([str(tmp_path)], tmp_path, 60.0)[0]


@pytest.fixture
def small_device(device):
    """Return CuPy; the stand-in has little memory, for it fills what is allocated."""
    if not has_device():
        standin_cuda.machine.memory = 30_000_000
    return device


def test_data_that_do_not_fit_in_what_is_left_of_a_device_cannot_be_put_there(small_device):
    with gpu_device.little_memory(4_000_000):
        free, _ = small_device.cuda.runtime.memGetInfo()
        assert free <= 4_000_000
        with pytest.raises(small_device.cuda.memory.OutOfMemoryError):
            small_device.empty(1_000_000)
    free, _ = small_device.cuda.runtime.memGetInfo()
    assert free > 8_000_000


def test_each_turn_is_prepared_and_those_before_the_first_are_not_counted(device):
    seen = []
    found = gpu_device.timed(
        lambda turn: seen.append(turn), repeats=3, warm_ups=2, before=lambda turn: seen.append(f"before {turn}")
    )
    assert seen == [each for turn in range(5) for each in (f"before {turn}", turn)]
    assert (found["warm_ups"], found["repeats"]) == (2, 3)
    later = gpu_device.timed(lambda turn: time.sleep(0.01), repeats=1, warm_ups=0, seconds=0.1)
    assert 1 <= later["warm_ups"] <= 10
    assert gpu_device.timed(lambda turn: None, repeats=1, warm_ups=0)["warm_ups"] == 0
    assert found["low"] <= found["ms"] <= found["high"]


QUICK = [task for task in PARTS["gpu"].tasks(Plan((), (), quick=True, threads=2)) if task["what"] != "ceilings"]


@pytest.mark.slow
@pytest.mark.parametrize("task", QUICK, ids=lambda task: f"gpu {task['what']} {task['r']} {task.get('where', '')}")
def test_all_that_is_measured_on_a_gpu_runs(task, small_device, monkeypatch):
    monkeypatch.setattr(passes, "WARM_UP", 0.0)
    monkeypatch.setattr(fits, "WARM_UPS", 1)
    if not has_device():  # the stand-in cannot wait, and has no old results in its memory
        monkeypatch.setattr(gpu_device, "spin", lambda: None)
        monkeypatch.setattr(passes, "poisoned", nullcontext)
    record = PARTS["gpu"].run(task)
    found = [record, *(value for value in record.values() if isinstance(value, dict))]
    taken = [each["ms"] for each in found if "ms" in each]
    assert taken
    assert min(taken) > 0.0
    decided = [target for target, of, _ in report.rows(gpu_content(CEILINGS, task | record)) if of]
    assert all(target.reached is not None for target in decided)
    assert "failed" not in "\n".join(report.section({"gpu": gpu_content(CEILINGS, task | record)}))
