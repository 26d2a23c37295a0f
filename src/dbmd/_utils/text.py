"""Making texts of unknown origin, such as names of files and columns, safe to print."""

from __future__ import annotations

import shlex
from typing import Any


def printable(text: Any) -> str:
    r"""Return a text on one line without control characters, which could change a terminal or mislead a reader.

    They are escaped as in Python's ``repr``; so are line breaks, marks that change the direction of writing, and bytes
    of file names that are no characters.

    Examples
    --------
    >>> from dbmd._utils.text import printable
    >>> print(printable("naïve\x1b[2J\u202e"))
    naïve\x1b[2J\u202e
    """
    text = str(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: Any, limit: int = 1000) -> str:
    """Return a printable text on one line, shortened in the middle to at most ``limit`` characters."""
    line = printable(text)
    return line if len(line) <= limit else f"{line[: limit // 2]}…{line[len(line) + 1 - limit // 2 :]}"


def quoted(argument: str) -> str:
    r"""Return an argument quoted for a shell, without control characters.

    Examples
    --------
    >>> from dbmd._utils.text import quoted
    >>> print(quoted("a b"), quoted("it's\x1b"))
    'a b' $'it\'s\x1b'
    """
    if argument.isprintable():
        return shlex.quote(argument)
    return f"$'{''.join(map(_in_quotes, argument))}'"


def _in_quotes(character: str) -> str:
    if character.isprintable():
        return f"\\{character}" if character in "\\'" else character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
