"""Every solver, kernel and engine satisfies its Protocol, by mypy: a new one is checked without any other change."""

import subprocess
import sys
from pathlib import Path

import pytest

from dbmd.registry import load, names

ROOT = Path(__file__).parent.parent
pytest.importorskip("mypy")


def checked(text, folder):
    """Return what mypy says of a module, with the settings of the project."""
    path = folder / "plug_ins.py"
    path.write_text(text)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", path]
    done = subprocess.run(command, cwd=ROOT, env={"MYPYPATH": str(ROOT / "src")}, capture_output=True, text=True)
    return done.stdout


def test_plug_ins_satisfy_their_protocols_and_what_does_not_is_found(tmp_path):
    lines = ["from dbmd import protocols", "from dbmd.engines import Link, Linked, Metered"]
    for kind, protocol in (("solvers", "Solver"), ("kernels", "Kernel")):
        for name in names(kind):
            lines += [f"import dbmd.{kind}.{name}", f"{kind}_{name}: protocols.{protocol} = dbmd.{kind}.{name}"]
    for name in names("kernels"):
        for optional in {"OneLoop", "Pass"} & set(dir(load("kernels", name))):
            lines.append(f"{name}_{optional}: type[protocols.{optional}] = dbmd.kernels.{name}.{optional}")
    lines += [f"{name}_clusters: protocols.Clustering = dbmd.kernels.{name}" for name in ("cpu", "reference")]
    for name in names("engines"):
        lines += [f"import dbmd.engines.{name}", f"engines_{name}: protocols.MakeEngine = dbmd.engines.{name}.Engine"]
    lines += [
        "def around(engine: protocols.Engine) -> list[protocols.Engine]:",
        "    return [Metered(engine), Linked(engine, Link(1.0, 1.0))]",
    ]
    wrong = [*lines, "wrong: protocols.Solver = dbmd.kernels.cpu"]
    said = checked("\n".join(wrong), tmp_path)
    assert said.count("error:") == 1, said
    assert f"plug_ins.py:{len(wrong)}: error" in said
