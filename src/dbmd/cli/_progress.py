"""Progress of a fit: a bar on a terminal, lines in a log."""

from __future__ import annotations

import math
import sys
import threading
import time
from types import TracebackType
from typing import Any

from dbmd.cli._output import print_message, printable_lines
from dbmd.model.result import State

SECONDS_BETWEEN_LINES = 2.0
SECONDS_BETWEEN_FRAMES = 0.2


class Progress:
    """Shows each iteration: passes so far, objective, seconds left.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    max_iter : int
        The largest number of iterations.
    tol : float
        The change at which a fit ends, if it is known: the time left is estimated from it.
    """

    def __init__(self, *, quiet: bool, max_iter: int, tol: float = 0.0) -> None:
        self.quiet, self.max_iter, self.tol = quiet, max_iter, tol
        self.changes: list[float] = []
        self.last: State | None = None
        self.rows = self.rows_of_a_pass = 0
        self.lock = threading.Lock()
        self.last_printed: State | None = None
        self.shown_at = -math.inf
        self.numbers = ""
        self.bar: Any = None

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(
                total=self.max_iter,
                desc="reading",
                unit=" passes",
                bar_format="{desc}: {bar} {n_fmt}{unit}{postfix} [{elapsed}]",
                dynamic_ncols=True,
                file=sys.stderr,
                leave=False,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.last is not None and self.last is not self.last_printed:
            self._line(self.last)

    def read(self, rows: int) -> None:
        """Show that rows were read; threads may call this at the same time."""
        if self.bar is None:
            return
        with self.lock:
            self.rows += rows
            if time.monotonic() - self.shown_at < SECONDS_BETWEEN_FRAMES:
                return
            self.shown_at = time.monotonic()
            part = self.rows / self.rows_of_a_pass % 1 if self.rows_of_a_pass else None
            text = f"{self.rows:,} rows" if part is None else f"{self.numbers}{part:.0%} of a pass"
            self.bar.set_postfix_str(text)

    def begin(self, rows_of_a_pass: int, tol: float | None = None) -> None:
        """Show that the data are read, and the fit begins."""
        self.rows, self.rows_of_a_pass = 0, rows_of_a_pass
        self.tol = self.tol if tol is None else tol
        if self.bar is not None:
            self.bar.set_description_str("start", refresh=False)
            self.bar.set_postfix_str("")

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        if self.bar is not None:
            self.bar.write(printable_lines(text), file=sys.stderr)
        elif not self.quiet:
            print_message(text)

    def warn(self, text: str) -> None:
        """Print a line also for those who asked for nothing but errors."""
        if self.quiet:
            print_message(f"Warning: {text}")
        else:
            self.print_line(f"Warning: {text}")

    def __call__(self, state: State) -> None:
        """Show a state."""
        if self.quiet:
            return
        before, self.last = self.last, state
        if before is None or before.attempt != state.attempt:
            self.changes = []
        change = state.history[-1].change
        if change is not None:
            self.changes.append(change)
        if self.bar is not None:
            self._move(state)
        elif time.monotonic() - self.shown_at >= SECONDS_BETWEEN_LINES:
            self._line(state)

    def _move(self, state: State) -> None:
        left = self._left(state)
        self.bar.n = len(state.history)
        self.bar.total = self.max_iter if left is None else max(self.bar.n + left, 1)
        self.bar.set_description_str(f"fit {state.attempt + 1}" if state.attempt else "fit", refresh=False)
        text = self._numbers(state, left)
        self.rows, self.numbers = 0, f"{text}, "
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.refresh()

    def _line(self, state: State) -> None:
        start = f"start {state.attempt + 1}, " if state.attempt else ""
        text = self._numbers(state, self._left(state))
        print_message(f"{start}iteration {len(state.history)}, {text}")
        self.last_printed, self.shown_at = state, time.monotonic()

    def _left(self, state: State) -> int | None:
        return iterations_left(self.changes, self.tol, self.max_iter - len(state.history))

    def _numbers(self, state: State, left: int | None) -> str:
        text = f"objective {state.history[-1].objective:.8g}"
        if left is None or state.converged:
            return text
        recent = state.history[-5:]
        return f"{text}, about {duration(left * sum(record.seconds for record in recent) / len(recent))} left"


def iterations_left(changes: list[float], tol: float, most: int) -> int | None:
    """Estimate the number of iterations left, from how fast the change of an iteration decreases to tol."""
    recent = [change for change in changes[-6:] if change > 0.0]
    if len(recent) < 3:
        return None
    if tol <= 0.0:
        return most
    if recent[-1] <= tol:
        return 0
    rate = (math.log(recent[-1]) - math.log(recent[0])) / (len(recent) - 1)
    if rate >= 0.0:
        return most
    return min(most, math.ceil((math.log(tol) - math.log(recent[-1])) / rate))


def duration(seconds: float) -> str:
    """Return a time in suitable units: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
