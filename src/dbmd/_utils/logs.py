"""The library's logger, ``dbmd``, and how ``verbose`` makes its lines visible.

Progress is logged at the level INFO by estimators with ``verbose=1`` and at DEBUG by others. During a fit with
``verbose=1``

- the logger's level is INFO, unless the user has set one, and
- if neither the logger nor the root logger has a handler, lines go to standard output, as the ``verbose`` of
  scikit-learn's estimators does.

So an application that configures logging gets these lines in its own log, once, and silences them with
``logging.getLogger("dbmd").setLevel(logging.WARNING)``.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("dbmd")
logger.addHandler(logging.NullHandler())  # without it, Python would print warnings of a library by itself


class _StandardOutput(logging.Handler):
    """Writes to what is standard output at the time: notebooks and tests replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line at once."""
        try:
            sys.stdout.write(f"[DBMD] {self.format(record)}\n")
            sys.stdout.flush()
        except Exception:  # as all handlers do: what cannot be logged must not end a fit
            self.handleError(record)


_own_handler = _StandardOutput()
_lock = threading.Lock()
_n_shown = 0  # fits with verbose > 0 at the moment, in all threads
_has_set_level = False


@contextmanager
def progress_log(verbose: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that logs a line of progress, and let it be seen if ``verbose`` is not 0.

    Parameters
    ----------
    verbose : int
        The parameter of an estimator.

    Yields
    ------
    callable
        Takes the line.
    """
    if not verbose:
        yield logger.debug
        return
    _show()
    try:
        yield logger.info
    finally:
        _hide()


def log_phase(log: Callable[[str], None], phase: str, step: int = 0, /) -> None:
    """Log a phase of a fit; its iterations are of no interest in a log."""
    if not step:
        log(phase)


def _show() -> None:
    global _n_shown, _has_set_level
    with _lock:
        _n_shown += 1
        if _n_shown > 1:
            return
        _has_set_level = logger.level == logging.NOTSET
        if _has_set_level:
            logger.setLevel(logging.INFO)
        if not _is_configured():
            logger.addHandler(_own_handler)


def _hide() -> None:
    global _n_shown
    with _lock:
        _n_shown -= 1
        if _n_shown:
            return
        if _has_set_level:
            logger.setLevel(logging.NOTSET)
        logger.removeHandler(_own_handler)


def _is_configured() -> bool:
    """Say whether lines would be handled by someone else."""
    handlers = [*logger.handlers, *(logging.getLogger().handlers if logger.propagate else ())]
    return any(not isinstance(handler, logging.NullHandler) for handler in handlers)
