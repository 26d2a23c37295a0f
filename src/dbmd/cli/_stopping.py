"""What a fit does when it is asked to end: save its state, and end at once."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

from dbmd._utils.text import printable
from dbmd.cli._errors import STOPS, on_stops, sentence
from dbmd.saved.checkpoint import Checkpoint
from dbmd.saved.lock import Lock


class SavesWhenStopped:
    """While it is active, a signal to end saves the state of the fit and ends the process.

    Parameters
    ----------
    lock : Lock
        To be released.

    Attributes
    ----------
    checkpoint : Checkpoint, optional
        Has the state to save; None before the fit begins.
    """

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.checkpoint: Checkpoint | None = None
        self._handlers = ExitStack()

    def __enter__(self) -> SavesWhenStopped:
        self._handlers.enter_context(on_stops(self._stop))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):  # Spark has replaced our handler by one of its own
            self._stop(signal.SIGINT, None)
        self._handlers.close()

    def _stop(self, number: int, frame: Any) -> None:
        for each in STOPS:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not interrupt the saving
        if self.checkpoint is not None and self.checkpoint.state is not None:
            message = f"Stopped. {save_state(self.checkpoint)}"
        else:
            message = "Stopped before there was anything to save."
        with suppress(OSError):
            self.lock.release()
        with suppress(OSError):  # the terminal may be gone
            os.write(2, f"\n{printable(message)}\n".encode())
        # Threads may be deep in a pass over the data: an orderly exit would wait for its end.
        os._exit(128 + number)


def save_state(checkpoint: Checkpoint) -> str:
    """Write a checkpoint, and return a sentence that says from where the fit can be resumed."""
    failed = ""
    try:
        checkpoint.write()
    except OSError as error:
        failed = f"The state cannot be saved: {sentence(error)} "
    if checkpoint.written is None:
        return failed + "Nothing was saved before."
    done = len(checkpoint.written.history)
    return f"{failed}The state after iteration {done} is in {checkpoint.path}: go on with --resume."
