"""Options of a command in groups, the daily ones first: click lists them all in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MAIN = "Main options"
DATA = "Data"
MODEL = "Model"
OUTPUT = "Output"
FIT = "Fit"
RUN = "Large data, long runs, clusters"
HELP = "Help"  # --debug and --help, which every command has

GROUPS = (MAIN, DATA, MODEL, OUTPUT, FIT, RUN, HELP)
MOST_COLUMNS = 30  # of the names of an option; its text is below it where they are longer


class GroupedOption(click.Option):
    """An option that belongs to a group of its command.

    Parameters
    ----------
    *args : object
        As for click.Option.
    group : str
        One of `GROUPS`.
    **attrs : object
        As for click.Option.
    """

    def __init__(self, *args: Any, group: str, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        if group not in GROUPS:
            raise ValueError(f"The group of {self.opts[-1]} must be one of {GROUPS}. Got {group!r}.")
        self.group = group


def option(*names: str, group: str, **attrs: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option of a group, as click.option does without one."""
    return click.option(*names, cls=GroupedOption, group=group, **attrs)


def group_of(parameter: click.Parameter) -> str:
    """Return the group of an option."""
    return parameter.group if isinstance(parameter, GroupedOption) else HELP


class GroupedCommand(click.Command):
    """A command whose help lists the options by group, in the order of `GROUPS`."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.params.sort(key=lambda parameter: GROUPS.index(group_of(parameter)))  # a stable sort

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group under its name, all texts in one column."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups[group_of(parameter)].append(record)
        lengths = [len(names) for records in groups.values() for names, _ in records]
        width = max((length for length in lengths if length <= MOST_COLUMNS), default=0)
        for group, records in groups.items():
            if records:
                # click takes the width of a column from its longest entry: all groups get one that long.
                (names, text), *others = records
                with formatter.section(group):
                    formatter.write_dl([(names.ljust(width), text), *others], col_max=width)
