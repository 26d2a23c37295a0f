"""File formats: one module each, found by the ending of the name of a file.

What a module must offer is said by :class:`dbmd.protocols.Format` and :class:`Reader`. The conformance suite in
``tests/data/formats`` tests every format that it finds here, on files that ``tests/tables.py`` writes.
"""

from __future__ import annotations

from typing import Any

from dbmd.data import compression
from dbmd.data.formats._reader import Batch, Reader, as_data_error, batch_rows
from dbmd.data.formats._transposed import transposed
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError
from dbmd.registry import load_format, names

__all__ = ["Batch", "Reader", "batch_rows", "endings", "format_of", "open_reader", "suffixes"]

KIND = "data.formats"


def suffixes() -> dict[str, str]:
    """Return the name of the format for every known ending of a file name."""
    return {suffix: name for name in names(KIND) for suffix in load_format(name).SUFFIXES}


def format_of(location: Location) -> str | None:
    """Return the name of the format of a file, None if its ending is unknown."""
    name = location.name.lower()
    return next((kind for suffix, kind in suffixes().items() if name.endswith(suffix)), None)


def endings() -> str:
    """Return the known endings of file names in words."""
    plain = sorted(suffix for suffix in suffixes() if not suffix.endswith(compression.SUFFIXES))
    return f"{', '.join(plain)} (text also with {', '.join(compression.SUFFIXES)})"


def open_reader(location: Location, *, transpose: bool = False, memory: int = DEFAULT_MEMORY, **hints: Any) -> Reader:
    """Open a file.

    Parameters
    ----------
    location : Location
        The file.
    transpose : bool
        Whether the file has features in rows and samples in columns.
    memory : int
        Bytes that limit what a file may claim to hold.
    **hints
        What is not in the file itself: ``header`` and ``delimiter`` of csv, ``layer``, ``obsm`` and ``hvg`` of h5ad,
        ``memory`` in bytes. A format ignores the others.
    """
    kind = format_of(location)
    if kind is None:
        raise DataError(f"{location}: no known format. Names of files must end in one of {endings()}.")
    stamp = location.stamp()
    with as_data_error(location, kind):
        reader = load_format(kind).open_file(location, transpose=transpose, memory=memory, **hints)
    reader.kind, reader.stamp = kind, stamp
    return transposed(reader, memory) if transpose and not reader.is_transposed else reader
