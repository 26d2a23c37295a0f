"""Help in groups."""

import re

import click
import pytest
from click.testing import CliRunner

from dbmd.cli import main
from dbmd.cli._groups import DATA, GROUPS, HELP, MAIN, GroupedCommand, group_of, option

GROUPED = [name for name, command in main.commands.items() if isinstance(command, GroupedCommand)]


def page_of(command, width=80):
    return CliRunner().invoke(main, [command, "--help"], terminal_width=width).output


def sections(page):
    """Return the options that stand below each heading of a help page."""
    parts = re.split(r"^(\S.*):\n", page.partition("\n\n")[2], flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_fit_and_transform_have_groups():
    assert {"fit", "transform"} <= set(GROUPED)


@pytest.mark.parametrize("name", GROUPED)
def test_every_option_is_in_one_group_and_has_a_text(name):
    options = [each for each in main.commands[name].params if isinstance(each, click.Option)]
    found = sections(page_of(name))
    assert list(found) == [group for group in GROUPS if group in found]
    assert next(iter(found)) == MAIN
    assert found[HELP] == ["--debug", "--help"]
    shown = [each for names in found.values() for each in names]
    assert sorted(shown) == sorted([*(each.opts[-1] for each in options), "--help"])
    for each in options:
        assert each.help, each.opts
        assert group_of(each) != HELP or each.name == "debug", f"{each.opts}: name its group"
        assert each.opts[-1] in found[group_of(each)]


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("width", [60, 80, 100])
def test_texts_stand_in_one_column_and_fit_the_terminal(name, width):
    page = page_of(name, width)
    lines = page.partition(f"\n{MAIN}:")[2].splitlines()
    assert max(map(len, lines)) <= width
    starts = {re.match(r"  -\S*(?: \S+)*?  +", line).end() for line in lines if re.match(r"  -.*\S  +\S", line)}
    assert len(starts) == 1


def test_a_group_that_is_not_one_is_refused():
    with pytest.raises(ValueError, match=r"--colour must be one of .*Got 'Dta'"):
        option("--colour", group="Dta")(lambda: None)


def test_arguments_keep_their_order_and_options_get_that_of_the_groups():
    @click.command(cls=GroupedCommand)
    @option("--b", group=DATA, help="b")
    @click.argument("first")
    @option("--a", group=MAIN, help="a")
    @click.argument("second")
    def command(**given):
        pass

    assert command.make_context("command", ["1", "--b", "2", "3"]).params == {
        "first": "1",
        "second": "3",
        "a": None,
        "b": "2",
    }
    page = CliRunner().invoke(command, ["--help"]).output
    assert page.startswith("Usage: command [OPTIONS] FIRST SECOND\n")
    assert page.index("--a") < page.index("--b")
