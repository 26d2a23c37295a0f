"""The commands, as a user types them."""

import builtins
import re

import pytest
from click.testing import CliRunner

from dbmd.cli import main
from dbmd.registry import names


def run(*arguments):
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces") / "demo"
    return folder, run("demo", "-o", str(folder))


def test_the_demo_draws_a_picture_and_says_where(demo):
    folder, output = demo
    picture = folder / "demo.png"
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_demo_finds_the_noise_put_in_and_beats_k_means(demo):
    rows = re.findall(r"source \d +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)", demo[1])
    assert len(rows) == 3
    for put_in, found, ours, theirs in (map(float, row) for row in rows):
        # What ten components cannot express adds to the noise that was put in, memberships take some of it away.
        assert 0.9 * put_in < found < put_in + 2.5
        assert ours > theirs


def test_without_matplotlib_the_demo_says_what_to_install(monkeypatch, tmp_path):
    load = builtins.__import__

    def without_matplotlib(name, *arguments, **keywords):
        if name.startswith(("matplotlib", "dbmd.report.demo")):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return load(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    output = run("demo", "-o", str(tmp_path / "none"))
    assert "pip install 'dbmd[report]'" in output
    assert not (tmp_path / "none").exists()


def test_info_lists_what_there_is():
    output = run("info")
    for kind in ("solvers", "engines", "kernels"):
        assert ", ".join(names(kind)) in output


@pytest.mark.parametrize("command", [[], ["demo"], ["info"]])
def test_help_is_there(command):
    assert "Usage:" in run(*command, "--help")
