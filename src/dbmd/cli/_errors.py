"""Errors as one sentence; tracebacks only with ``--debug``."""

from __future__ import annotations

import errno
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from dbmd._utils.text import one_line
from dbmd.cli._options import in_options
from dbmd.cli._output import print_message, printable_lines
from dbmd.cli._remedies import remedies_in_options
from dbmd.data.address import Secrets
from dbmd.errors import EngineError

# Errors that a user can fix: wrong values, unreadable files, no space, no memory, a missing package, no cluster.
EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError, EngineError)
# How messages on parameters begin.
ABOUT_PARAMETERS = ("The '", 'The "solver_options', "image_shape ", "map_shape ")
# The messages of Python and pyarrow when the system refuses a thread: their exceptions have no class of their own.
NO_THREAD = re.compile("can't start new thread|Failed to launch worker thread")


class Failure(click.ClickException):
    """An error that a user can fix: exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print the sentence; where it cannot be written, the exit code is all there is."""
        with suppress(OSError):
            super().show(file)


class Stopped(BaseException):
    """Raised when a signal, whose number is the argument, asks the process to end."""


# Ctrl-C, a request to end, a terminal that was closed. Windows has no SIGHUP.
STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def on_stops(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle the signals that ask the process to end; those that were ignored before (nohup) stay ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python allows no other thread to do this
        handled = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class FriendlyGroup(click.Group):
    """A group of commands that report errors as sentences, and that all take ``--debug``."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with ``--debug``."""
        cmd.params.append(click.Option(["--debug"], is_flag=True, expose_value=False, callback=_note_debug, help=DEBUG))
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and report an error as a sentence."""
        secrets = Secrets.of(ctx.meta.get(ARGUMENTS, ()))
        try:
            with on_stops(_stop):  # an exception, so that temporary files are removed
                return super().invoke(ctx)
        except (Stopped, KeyboardInterrupt) as stop:  # libraries may have handlers of their own for Ctrl-C
            print_message("\nStopped.")
            raise click.exceptions.Exit(128 + (stop.args or (signal.SIGINT,))[0]) from stop
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            error.message = printable_lines(secrets.removed(error.message))  # type: ignore[misc]  # it keeps its usage
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of the output has closed it: click ends quietly
            if ctx.find_root().meta.get("dbmd.debug"):
                print_message(secrets.removed(traceback.format_exc()).rstrip())
                raise click.exceptions.Exit(1) from error
            message = one_line(secrets.removed(sentence(error)))
            if isinstance(error, EXPECTED) or NO_THREAD.search(str(error)):
                raise Failure(message) from error
            raise click.ClickException(
                f"dbmd itself failed ({type(error).__name__}: {message}). Run it again with --debug and report what it "
                "prints."
            ) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments: messages of libraries may repeat the addresses among them, with their passwords."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


ARGUMENTS = "dbmd.arguments"
DEBUG = "Show the full traceback of an error."


def _stop(number: int, frame: Any) -> None:
    raise Stopped(number)


def _note_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["dbmd.debug"] = True


def sentence(error: BaseException) -> str:
    """Return the message of an error, with the names of options instead of parameters."""
    if isinstance(error, MemoryError):
        return f"Not enough memory. {error} Lower --memory, or fit fewer columns."
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed. Install it with: pip install {error.name}"
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}."
    message = str(error) or type(error).__name__
    if NO_THREAD.search(message):
        return (
            "The system refuses to start another thread: there are as many as it allows. Raise the limit (ulimit -u), "
            "or use fewer (DBMD_NUM_THREADS=1)."
        )
    # Only messages on parameters: others hold names of files and columns, which must not be translated.
    message = in_options(message) if message.startswith(ABOUT_PARAMETERS) else message
    return remedies_in_options(message)
