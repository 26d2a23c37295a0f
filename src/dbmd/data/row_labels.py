"""How error messages name the rows of a file or of a partition."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class RowLabels(Protocol):
    """Names of rows for error messages. A :class:`~dbmd.data.formats.Reader` is one."""

    @property
    def location(self) -> object:
        """The file or partition; ``str(location)`` is shown."""

    def where(self, row: int) -> str:
        """Return how a person finds a row, given its number from 0."""


class PartitionRows(NamedTuple):
    """Names of the rows of a partition, or of other rows that are not in a file.

    Attributes
    ----------
    location : str
        The partition.
    """

    location: str

    def where(self, row: int) -> str:
        """Return how a person finds a row, given its number from 0."""
        return f"row {row + 1}"
