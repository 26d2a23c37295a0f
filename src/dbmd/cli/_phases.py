"""What a command is doing: a line on a terminal that moves, lines in a log for what takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from dbmd.cli._output import print_message, printable_lines

SECONDS_BETWEEN_FRAMES = 0.2
SECONDS_TO_A_LINE = 1.0  # a log gets no line about what takes less
SECONDS_TO_THE_NEXT = 30.0
PHASE = "{desc}{postfix} [{elapsed}]"


class Phases:
    """Shows what is being done: phases by name, the rows read in each, and the time.

    A thread draws, so that the time goes on while nothing is reported. On a terminal it draws one line over and over.
    Otherwise a phase that takes longer than a second gets a line, and another every half a minute.

    Parameters
    ----------
    name : str
        What is done first.
    quiet : bool
        Show nothing.
    clock : callable
        Returns seconds.
    """

    def __init__(self, name: str = "", *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self.clock = quiet, clock
        self.name, self.step, self.began = name, 0, clock()
        self.rows = self.rows_of_a_pass = 0
        self.next_line = SECONDS_TO_A_LINE  # seconds after the beginning of the phase
        self.lock = threading.RLock()  # rows are reported by any thread
        self.bar: Any = None
        self.is_over = threading.Event()
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.quiet:
            return self
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(desc=self.name, bar_format=PHASE, dynamic_ncols=True, file=sys.stderr, leave=False)
        self.thread = threading.Thread(target=self._draw_until_over, name="dbmd progress", daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_over.set()
        if self.thread is not None:
            self.thread.join()
        if self.bar is not None:
            self.bar.close()

    def _draw_until_over(self) -> None:
        with suppress(OSError):  # nobody reads it any more
            while not self.is_over.wait(SECONDS_BETWEEN_FRAMES):
                self.draw()

    # -- what is reported ------------------------------------------------------------------------------------------

    def phase(self, name: str, step: int = 0, /) -> None:
        """Say what is being done from now on, and at which step of it.

        Parameters
        ----------
        name : str
            The phase.
        step : int
            Its iteration, if it has some.
        """
        with self.lock:
            if name != self.name:
                self.name, self.began, self.next_line, self.rows = name, self.clock(), SECONDS_TO_A_LINE, 0
            self.step = step

    def read(self, rows: int) -> None:
        """Say that rows were read; threads may call this at the same time."""
        with self.lock:
            self.rows += rows

    def print_line(self, text: str) -> None:
        """Print a line above the one that moves."""
        if self.bar is not None:
            with self.lock:
                self.bar.write(printable_lines(text), file=sys.stderr)
        elif not self.quiet:
            print_message(text)

    def warn(self, text: str) -> None:
        """Print a line also for those who asked for nothing but errors."""
        if self.quiet:
            print_message(f"Warning: {text}")
        else:
            self.print_line(f"Warning: {text}")

    # -- what is shown ---------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Show the present state; the thread does this."""
        with self.lock:
            if not self.name or self.quiet:
                return
            details = [f"iteration {self.step}"] * bool(self.step) + [self.rows_read()] * bool(self.rows)
            if self.bar is not None:
                self.bar.bar_format = PHASE
                self.bar.set_description_str(self.name, refresh=False)
                self.bar.set_postfix_str(", ".join(details), refresh=False)
                self.bar.refresh()
            elif self.clock() - self.began >= self.next_line:
                self.next_line += SECONDS_TO_THE_NEXT
                print_message(", ".join([self.name, *details]))

    def rows_read(self) -> str:
        """Return how many rows were read in this phase, for people."""
        if not self.rows_of_a_pass:
            return f"{self.rows:,} rows"
        return f"{((self.rows - 1) % self.rows_of_a_pass + 1) / self.rows_of_a_pass:.0%} of the rows"
