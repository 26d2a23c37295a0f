"""What make would do, without doing it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path):
    """Return a fresh checkout in a folder with a space in its name, as far as make looks at it."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def make(folder, *arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    run = subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=True, env=env)
    return run.stdout


def would_do(folder, *targets):
    return make(folder, "--dry-run", *targets)


def test_a_first_demo_installs_neither_a_cluster_nor_the_tools_of_the_tests(checkout):
    steps = would_do(checkout, "demo")
    assert re.findall(r'--editable "\.\[(.*)\]"', steps) == ["report"]
    assert steps.index("-m venv") < steps.index("-m pip") < steps.index("-m dbmd demo")


def test_a_demo_where_everything_is_installed_installs_nothing(checkout):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name in ("bin/python", "installed"):
        (checkout / ".venv" / name).touch()
    assert would_do(checkout, "demo").split() == [".venv/bin/python", "-m", "dbmd", "demo"]


def test_the_tests_after_a_demo_install_what_they_need(checkout):
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name in ("bin/python", "demo-installed"):
        (checkout / ".venv" / name).touch()
    steps = would_do(checkout, "test")
    assert "-m venv" not in steps
    assert "test" in re.search(r'--editable "\.\[(.*)\]"', steps).group(1).split(",")


def test_help_names_every_target_that_is_not_a_file(checkout):
    phony = re.search(r"^\.PHONY: (.*)$", (checkout / "Makefile").read_text(), re.MULTILINE).group(1).split()
    shown = make(checkout, "help")
    assert sorted(re.findall(r"^make (\w+)", shown, re.MULTILINE)) == sorted(set(phony) - {"help"})
