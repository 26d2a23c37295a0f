"""The command ``dbmd``, also as ``python -m dbmd``: what must hold before anything heavy is imported."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line."""
    # Python's own handler would end the imports with a traceback; the command sets one that does not.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_what_is_closed()

    from dbmd.cli import main as command

    command()


def _open_what_is_closed() -> None:
    """Let closed standard streams (``2>&-``) lead nowhere, or the next file that is opened would get their messages."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
