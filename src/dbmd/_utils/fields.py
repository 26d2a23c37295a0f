"""Checks of records and arrays that were read from a file, which anyone may have edited."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kind:
    """A requirement on an entry of a record.

    Attributes
    ----------
    description : str
        For messages.
    holds : callable
        Returns whether a value meets it.
    """

    description: str
    holds: Callable[[Any], bool]

    @property
    def or_none(self) -> Kind:
        """The same, or None."""
        return Kind(f"{self.description} or null", lambda value: value is None or self.holds(value))

    @property
    def list(self) -> Kind:
        """A list of such values."""
        return Kind(
            f"a list, each {self.description}", lambda value: isinstance(value, list) and all(map(self.holds, value))
        )

    @property
    def map(self) -> Kind:
        """A dict of such values."""
        return Kind(
            f"an object, each entry {self.description}",
            lambda value: isinstance(value, dict) and all(map(self.holds, value.values())),
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    largest = sys.float_info.max  # an int may be larger than any float
    return isinstance(value, int | float) and not isinstance(value, bool) and -largest <= value <= largest


TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a finite number", _is_number)
POSITIVE = Kind("a number > 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = Kind("a number >= 0", lambda value: _is_number(value) and value >= 0)
COUNT = Kind("a whole number >= 0", lambda value: _is_int(value) and 0 <= value < 2**63)
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
NAME = Kind("a name or a number", lambda value: isinstance(value, str | bool) or _is_number(value))


def check_fields(
    record: Mapping[str, Any], kinds: Mapping[str, Kind], where: str = "", optional: Collection[str] = ()
) -> None:
    """Raise a ValueError that names the first entry of a record that is missing or wrong.

    Parameters
    ----------
    record : dict
        The record.
    kinds : dict of str to Kind
        The requirement on each entry. There may be other entries.
    where : str
        Prefix of the names in the message.
    optional : collection of str
        Entries that may be missing.
    """
    for name, kind in kinds.items():
        if name not in record:
            if name not in optional:
                raise ValueError(f"{where}{name} is missing")
        elif not kind.holds(record[name]):
            raise ValueError(f"{where}{name} must be {kind.description} and is {reprlib.repr(record[name])}")


def check_known(record: Mapping[str, Any], names: Collection[str], where: str) -> None:
    """Raise a ValueError that names the first entry of a record that is not among some names."""
    for name in record:
        if name not in names:
            raise ValueError(f"{where} has an entry {reprlib.repr(name)}, which is not known")


def check_array(name: str, array: Any, shape: tuple[int, ...], kinds: str = "f", *, least: float = -np.inf) -> None:
    """Raise a ValueError if an array has another shape or type, or values that are not allowed.

    Parameters
    ----------
    name : str
        Its name, for the message.
    array : array
        The array.
    shape : tuple of int
        The required shape.
    kinds : str
        The allowed kinds of types, as in ``dtype.kind``.
    least : float
        The smallest value that is allowed. All must be finite.
    """
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} and has {array.shape}")
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} must hold {'numbers' if 'f' in kinds else 'whole numbers'} and is of {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers")
    if array.size and array.min() < least:
        allowed = "positive numbers" if least > 0 else "no negative numbers"
        raise ValueError(f"{name} must hold {allowed} and has {array.min()}")
