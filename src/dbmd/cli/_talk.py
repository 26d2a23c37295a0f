"""What is said on a terminal or in a log: no control characters, which names of files and columns may have."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from dbmd._utils.text import printable
from dbmd.storage import to_json


def say(text: str) -> None:
    """Print lines of a result; names in them must be on one line already."""
    click.echo(lines(text))


def tell(text: str) -> None:
    """Print a line that nothing depends on: where it cannot be written (a log on a full disk), work goes on."""
    with suppress(OSError):
        click.echo(lines(text), err=True)


def lines(text: str) -> str:
    """Return a text whose line breaks are ours, and all that is not printable escaped."""
    return "\n".join(map(printable, text.split("\n")))


def say_json(record: Mapping[str, Any]) -> None:
    """Print a record as JSON. What is not printable is escaped as JSON has it: programs read the true names."""
    plain = to_json(record).decode().rstrip()
    click.echo("".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in plain))


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
