"""The versions that were tested are those of all dependencies, and within what pyproject.toml allows."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ASKED = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
NAMED = {text for group in ASKED for text in group if not text.startswith("dbmd[")}


def noted():
    lines = [line for line in (ROOT / "requirements" / "tested.txt").read_text("utf-8").splitlines() if line[0] != "#"]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("text", sorted(NAMED))
def test_the_version_that_was_tested_is_one_that_is_allowed(text):
    asked = Requirement(text)
    assert asked.specifier.contains(noted()[canonicalize_name(asked.name)])


def test_it_can_be_handed_to_pip():
    assert all(version and "@" not in name for name, version in noted().items())
