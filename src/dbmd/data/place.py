"""Where rows come from that are not in a file, for messages."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """As much of a Reader as messages need."""

    location: str

    def where(self, row: int) -> str:
        """Return how a person finds a row, given its number from 0."""
        return f"row {row + 1}"
