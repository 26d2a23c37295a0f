"""The tests of the GPU and its benchmark, one after the other: ``python -m benchmarks.on_gpu FOLDER``.

For a machine with a GPU on which dbmd is not installed. Needed are CuPy, NumPy, SciPy, scikit-learn, numba, pyarrow,
pytest and hypothesis; tests that need more (cvxpy, Spark, Dask) are left out, which their summary says. It takes some
minutes. Without a device, the tests run on the stand-in, and nothing is measured.

Into the folder go ``suite.log``, ``bench.log``, ``gpu.json`` (which belongs in benchmarks/results), ``tables.md`` and
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
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plan import ROOT

FOLDERS = ["tests/kernels", "tests/device", "tests/engines"]
OPTIONAL = ("cvxpy", "dask", "distributed", "pyspark", "py4j", "anndata", "matplotlib", "click", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Run both, print a short table, and return 0 if all tests passed and nothing failed to be measured."""
    parser = argparse.ArgumentParser("python -m benchmarks.on_gpu", description="Tests and benchmark of the GPU.")
    parser.add_argument("folder", type=Path, help="for logs and records")
    parser.add_argument("--quick", action="store_true", help="small data: to see whether all runs")
    parser.add_argument("--full", action="store_true", help="stream 100 GB from host memory instead of 16 GB")
    parser.add_argument("--tests-only", action="store_true", help="measure nothing")
    parser.add_argument("--bench-only", action="store_true", help="run no tests")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of a measurement; of the tests twice that")
    parser.add_argument("tests", nargs="*", help=f"what to give to pytest instead of {' '.join(FOLDERS)}")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    lines, good = [], True
    if not options.bench_only:
        passed, words = suite(options.tests or FOLDERS, options.folder, 2.0 * options.limit)
        lines, good = [f"Tests: {words}"], passed
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


def suite(tests: list[str], folder: Path, limit: float) -> tuple[bool, str]:
    """Run tests; return whether all passed, and the last line of pytest. Their output is in ``suite.log``."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "benchmarks.on_gpu", *tests]
    command += ["-m", "not cluster", "-o", "addopts=-rfEs", "--durations=15", "--tb=short", "--maxfail=50"]
    clock = time.perf_counter()
    log = folder / "suite.log"
    with open(log, "w") as out:
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment(), stdout=out, stderr=subprocess.STDOUT, timeout=limit
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = None
    text = log.read_text().strip()
    print(text[-8000:], flush=True)
    last = text.splitlines()[-1] if text else "no output"
    if code is None:
        return False, f"not done after {limit:g} s; the last line was: {last}"
    return code == 0, f"{last.strip('= ')} ({time.perf_counter() - clock:.0f} s, exit status {code})"


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
