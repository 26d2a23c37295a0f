"""What was measured: a JSON file for each part, written anew after every task, so that nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.gpu import device
from benchmarks.plan import ROOT, Plan, Record, Task
from dbmd.experiments.machine import machine
from dbmd.storage import to_json, write_file


class Results:
    """The records of a part.

    Parameters
    ----------
    folder : Path
        Where the file is.
    part : str
        Name of the part, and of the file.
    """

    def __init__(self, folder: Path, part: str) -> None:
        self.path, self.run = folder / f"{part}.json", _now()
        self.content: dict[str, Any] = {"part": part, "records": []}
        if self.path.exists():
            self.content = json.loads(self.path.read_text())

    @property
    def records(self) -> list[Record]:
        """What was measured; a task that failed has the key ``failed``."""
        return self.content["records"]

    def begin(self, plan: Plan, tasks: list[Task], *, resume: bool) -> list[Task]:
        """Return the tasks to run. Their old records go; on another machine, or at another scale, all of them.

        With ``resume``, tasks that were measured with this very code keep theirs and are not run.
        """
        heading = {"machine": _machine(self.content["part"]), "threads": plan.threads, "quick": plan.quick}
        if any(self.content.get(key) != value for key, value in heading.items()):
            self.content["records"] = []
        code = code_version()
        done = [record for record in self.records if record["code"] == code and "failed" not in record]
        left = [task for task in tasks if not (resume and any(_is_of(record, task) for record in done))]
        kept = [record for record in self.records if not any(_is_of(record, task) for task in left)]
        self.content = {"part": self.content["part"], **heading, "records": kept}
        return left

    def add(self, task: Task, record: Record) -> None:
        """Keep a record."""
        now = _now()
        about = {key: value for key, value in task.items() if key != "cache"}
        self.records.append({**about, **record, "code": code_version(), "run": self.run, "date": now})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, to_json(self.content))


def _is_of(record: Record, task: Task) -> bool:
    """Say whether a record is of a task; it tells more than what the task asked for."""
    names = ("data", "type", "method", "what", "where", "r", "seed")
    return all(record.get(name) == task[name] for name in names if name in task)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _machine(part: str) -> dict[str, Any]:
    found = machine()
    if part == "gpu":
        return found | {"device": device.about()}
    with suppress(PackageNotFoundError):
        found["versions"]["pyspark"] = version("pyspark")
    return found


@cache
def code_version() -> str:
    """Return the commit that is measured; if files differ from it, also a number that stands for them.

    Where the checkout is a copy without git, DBMD_COMMIT names the commit.
    """
    files = ["src", "benchmarks/*.py"]
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changes = _git("status", "--porcelain", "--", *files)
    except (OSError, subprocess.CalledProcessError):
        commit = os.environ.get("DBMD_COMMIT", "")
        commit, changes = commit or "unknown", "" if commit else "all"
    if not changes:
        return commit
    kinds = ("src/**/*.py", "src/**/*.cu*", "benchmarks/**/*.py")
    own = [path for kind in kinds for path in ROOT.glob(kind)]
    digest = sha256(b"".join(path.read_bytes() for path in sorted(own))).hexdigest()
    return f"{commit} with changes ({digest[:8]})"


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
