"""One experiment: its setting, and where its results lie."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any

from dbmd.experiments import NAMES, SCALES

Setting = Mapping[str, Any]
Task = dict[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """An experiment by its name.

    Attributes
    ----------
    name : str
        One of :data:`dbmd.experiments.NAMES`.
    about : dict
        All of its ``setting.toml``: ``title``, ``figure`` (of the paper, or table), ``question``, a table of
        parameters for each scale, and ``published``, the numbers of the paper.
    """

    name: str
    about: Mapping[str, Any]

    @classmethod
    def load(cls, name: str) -> Experiment:
        """Return the experiment of a name."""
        if name not in NAMES:
            raise ValueError(f"Unknown experiment {name!r}. Known: {', '.join(NAMES)}.")
        text = (files(_package(name)) / "setting.toml").read_text(encoding="utf-8")
        return cls(name, tomllib.loads(text))

    def setting(self, scale: str) -> Setting:
        """Return the parameters for a scale."""
        if scale not in SCALES:
            raise ValueError(f"Unknown scale {scale!r}. Known: {', '.join(SCALES)}.")
        return self.about[scale]

    @cached_property
    def run(self) -> ModuleType:
        """The module with ``tasks`` and ``run``."""
        return import_module(f"{_package(self.name)}.run")

    @cached_property
    def draw(self) -> ModuleType:
        """The module with ``draw``, ``table`` and ``claims``; it needs matplotlib."""
        return import_module(f"{_package(self.name)}.draw")


@dataclass(frozen=True)
class Claim:
    """What was to be shown, and whether the records show it.

    Attributes
    ----------
    text : str
        A sentence, with the numbers found.
    holds : bool
        Whether it is so.
    """

    text: str
    holds: bool


@dataclass(frozen=True)
class Table:
    """A table for people; entries are texts.

    Attributes
    ----------
    columns : tuple of str
        Headings.
    rows : tuple of tuples of str
        One entry for each heading.
    note : str
        What a reader has to know of it.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Return it as a table of Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        text = "\n".join("| " + " | ".join(entry.replace("|", r"\|") for entry in line) + " |" for line in lines)
        return text + (f"\n\n{self.note}\n" if self.note else "\n")


def _package(name: str) -> str:
    return f"dbmd.experiments.{name.replace('-', '_')}"
