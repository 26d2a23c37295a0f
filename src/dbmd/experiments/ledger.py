"""The records of an experiment in a file, one line for each finished task: a stopped run continues from it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbmd.errors import DataError
from dbmd.experiments.experiment import Record, Task
from dbmd.storage import plain, write_file


class Ledger:
    """Tasks done and their records.

    The file has JSON lines: a heading with the setting, then for each task what it was, how long it took, and its
    records. A line that a kill left unfinished is dropped, and its task done again.

    Parameters
    ----------
    path : Path
        The file. It need not be there.
    heading : dict
        What all records have in common, of plain values. A file with another ``setting`` is refused: the records
        of two settings must not meet in one figure.
    """

    def __init__(self, path: Path, heading: Mapping[str, Any]) -> None:
        self.path = path
        self.heading = plain(heading)
        self.records: list[Record] = []
        self.seconds: dict[str, float] = {}
        lines = _complete_lines(path)
        if lines:
            self._read(lines)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, _line(self.heading))

    def _read(self, lines: list[bytes]) -> None:
        try:
            heading, *entries = map(json.loads, lines)
            setting = heading["setting"]
            for entry in entries:
                self._note(entry)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.path} is not a file of records ({error}). Move it away, or run with --fresh."
            ) from error
        if setting != self.heading["setting"]:
            raise DataError(
                f"{self.path} has records of another setting (dbmd {heading.get('dbmd')}). "
                "Choose another folder with -o, or run with --fresh to replace them."
            )
        self.heading = heading
        if self.path.stat().st_size > sum(map(len, lines)):
            write_file(self.path, b"".join(lines))

    def has(self, task: Task) -> bool:
        """Say whether a task was done."""
        return _key(task) in self.seconds

    def add(self, task: Task, seconds: float, records: list[Record]) -> None:
        """Write what a task found: it is on disk when this returns."""
        entry = plain({"task": task, "seconds": round(seconds, 3), "records": records})
        with open(self.path, "ab") as file:
            file.write(_line(entry))
            file.flush()
            os.fsync(file.fileno())
        self._note(entry)

    def _note(self, entry: dict[str, Any]) -> None:
        self.seconds[_key(entry["task"])] = float(entry["seconds"])
        self.records += [entry["task"] | record for record in entry["records"]]


def _key(task: Task) -> str:
    return json.dumps(plain(task), sort_keys=True)


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _complete_lines(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
