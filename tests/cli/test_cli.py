"""The commands, as a user types them."""

import builtins
import re
import shlex
import shutil
import socket
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

import dbmd
from dbmd.cli import main
from dbmd.cli._options import Size
from dbmd.registry import names


def run(*arguments):
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces") / "demo"
    return folder, run("demo", "-o", str(folder))


@pytest.mark.slow
def test_the_demo_draws_a_picture_and_says_where(demo):
    folder, output = demo
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert str(folder / "demo.png") in output
    assert str(folder / "report.html") in output
    assert (folder / "report.html").read_text("utf-8").startswith("<!")


def test_the_demo_writes_data_model_report_and_picture(demo):
    folder, _ = demo
    assert {path.name for path in folder.iterdir()} == {"digits.parquet", "model", "report.html", "demo.png"}
    assert dbmd.load(folder / "model").sources_.tolist() == ["lab A", "lab B", "lab C"]


@pytest.mark.slow
def test_the_command_that_the_demo_prints_makes_the_same_model(demo, tmp_path):
    folder, output = demo
    command = shlex.split(output.rsplit("in a file: ", 1)[1])
    assert command[0] == "dbmd"
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    mine, other = dbmd.load(tmp_path / "my-model"), dbmd.load(folder / "model")
    np.testing.assert_array_equal(mine.components_, other.components_)
    np.testing.assert_array_equal(mine.noise_variance_, other.noise_variance_)
    assert mine.objective_ == other.objective_


@pytest.mark.slow
def test_the_demo_needs_no_network(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("the demo opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    run("demo", "-o", str(tmp_path / "demo"))


@pytest.mark.slow
def test_the_demo_opens_the_report_on_demand(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    run("demo", "-o", str(tmp_path), "--open")
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_the_demo_finds_the_noise_put_in_and_beats_k_means(demo):
    rows = re.findall(r"lab \w +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)", demo[1])
    assert len(rows) == 3
    for put_in, found, ours, theirs in (map(float, row) for row in rows):
        # What ten components cannot express adds to the noise that was put in, memberships take some of it away.
        assert 0.9 * put_in < found < put_in + 2.5
        assert ours > theirs


@pytest.mark.slow
def test_without_matplotlib_the_demo_has_all_but_the_picture(monkeypatch, tmp_path):
    load = builtins.__import__

    def without_matplotlib(name, *arguments, **keywords):
        if name.startswith(("matplotlib", "dbmd.report.demo")):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return load(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    run("demo", "-o", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"digits.parquet", "model", "report.html"}


def test_info_lists_what_there_is():
    output = run("info")
    for kind in ("solvers", "engines", "kernels"):
        assert ", ".join(names(kind)) in output


@pytest.mark.parametrize("command", ["demo", "fit", "transform", "report"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_examples_and_every_option_is_explained(command, flag):
    page = run(command, flag)
    assert page.startswith(f"Usage: main {command}")
    assert re.search(rf"^  Examples:\n(    dbmd {command}.*\n)+", page, re.MULTILINE)
    assert "--debug" in page


def test_the_examples_of_the_help_pages_are_understood(tmp_path, monkeypatch):
    """Every example parses: no option is unknown, no value is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "H.npy").touch()
    for name, command in main.commands.items():
        page = run(name, "--help")
        for example in re.findall(rf"^    dbmd {name}(.*)$", page, re.MULTILINE):
            # Data need not be there: report asks for a folder and for memberships that are.
            words = ["." if word.endswith("-model") else word for word in shlex.split(example)]
            assert command.make_context(name, words)


def test_help_lists_the_commands_and_the_version_is_told():
    page = run("--help")
    for name in ("demo", "fit", "transform", "report", "info"):
        assert re.search(rf"^  {name} +\w", page, re.MULTILINE)
    assert run("--version") == f"dbmd, version {dbmd.__version__}\n"


@pytest.mark.parametrize("text", ["500MB", "0", "2gb", "1.5 KiB", "10", "1TB"])
def test_sizes_are_read_as_people_write_them(text):
    sizes = {"500MB": 500_000_000, "0": 0, "2gb": 2 * 10**9, "1.5 KiB": 1536, "10": 10, "1TB": 10**12}
    assert Size().convert(text, None, None) == sizes[text]


def test_the_report_of_a_saved_model_is_written_into_it(demo, tmp_path):
    folder, _ = demo
    shutil.copytree(folder / "model", tmp_path / "model")
    output = run("report", str(tmp_path / "model"), "--image-shape", "8x8", "--title", "Digits")
    assert str(tmp_path / "model" / "report.html") in output
    assert "<h1>Digits</h1>" in (tmp_path / "model" / "report.html").read_text("utf-8")
    dbmd.load(tmp_path / "model").save(tmp_path / "model", overwrite=True)  # a report is no stranger in a model
