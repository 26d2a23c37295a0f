"""``dbmd experiment``: the figures and tables of the paper."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from dbmd._utils.text import printable
from dbmd.cli._errors import FriendlyGroup
from dbmd.cli._options import LocalPath
from dbmd.cli._output import print_message, print_result
from dbmd.cli._progress import SECONDS_BETWEEN_LINES, duration
from dbmd.experiments import NAMES, SCALES


@click.group(cls=FriendlyGroup)
def experiment() -> None:
    """Reproduce the experiments of the paper: figures, tables, and what holds."""


@click.command("list")
def list_them() -> None:
    """List the experiments.

    \b
    Examples:
      dbmd experiment list
    """
    from dbmd.experiments.experiment import Experiment

    for name in NAMES:
        about = Experiment.load(name).about
        click.echo(f"{name:16}{about['title']}")
        click.echo(f"{'':16}In the paper: {about['figure']}.")
    click.echo("\nRun one with: dbmd experiment run NAME, or all of them with: dbmd experiment run all")


@click.command("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=click.Choice([*NAMES, "all"]))
@click.option(
    "--scale",
    type=click.Choice(SCALES),
    default="small",
    show_default=True,
    help="About a minute each, or the size of the paper.",
)
@click.option(
    "-o",
    "--output",
    type=LocalPath(file_okay=False),
    default=Path("experiments"),
    show_default=True,
    help="Folder for records, figures, tables and the page.",
)
@click.option("--fresh", is_flag=True, help="Forget the records that are there.")
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run_them(names: tuple[str, ...], scale: str, output: Path, fresh: bool, open_it: bool, quiet: bool) -> None:
    """Run experiments, and write records, figures, tables and one page with all of them.

    A run that was stopped goes on where it was when it is started again. Data are taken from the folder named by
    DBMD_DATA, else they are fetched by scikit-learn.

    \b
    Examples:
      dbmd experiment run variance-ratio
      dbmd experiment run all --open
      dbmd experiment run clustering --scale paper -o results
    """
    from dbmd.experiments.experiment import Experiment
    from dbmd.experiments.page import write
    from dbmd.experiments.runner import claims, run

    chosen = NAMES if "all" in names else dict.fromkeys(names)
    for name in chosen:
        with Tasks(name, quiet=quiet) as progress:
            ledger = run(name, output, scale=scale, fresh=fresh, on_task=progress)
        loaded = Experiment.load(name)
        click.echo(f"{name}: {loaded.about['title']}")
        for claim in claims(loaded, ledger):
            click.echo(f"  {'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}")
        print_result(f"  Records, figures and table are in {printable(output / scale / name)}.")
    page = write(output, scale)
    print_result(f"\nLook at the page: {printable(page)}")
    if open_it:
        click.launch(page.resolve().as_uri())


for command in (list_them, run_them):
    experiment.add_command(command)


class Tasks:
    """Shows which task runs: a bar on a terminal, lines in a log.

    Parameters
    ----------
    name : str
        The experiment.
    quiet : bool
        Show nothing.
    """

    def __init__(self, name: str, *, quiet: bool) -> None:
        self.name, self.quiet = name, quiet
        self.began = time.monotonic()
        self.printed_at = self.began
        self.done_before: int | None = None
        self.bar: Any = None

    def __enter__(self) -> Tasks:
        if not self.quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(desc=self.name, unit=" tasks", dynamic_ncols=True, file=sys.stderr, leave=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, task: dict[str, Any], done: int, total: int) -> None:
        """Show the task that begins, and how many are done."""
        if self.done_before is None:
            self.done_before = done
            if 0 < done < total and not self.quiet:
                print_message(f"{self.name}: {done} of {total} tasks were done before.")
        what = ", ".join(f"{name} {value}" for name, value in task.items())
        if self.bar is not None:
            self.bar.total = total
            self.bar.initial = self.done_before
            self.bar.n = done
            self.bar.set_postfix_str(what)
        elif not self.quiet and task and time.monotonic() - self.printed_at >= SECONDS_BETWEEN_LINES:
            self.printed_at = time.monotonic()
            print_message(f"{self.name}: {done} of {total} tasks{self._left(done, total)}, now {what}")

    def _left(self, done: int, total: int) -> str:
        """Return a rough estimate of the time left, from the tasks so far."""
        here = done - (self.done_before or 0)
        if not here:
            return ""
        return f", about {duration((time.monotonic() - self.began) / here * (total - done))} left"
