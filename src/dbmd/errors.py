"""Errors that a user can fix, and how they are worded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbmd._utils.text import one_line

__all__ = ["DataError", "DataWarning", "EngineError"]


class DataError(ValueError):
    """Raised if data cannot be used; the message says where they are wrong, how, and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())  # names of files and columns may hold any character


class DataWarning(UserWarning):
    """Warns of data or a fit that should not be relied on as they are; the message says why, and what to do.

    ``fit_info_["warnings"]`` of a model has the same texts.
    """


class EngineError(RuntimeError):
    """Raised if an engine cannot be started or cannot continue; the message says why, and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, as a part of a sentence."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Replace the ImportError of a missing package by one that says what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise ImportError(
            f"The {what} needs the package {package!r}. Install it with: pip install 'dbmd[{extra}]'"
        ) from error
