"""Remedies in messages: what Python calls ``drop=['x']`` is ``--drop x`` on the command line."""

from __future__ import annotations

import ast
import re

from dbmd._utils.text import quoted

# Parameters of open_data and of methods, as messages write them: name=True, name='value', name=['a', 'b'], or name=.
FLAGS = ("header", "overwrite", "transpose")
VALUES = ("columns", "delimiter", "memory", "missing")
LISTS = ("drop", "encode")
TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
REMEDY = re.compile(
    rf"(?<![\w/-])(?:(?P<flag>{'|'.join(FLAGS)})=(?P<is_set>True|False)"
    rf"|(?P<value>{'|'.join(VALUES)})=(?P<given>{TEXT}|(?!\w|\.\w))"
    rf"|(?P<list>{'|'.join(LISTS)})=(?P<items>\[(?:{TEXT})(?:, (?:{TEXT}))*\]|(?!\w|\.\w)))"
)


def remedies_in_options(message: str) -> str:
    """Return a message with options in the place of parameters that it says to set.

    Nothing but such remedies is translated: names of files and columns stay as they are.
    """
    return REMEDY.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    if found["flag"]:
        return f"--{'' if found['is_set'] == 'True' else 'no-'}{found['flag']}"
    if found["value"]:
        return f"--{found['value']}" + (f" {quoted(ast.literal_eval(found['given']))}" if found["given"] else "")
    items = ast.literal_eval(found["items"]) if found["items"] else [None]
    return " ".join(f"--{found['list']}" + ("" if item is None else f" {quoted(item)}") for item in items)
