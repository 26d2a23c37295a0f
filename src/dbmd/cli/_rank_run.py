"""The steps of ``dbmd rank``, in the order in which they are taken."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dbmd._utils.text import printable, quoted
from dbmd.cli._output import print_json, print_result
from dbmd.cli._phases import Phases
from dbmd.config import Config
from dbmd.data.address import shown
from dbmd.dataset import Dataset, open_data
from dbmd.estimator import DBMD, Choice
from dbmd.estimator._halves import LEAST
from dbmd.estimator._number import choice_for, numbers_for
from dbmd.report.numbers import percent
from dbmd.report.rank import curve, render
from dbmd.saved.directory import versions
from dbmd.storage import check_can_write, to_json, write_directory

RECORD, TABLE, PAGE = "rank.json", "rank.csv", "rank.html"
OWNED = frozenset({RECORD, TABLE, PAGE})
FORMAT, FORMAT_VERSION = "dbmd-rank", 1


@dataclass(frozen=True)
class RankRun:
    """A run of ``dbmd rank``.

    Attributes
    ----------
    data : tuple of str
        Paths and addresses.
    read : dict
        How to read them: parameters of :func:`dbmd.open_data`.
    params : dict
        Parameters of :class:`dbmd.DBMD`, checked.
    tried : tuple of int, optional
        Numbers of patterns to try; by default those that suit the data.
    n_splits : int
        In how many ways the data are split.
    output : Path
        The directory.
    overwrite : bool
        Whether to replace what is there.
    options_of_fit : list of str
        The options of ``dbmd fit`` that were given, as arguments.
    quiet, as_json : bool
        What to print.
    """

    data: tuple[str, ...]
    read: dict[str, Any]
    params: dict[str, Any]
    tried: tuple[int, ...] | None
    n_splits: int
    output: Path
    overwrite: bool
    options_of_fit: list[str]
    quiet: bool
    as_json: bool

    def run(self) -> None:
        """Choose, write what was found, and print it."""
        check_can_write(self.output, overwrite=self.overwrite, owned=OWNED)  # before anything takes time
        with Phases("reading the data", quiet=self.quiet) as progress:
            with open_data(self.data, **self.read, on_rows=progress.read, engine=self.params["engine"]) as data:
                tried = self._tried(data)
                progress.print_line(_description(data, tried))
                choice = choice_for(DBMD(**self.params), data, progress.phase, tried=tried, n_splits=self.n_splits)
                assert choice is not None
                record = self._record(choice, data)
            progress.phase("writing the page")
            files = {RECORD: to_json(record), TABLE: _table(choice), PAGE: render(choice, record).encode()}
            write_directory(self.output, files, overwrite=self.overwrite, owned=OWNED)
        if self.as_json:
            print_json(record | {"output": str(self.output)})
        elif not self.quiet:
            print_result(self._in_words(choice, record))

    def _tried(self, data: Dataset) -> tuple[int, ...]:
        config = Config(**self.params)
        if self.tried is None:
            return tuple(numbers_for(config, data.shape))
        if self.tried[0] < config.n_known:
            raise ValueError(
                f"-k must not be less than the number of known patterns, {config.n_known}. Got {self.tried[0]}."
            )
        most = data.shape[0] // 2 // LEAST
        if self.tried[-1] > most:
            raise ValueError(
                f"-k must be at most {most}: halves of {data.shape[0]} samples need {LEAST} for each pattern. "
                f"Got {self.tried[-1]}."
            )
        return self.tried

    def _record(self, choice: Choice, data: Dataset) -> dict[str, Any]:
        """Return what was found and how, ready for JSON."""
        n, m = data.shape
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **choice.asdict(),
            "n_splits": self.n_splits,
            "n_samples_of_data": n,
            "n_features": m,
            "n_sources": data.n_sources,
            "seed": self.params["random_state"],
            "data": data.about,
            "next": self._next(choice),
            "command": " ".join(["dbmd", *(quoted(shown(argument)) for argument in sys.argv[1:])]),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
        }

    def _next(self, choice: Choice) -> str:
        """Return the command that fits the number proposed; where nothing is stable it says which patterns are."""
        arguments = [*map(shown, self.data), "-k", str(choice.n_components), *self.options_of_fit]
        arguments += [] if choice.is_stable else ["--halves"]
        return " ".join(["dbmd fit", *map(quoted, arguments), "-o model"])

    def _in_words(self, choice: Choice, record: dict[str, Any]) -> str:
        lines = ["", "  patterns   worst    mean   explained"]
        for row in curve(choice):
            mark = "  <- proposed" if row["proposed"] and choice.is_stable else ""
            numbers = f"{row['worst']['y']:>6.3f}  {row['mean']['y']:>6.3f}   {percent(row['explained']):>9}"
            lines.append(f"  {row['r']:>8}  {numbers}{mark}")
        page = printable(self.output / PAGE)
        lines += ["", choice.sentence, f"Look at {page}. The fit that follows from it:", f"  {record['next']}"]
        return "\n".join(lines)


def _description(data: Dataset, tried: tuple[int, ...]) -> str:
    n, m = data.shape
    sources = f", {data.n_sources} sources" if data.n_sources > 1 else ""
    is_range = len(tried) > 2 and tried == tuple(range(tried[0], tried[-1] + 1))
    numbers = f"{tried[0]} to {tried[-1]}" if is_range else ", ".join(map(str, tried))
    return f"{n:,} samples of {m:,} features{sources}; trying {numbers} patterns."


def _table(choice: Choice) -> bytes:
    """Return the curve as csv, a row for each number of patterns."""
    text = io.StringIO()
    names = ("worst", "worst_lowest", "worst_highest", "mean", "mean_lowest", "mean_highest")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["n_components", *names, "explained", "proposed"])
    for row in curve(choice, digits=None):
        numbers = [row[kind][each] for kind in ("worst", "mean") for each in ("y", "low", "high")]
        written = ["" if each is None else repr(float(np.float64(each))) for each in (*numbers, row["explained"])]
        writer.writerow([row["r"], *written, int(row["proposed"] and choice.is_stable)])
    return text.getvalue().encode()
