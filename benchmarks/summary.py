"""Medians of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.plan import Record


def measured(content: dict[str, Any] | None) -> list[Record]:
    """Return the records of a part that did not fail; none if it was not measured."""
    return [record for record in (content or {}).get("records", ()) if "failed" not in record]


def select(records: Iterable[Record], **values: Any) -> list[Record]:
    """Return the records that have these values."""
    return [record for record in records if all(record.get(key) == value for key, value in values.items())]


def median(records: Iterable[Record], key: str) -> float | None:
    """Return the median of an entry over repetitions; None if none has it."""
    found = [record[key] for record in records if record.get(key) is not None]
    return statistics.median(found) if found else None


def ratio(one: float | None, other: float | None) -> float | None:
    """Return one over the other, if both are known."""
    return one / other if one is not None and other else None


def distinct(records: Iterable[Record], key: str) -> list[Any]:
    """Return the values of an entry, each once, in the order in which they come."""
    return list(dict.fromkeys(record.get(key) for record in records))


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for a table, with so many significant digits, thousands in full; a dash for none."""
    if value is None:
        return "-"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def table(*rows: list[str]) -> Iterator[str]:
    """Yield the lines of a table; the first row is its head."""
    for place, row in enumerate(rows):
        yield f"| {' | '.join(entry.replace('|', '&#124;') for entry in row)} |"
        if place == 0:
            yield "|" + "---|" * len(row)
