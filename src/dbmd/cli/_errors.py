"""What goes wrong, said in one sentence; tracebacks only for those who ask for them."""

from __future__ import annotations

import errno
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from dbmd.cli._options import in_options
from dbmd.cli._talk import lines, say
from dbmd.data.address import Secrets
from dbmd.errors import EngineError
from dbmd.text import sentence

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
        secrets = Secrets.of(ctx.meta.get(ARGUMENTS, ()))
        try:
            with _terminates():
                return super().invoke(ctx)
        except (KeyboardInterrupt, Terminated) as stop:
            click.echo("\nStopped.", err=True)
            raise click.exceptions.Exit(128 + signal_of(stop)) from stop
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            error.message = lines(secrets.removed(error.message))  # type: ignore[misc]  # it keeps its usage
            raise
        except EXPECTED as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # who reads the output has seen enough: click ends quietly
            _show_trace(ctx, secrets)
            raise Failure(sentence(secrets.removed(_sentence(error)))) from error
        except Exception as error:
            _show_trace(ctx, secrets)
            what = sentence(secrets.removed(f"{type(error).__name__}: {_sentence(error)}"))
            raise click.ClickException(
                f"dbmd itself failed ({what}). Run it again with --debug and report what it prints."
            ) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note the arguments: messages of others may repeat the addresses among them."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


ARGUMENTS = "dbmd.arguments"
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


def _show_trace(ctx: click.Context, secrets: Secrets) -> None:
    """Print the traceback of the error at hand and end, if that is asked for."""
    if ctx.find_root().meta.get("dbmd.debug"):
        say(secrets.removed(traceback.format_exc()).rstrip(), err=True)
        raise click.exceptions.Exit(1)


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
    return in_options(message) if message.startswith(("The '", 'The "solver_options')) else message
