"""Running an experiment: the remaining tasks one after the other, then figures and table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import dbmd
from dbmd.errors import needs
from dbmd.experiments import NAMES
from dbmd.experiments.experiment import Claim, Experiment, Table, Task
from dbmd.experiments.ledger import Ledger
from dbmd.experiments.machine import machine
from dbmd.storage import write_file

RECORDS = "records.jsonl"
OnTask = Callable[[Task, int, int], object]  # a task that begins, how many are done, and how many there are


def nobody(task: Task, done: int, total: int) -> None:
    """Take no notice of a task."""


def run(name: str, folder: Path, *, scale: str = "small", fresh: bool = False, on_task: OnTask = nobody) -> Ledger:
    """Run what is left of an experiment, and write its figures and its table.

    Parameters
    ----------
    name : str
        One of :data:`dbmd.experiments.NAMES`.
    folder : Path
        Gets a folder for the scale, and in it one for the experiment: ``records.jsonl``, ``table.md``, and for each
        figure ``figure-KEY.png`` and ``figure-KEY.svg``.
    scale : "small" or "paper"
        A minute, or the size of the paper.
    fresh : bool
        Delete existing records first.
    on_task : callable
        Called before each task, and once at the end.

    Returns
    -------
    Ledger
        With all records.
    """
    experiment = Experiment.load(name)
    setting = experiment.setting(scale)
    results = folder / scale / name
    if fresh:
        (results / RECORDS).unlink(missing_ok=True)
    heading = {"experiment": name, "scale": scale, "setting": setting, "dbmd": dbmd.__version__, "machine": machine()}
    ledger = Ledger(results / RECORDS, heading)
    tasks = experiment.run.tasks(setting)
    left = [task for task in tasks if not ledger.has(task)]
    for number, task in enumerate(left):
        on_task(task, len(tasks) - len(left) + number, len(tasks))
        clock = time.perf_counter()
        records = experiment.run.run(task, setting)
        ledger.add(task, time.perf_counter() - clock, records)
    on_task({}, len(tasks), len(tasks))
    present(experiment, ledger, results)
    return ledger


def present(experiment: Experiment, ledger: Ledger, results: Path) -> None:
    """Write the figures and the table of records into a folder."""
    with needs("figure of an experiment", "matplotlib", "report"):
        from matplotlib import rc_context
    for old in [*results.glob("figure-*.svg"), *results.glob("figure-*.png")]:
        old.unlink()
    # Without a date and with fixed names inside, one set of records gives one file.
    with rc_context({"svg.hashsalt": experiment.name}):
        for number, (key, figure) in enumerate(experiment.draw.draw(ledger.records, experiment.about).items(), 1):
            for kind, metadata in {"png": {}, "svg": {"Date": None}}.items():
                buffer = BytesIO()
                figure.savefig(buffer, format=kind, metadata=metadata)
                write_file(results / f"figure-{number}-{key}.{kind}", buffer.getvalue())
    text = "\n".join(
        [
            f"# {experiment.about['title']}\n",
            *(f"- {'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}" for claim in claims(experiment, ledger)),
            "",
            table(experiment, ledger).markdown(),
        ]
    )
    write_file(results / "table.md", text.encode())


def figures_of(results: Path) -> list[Path]:
    """Return the figures in a folder, in their order, as svg."""
    return sorted(results.glob("figure-*.svg"))


def claims(experiment: Experiment, ledger: Ledger) -> Sequence[Claim]:
    """Return what was to be shown, and whether the records show it."""
    return experiment.draw.claims(ledger.records, experiment.about)


def table(experiment: Experiment, ledger: Ledger) -> Table:
    """Return our numbers beside those of the paper."""
    return experiment.draw.table(ledger.records, experiment.about)


def finished(folder: Path, scale: str) -> list[tuple[Experiment, Ledger]]:
    """Return the experiments of a scale that have all their records in a folder, in the order of the paper."""
    found = []
    for name in NAMES:
        path = folder / scale / name / RECORDS
        if not path.exists():
            continue
        experiment = Experiment.load(name)
        heading: dict[str, Any] = json.loads(path.read_bytes().split(b"\n", 1)[0])
        if heading["setting"] != experiment.setting(scale):
            continue
        ledger = Ledger(path, heading)
        if all(ledger.has(task) for task in experiment.run.tasks(heading["setting"])):
            found.append((experiment, ledger))
    return found
