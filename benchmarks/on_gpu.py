"""The tests of the GPU and its benchmark, one after the other: ``python -m benchmarks.on_gpu FOLDER``.

For a machine with a GPU on which dbmd is not installed. Needed are CuPy, NumPy, SciPy, scikit-learn, numba, pyarrow,
pytest and hypothesis; tests that need more (cvxpy, Spark, Dask) are left out, which their summary says. It takes some
minutes. Without a device, the tests run on the stand-in, and nothing is measured.

The tests are shared among some processes, which use one device together: most of their time they wait for compilers.
Into the folder go ``suite-*.log``, ``bench.log``, ``gpu.json`` (which belongs in benchmarks/results), ``tables.md`` and
``summary.md``. DBMD_COMMIT names the commit where the checkout has no git.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plan import ROOT

FOLDERS = ["tests/kernels", "tests/device", "tests/engines"]
SHARE = "DBMD_SHARE_OF_TESTS"
OPTIONAL = ("cvxpy", "dask", "distributed", "pyspark", "py4j", "anndata", "matplotlib", "click", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Run both, print a short table, and return 0 if all tests passed and nothing failed to be measured."""
    parser = argparse.ArgumentParser("python -m benchmarks.on_gpu", description="Tests and benchmark of the GPU.")
    parser.add_argument("folder", type=Path, help="for logs and records")
    parser.add_argument("--quick", action="store_true", help="small data: to see whether all runs")
    parser.add_argument("--full", action="store_true", help="stream 100 GB from host memory instead of 16 GB")
    parser.add_argument("--tests-only", action="store_true", help="measure nothing")
    parser.add_argument("--bench-only", action="store_true", help="run no tests")
    parser.add_argument("--processes", type=int, default=4, help="that share the tests")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of a measurement; of the tests twice that")
    parser.add_argument("tests", nargs="*", help=f"what to give to pytest instead of {' '.join(FOLDERS)}")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    lines, good = [], True
    if not options.bench_only:
        passed, words = suite(options.tests or FOLDERS, options.folder, 2.0 * options.limit, options.processes)
        lines, good = [f"Tests: {each}" for each in words], passed
    if not options.tests_only:
        measured, more = bench(options.folder, options)
        lines, good = [*lines, *more], good and measured
    text = "\n".join(lines)
    (options.folder / "summary.md").write_text(f"{text}\n")
    print(f"\n{text}", flush=True)
    return 0 if good else 1


def environment() -> dict[str, str]:
    """Return what processes are started with: this checkout in their path, and nothing written beside the sources."""
    path = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    quick = {"HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "quick")}
    return os.environ | quick | {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}


def suite(tests: list[str], folder: Path, limit: float, processes: int = 1) -> tuple[bool, list[str]]:
    """Run tests; return whether all passed, and the last line of each process. ``suite-*.log`` have their output.

    Parameters
    ----------
    tests : list of str
        What to give to pytest.
    folder : Path
        For the output.
    limit : float
        Seconds after which they are stopped.
    processes : int
        That share the tests.
    """
    with ThreadPoolExecutor(processes) as pool:
        logs = [folder / f"suite-{number}.log" for number in range(processes)]
        shares = [f"{number}/{processes}" for number in range(processes)]
        found = list(pool.map(lambda log, share: _run(tests, log, share, limit), logs, shares))
    for log in logs:
        print(log.read_text()[-8000 // processes :], flush=True)
    codes = {code for code, _ in found}  # a share may have no test, but not all of them
    return 0 in codes and codes <= {0, int(pytest.ExitCode.NO_TESTS_COLLECTED)}, [words for _, words in found]


def _run(tests: list[str], log: Path, share: str, limit: float) -> tuple[int | None, str]:
    """Run a share of tests; return the exit status, None if they were stopped, and the last line of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "benchmarks.on_gpu", *tests]
    command += ["-m", "not cluster", "-o", "addopts=-rfEs", "--durations=15", "--tb=short", "--maxfail=50"]
    clock, env = time.perf_counter(), environment() | {SHARE: share}
    with open(log, "w") as out:
        try:
            done = subprocess.run(command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, timeout=limit)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = None
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    if code is None:
        return None, f"not done after {limit:g} s; the last line was: {last}"
    return code, f"{last.strip('= ')} ({time.perf_counter() - clock:.0f} s, exit status {code})"


def bench(folder: Path, options: argparse.Namespace) -> tuple[bool, list[str]]:
    """Measure; return whether nothing failed, and the lines of a table."""
    from benchmarks.gpu import device, report
    from benchmarks.tables import BEGIN, END

    if not device.found():
        return True, ["Nothing was measured: the benchmark needs CuPy and a device that it sees."]
    tables = folder / "tables.md"
    tables.write_text(f"{BEGIN}\n{END}\n")
    command = [sys.executable, "-m", "benchmarks", "gpu", "--results", str(folder), "--limit", str(options.limit)]
    command += ["--readme", str(tables), *(f"--{name}" for name in ("quick", "full") if getattr(options, name))]
    with open(folder / "bench.log", "w") as out:
        running = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            out.write(line)
    path = folder / "gpu.json"
    if running.wait() or not path.exists():
        return False, [f"The benchmark ended with exit status {running.returncode}; see bench.log."]
    content = json.loads(path.read_text())
    failed = any("failed" in record for record in content["records"])
    return not failed, list(report.section({"gpu": content}))


# -- what pytest asks this module for (-p benchmarks.on_gpu) -----------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out tests that have nothing to do with a device: they pass without one, too."""
    chosen = [item for item in items if "gpu" in item.nodeid or "device/" in item.nodeid or "device" in names(item)]
    number, shares = map(int, os.environ.get(SHARE, "0/1").split("/"))
    chosen = chosen[number::shares]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def names(item: Any) -> list[str]:
    """Return the fixtures of a test."""
    return list(getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Any:
    """Say of tests that need a library which is not here that they were left out, instead of ending."""
    report = yield
    missing = re.search(r"No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if missing and missing.group(1) in OPTIONAL:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"NOT TESTED: {missing.group(1)} is not installed")
    return report


if __name__ == "__main__":
    sys.exit(main())
