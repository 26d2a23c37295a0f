"""Plain numbers and texts of bounded length, for JSON and for a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

NAME, VALUE = 80, 200  # longest texts, in characters: of a name, of anything else
DIGITS = 5  # significant ones: more than a chart or a tooltip shows


def number(value: Any) -> float | None:
    """Return a number rounded to some digits, None if it is missing, infinite or no number."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.{DIGITS}g}")


def numbers(values: ArrayLike) -> list[Any]:
    """Return an array of any shape as nested lists of numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return list(array.tolist())
    return [number(v) if array.ndim == 1 else numbers(v) for v in array]


def clean(value: Any) -> str:
    """Return a text that can be written as utf-8: halves of surrogate pairs cannot."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def text(value: Any, limit: int = NAME) -> str:
    """Return a text of at most ``limit`` characters, on one line, cut in the middle: long names often end differently.

    Examples
    --------
    >>> from dbmd.report.plain import text
    >>> text("a very long name", 10)
    'a ver…name'
    """
    line = clean(value).strip()
    if len(line) > 8 * limit:  # what is cut anyway need not be looked at
        line = line[: 4 * limit] + line[-4 * limit :]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else " " for c in line).strip()
    if len(line) <= limit:
        return line
    end = (limit - 1) // 2
    return f"{line[: limit - 1 - end]}…{line[-end:]}"


def value_text(value: Any) -> str:
    """Return the value of a parameter as text, without memory addresses and long arrays."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float | bool | dict):
        return text(value, VALUE)
    if isinstance(value, list | tuple | np.ndarray):
        array = np.asarray(value)
        return text(value if array.size <= 10 else f"array of shape {array.shape}", VALUE)
    return text(getattr(value, "__name__", type(value).__name__), VALUE)
