"""What goes wrong, said in one sentence; tracebacks only for those who ask for them."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dbmd.cli._options import in_options
from dbmd.errors import EngineError

# What a user can put right: wrong values, unreadable files, no space, no memory, a missing package, no cluster.
EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError, EngineError)


class Failure(click.ClickException):
    """An error that a user can do something about: exit code 2."""

    exit_code = 2


class Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


class FriendlyGroup(click.Group):
    """A group of commands whose errors are sentences, and which all take ``--debug``."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with ``--debug``."""
        cmd.params.append(click.Option(["--debug"], is_flag=True, expose_value=False, callback=_note_debug, help=DEBUG))
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; say in a sentence what went wrong."""
        try:
            with _terminates():
                return super().invoke(ctx)
        except (KeyboardInterrupt, Terminated) as stop:
            click.echo("\nStopped.", err=True)
            raise click.exceptions.Exit(128 + signal_of(stop)) from stop
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except EXPECTED as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # who reads the output has seen enough: click ends quietly
            if ctx.find_root().meta.get("dbmd.debug"):
                raise
            raise Failure(_sentence(error)) from error
        except Exception as error:
            if ctx.find_root().meta.get("dbmd.debug"):
                raise
            kind = type(error).__name__
            raise click.ClickException(
                f"dbmd itself failed ({kind}: {_sentence(error)}). Run it again with --debug and report what it prints."
            ) from error


DEBUG = "Show the full traceback of an error."


def signal_of(stop: BaseException) -> int:
    """Return the number of the signal that an exception stands for."""
    return int(signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def _terminates() -> Iterator[None]:
    """Let SIGTERM be an exception, so that temporary files are removed."""

    def terminate(number: int, frame: Any) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread alone
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _note_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["dbmd.debug"] = True


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"Not enough memory. {error} Lower --memory, or fit fewer columns."
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed. Install it with: pip install {error.name}"
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}."
    message = str(error) or type(error).__name__
    # Wrong values of parameters; what else is said has names of files and columns, which stay as they are.
    return in_options(message) if message.startswith("The '") else message
