"""What is printed on a terminal or into a log: no control characters, which names of files and columns may have."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from dbmd._utils.text import printable
from dbmd.storage import to_json


def print_result(text: str) -> None:
    """Print lines of a result to standard output; names in them must be on one line already."""
    click.echo(printable_lines(text))


def print_message(text: str) -> None:
    """Print a message to standard error; where it cannot be written (a log on a full disk), work goes on."""
    with suppress(OSError):
        click.echo(printable_lines(text), err=True)


def print_json(record: Mapping[str, Any]) -> None:
    """Print a record as JSON to standard output.

    Characters that are not printable are escaped as JSON has it: programs read the true names.
    """
    plain = to_json(record).decode().rstrip()
    click.echo("".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in plain))


def printable_lines(text: str) -> str:
    """Return a text with its line breaks, and all else that is not printable escaped."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
