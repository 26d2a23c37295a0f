"""The most memory that this process, and those it started, held during something."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

MB = 2**20


def measured(action: Callable[[], Any]) -> tuple[Any, dict[str, float | None]]:
    """Run an action; return its result, and the peak of resident memory above that before it, in MB.

    Linux keeps the peak of each process and can be told to forget it. Where there are several (Spark has a JVM beside
    Python), their peaks are added, be they at the same time or not. None where the system does not tell.
    """
    before = 0.0
    for pid in _family():
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
            before += _status(pid, "VmRSS")
        except OSError:
            return action(), {"peak_mb": None, "before_mb": None}
    result = action()
    peak = sum(_status(pid, "VmHWM") for pid in _family())
    return result, {"peak_mb": max(0.0, peak - before) / MB, "before_mb": before / MB}


def _status(pid: int, key: str) -> float:
    """Return an entry of a process's status in bytes; none if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return 0.0


def _family() -> list[int]:
    """Return the numbers of this process and of all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may have spaces; state and parent follow it.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    family = [os.getpid()]
    for pid in family:  # grows meanwhile
        family += [child for child, parent in parents.items() if parent == pid]
    return family
