"""Every format and every cluster satisfies its Protocol, by mypy: a new one is checked without any other change."""

import subprocess
import sys
from pathlib import Path

import pytest

from dbmd.registry import load, names

ROOT = Path(__file__).parents[2]
pytest.importorskip("mypy")


def errors_of(lines, folder):
    """Return what mypy says of a module, with the settings of the project."""
    path = folder / "plug_ins.py"
    path.write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", path]
    done = subprocess.run(command, cwd=ROOT, env={"MYPYPATH": str(ROOT / "src")}, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if "error:" in line]


def test_formats_and_clusters_satisfy_their_protocols_and_others_do_not(tmp_path):
    lines = ["from dbmd import protocols"]
    for name in names("data.formats"):
        module = f"dbmd.data.formats.{name}"
        lines += [f"import {module}", f"format_{name}: protocols.Format = {module}"]
    for name in names("engines"):
        if hasattr(load("engines", name), "distribute"):  # it has collections
            module = f"dbmd.engines.{name}"
            lines += [f"import {module}", f"cluster_{name}: protocols.Cluster = {module}"]
            lines += [
                f"def placed_{name}(placement: {module}.Placement) -> protocols.Placement:",
                "    return placement",
            ]
    wrong = ["import dbmd.engines.local", "not_a_cluster: protocols.Cluster = dbmd.engines.local"]
    errors = errors_of([*lines, *wrong], tmp_path)
    assert len(errors) == 1, "\n".join(errors)
    assert f"plug_ins.py:{len(lines) + 2}: error" in errors[0]
