"""The command line of the benchmark.

python -m benchmarks                                all of it; an hour or two on two cores
python -m benchmarks peers --data covtype           one part, on one data set
python -m benchmarks --quick                        small parts of the data: to see whether all runs
python -m benchmarks gpu                            on a machine with a GPU (left out elsewhere); five minutes
python -m benchmarks table                          only write README.md from what was measured
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import tables
from benchmarks.conduct import measure
from benchmarks.gpu import device
from benchmarks.methods import METHODS
from benchmarks.parts import PARTS
from benchmarks.plan import CACHE, GPU_PAGE, README, RESULTS, Plan, available_cores
from benchmarks.sets import SETS


def main(arguments: list[str] | None = None) -> None:
    """Measure what the command line names, and write the tables."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for part in options.part:
        if part not in (*PARTS, "table"):
            parser.error(f"unknown part {part!r}. Known: {', '.join(PARTS)}, table.")
    if options.quick and options.results is None:
        options.results = Path(tempfile.gettempdir()) / "dbmd-benchmarks-quick"
    results = options.results or RESULTS
    parts = options.part or [part for part in PARTS if part != "gpu" or device.found()]
    if "gpu" in parts and not device.found():
        parser.error("the part gpu needs CuPy and a device that it sees; dbmd info says what is missing.")
    if parts != ["table"]:
        plan = Plan(
            data=tuple(options.data),
            methods=tuple(options.methods),
            repeats=options.repeats,
            quick=options.quick,
            threads=options.threads,
            cache=options.cache,
            full=options.full,
        )
        signal.signal(
            signal.SIGTERM, lambda *_: sys.exit(143)
        )  # as an exception it also ends the process that measures
        chosen = [part for part in parts if part != "table"]
        measure(chosen, plan, results, resume=options.resume, limit=options.limit)
        print(f"The measurements are in {results}.")
    if options.quick and options.readme is None:
        return
    readme = options.readme or README
    tables.write(results, readme)
    print(f"The tables are in {readme}.")
    if options.readme is None and GPU_PAGE.exists():
        tables.write_gpu_page(results, GPU_PAGE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="dbmd beside its peers, in one run.")
    parser.add_argument("part", nargs="*", help=f"what to measure: {', '.join(PARTS)}; all without it; or table")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), metavar="NAME", help=", ".join(SETS))
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME", help=", ".join(METHODS)
    )
    parser.add_argument("--repeats", type=int, default=3, help="repetitions, of which medians are taken (3)")
    parser.add_argument("--quick", action="store_true", help="small parts of the data; the README is left alone")
    parser.add_argument("--full", action="store_true", help="gpu: stream 100 GB from host memory instead of 16 GB")
    parser.add_argument("--resume", action="store_true", help="leave out what was measured with this very code")
    parser.add_argument("--threads", type=int, default=available_cores(), help="for everything that is measured")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that one measurement may take (3600)")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"folder for prepared data ({CACHE})")
    parser.add_argument("--results", type=Path, help=f"folder for the JSON files ({RESULTS.name}; of --quick another)")
    parser.add_argument("--readme", type=Path, help="file that gets the tables (README.md beside this file)")
    return parser


if __name__ == "__main__":
    main()
