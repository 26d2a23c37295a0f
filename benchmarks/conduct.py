"""Run the tasks of parts, one after the other, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.parts import PARTS
from benchmarks.plan import ROOT, Plan, Record, Task
from benchmarks.results import Results


def measure(parts: list[str], plan: Plan, folder: Path, *, resume: bool, limit: float) -> None:
    """Measure parts and keep their records in a folder.

    Parameters
    ----------
    parts : list of str
        Names of parts.
    plan : Plan
        What of them.
    folder : Path
        For the JSON files.
    resume : bool
        Whether to leave out what this very code was measured at before.
    limit : float
        Seconds that a task may take.
    """
    for part in parts:
        tasks = PARTS[part].tasks(plan)
        results = Results(folder, part)
        left = results.begin(plan, tasks, resume=resume)
        for number, task in enumerate(left, len(tasks) - len(left) + 1):
            if "data" in task:
                failed = in_fresh_process("prepare", task, plan, limit).get("failed")
                if failed:
                    results.add(task, {"failed": failed})
                    print(f"{part}: {task['data']} cannot be had: {failed}", flush=True)
                    continue
            load = {"load": os.getloadavg()[0]} if hasattr(os, "getloadavg") else {}  # what else goes on
            record = load | in_fresh_process(part, task, plan, limit)
            results.add(task, record)
            print(f"{part} {number}/{len(tasks)}, {_told(task)}: {_told(record)}", flush=True)


def in_fresh_process(part: str, task: Task, plan: Plan, limit: float) -> Record:
    """Return the record of a task; if it fails, the reason under the key ``failed``."""
    threads = str(plan.threads)
    names = ("DBMD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [sys.executable, "-m", "benchmarks.worker", part, json.dumps(task)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | dict.fromkeys(names, threads),
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {limit:g} s"}
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr, flush=True)
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return {"failed": last[0][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _told(record: dict[str, Any]) -> str:
    """Return what fits in a line of it."""
    times = {key: value["ms"] for key, value in record.items() if isinstance(value, dict) and "ms" in value}
    short = {key: value for key, value in record.items() if isinstance(value, str | int | float) and key != "cache"}
    short |= {f"{key} ms": ms for key, ms in times.items()}
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in short.items()
    )
