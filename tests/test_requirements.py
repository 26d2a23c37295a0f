"""The versions that were tested are those of all dependencies, and within what pyproject.toml allows."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Where the tests run there is no GPU: what was measured on one has the versions in its record (benchmarks/results).
ON_GPUS = {"12": EXTRAS.pop("gpu"), "13": EXTRAS.pop("gpu-cuda13")}
ASKED = [PROJECT["dependencies"], *EXTRAS.values()]
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


def test_either_version_of_cuda_takes_the_same_versions_of_cupy_and_brings_its_libraries():
    found = {cuda: [Requirement(text) for text in texts] for cuda, texts in ON_GPUS.items()}
    assert {cuda: [asked.name for asked in each] for cuda, each in found.items()} == {
        "12": ["cupy-cuda12x"],
        "13": ["cupy-cuda13x"],
    }
    assert len({(asked.specifier, frozenset(asked.extras)) for each in found.values() for asked in each}) == 1


def test_the_tests_and_the_documentation_do_not_install_what_only_a_gpu_can_run():
    assert not [text for texts in EXTRAS.values() for text in texts if "gpu" in text]
