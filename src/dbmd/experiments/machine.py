"""The machine that a measurement was made on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dbmd

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def machine() -> dict[str, Any]:
    """Return processor, cores, memory and versions, as far as they are known."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version(), "dbmd": dbmd.__version__}
        | {package: version(package) for package in PACKAGES},
    }


def in_words(found: dict[str, Any]) -> str:
    """Return it as a sentence.

    Examples
    --------
    >>> from dbmd.experiments.machine import in_words
    >>> in_words({"processor": "Z80", "cores": 2, "memory_gb": 24, "system": "CP/M", "versions": {"numpy": "2.0"}})
    '2 cores (Z80), 24 GB, CP/M; numpy 2.0'
    """
    memory = f"{found['memory_gb']} GB, " if found["memory_gb"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return f"{found['cores']} cores ({found['processor']}), {memory}{found['system']}; {versions}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None
