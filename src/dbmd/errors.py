"""What a user can put right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbmd._utils.text import one_line

__all__ = ["DataError", "EngineError"]


class DataError(ValueError):
    """The data cannot be used as they are; the message says where, what is wrong, and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())  # it names files and columns, whose names may be anything


class EngineError(RuntimeError):
    """An engine cannot be started, or cannot go on; the message says why, and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


def first_line(error: BaseException) -> str:
    """Return what an error says, as a part of a sentence."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Around imports: if a package is not installed, say what needs it and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise ImportError(
            f"The {what} needs the package {package!r}. Install it with: pip install 'dbmd[{extra}]'"
        ) from error
