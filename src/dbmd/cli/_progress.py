"""Progress of a fit: its phases, and each iteration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import TracebackType

from dbmd.cli._output import print_message
from dbmd.cli._phases import Phases
from dbmd.model.result import State

SECONDS_BETWEEN_LINES = 2.0
ITERATIONS = "{desc}: {bar} {n_fmt} passes{postfix} [{elapsed}]"


class Progress(Phases):
    """Shows the phases of a fit, and of each iteration passes so far, objective, seconds left.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    max_iter : int
        The largest number of iterations.
    tol : float
        The change at which a fit ends: the time left is estimated from it.
    clock : callable
        Returns seconds.
    """

    def __init__(self, *, quiet: bool, max_iter: int, tol: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("reading the data", quiet=quiet, clock=clock)
        self.max_iter, self.tol = max_iter, tol
        self.changes: list[float] = []
        self.last: State | None = None
        self.last_printed: State | None = None
        self.shown_at = -math.inf

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._last_line()

    def phase(self, name: str, step: int = 0, /) -> None:
        """Say what is being done from now on, after the last iteration if there were some."""
        self._last_line()
        super().phase(name, step)

    def __call__(self, state: State) -> None:
        """Show a state."""
        if self.quiet:
            return
        with self.lock:
            before, self.last = self.last, state
            self.name, self.rows = "", 0  # no phase, but iterations
            if before is None or before.attempt != state.attempt:
                self.changes = []
            change = state.history[-1].change
            if change is not None:
                self.changes.append(change)
            if self.bar is not None:
                self.draw()
            elif self.clock() - self.shown_at >= SECONDS_BETWEEN_LINES:
                self._line(state)

    def draw(self) -> None:
        """Show the present state; the thread does this, and each iteration."""
        with self.lock:
            if self.name or self.bar is None or self.last is None:
                super().draw()
                return
            state, left = self.last, self._left(self.last)
            text = self._numbers(state, left) + (f", {self.rows_read()}" if self.rows else "")
            self.bar.bar_format, self.bar.n = ITERATIONS, len(state.history)
            self.bar.total = self.max_iter if left is None else max(self.bar.n + left, 1)
            self.bar.set_description_str(f"fit {state.attempt + 1}" if state.attempt else "fit", refresh=False)
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.refresh()

    def _last_line(self) -> None:
        """Print the last iteration to a log, unless it is there."""
        with self.lock:
            if self.bar is None and self.last is not None and self.last is not self.last_printed:
                self._line(self.last)

    def _line(self, state: State) -> None:
        start = f"start {state.attempt + 1}, " if state.attempt else ""
        text = self._numbers(state, self._left(state))
        print_message(f"{start}iteration {len(state.history)}, {text}")
        self.last_printed, self.shown_at = state, self.clock()

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
