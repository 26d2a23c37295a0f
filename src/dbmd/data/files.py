"""Opening files that are to be fitted together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbmd.data.address import shown
from dbmd.data.formats import Reader, endings, format_of, open_reader
from dbmd.data.formats._tenx import MATRIX, without_names
from dbmd.data.location import Location, locate
from dbmd.errors import DataError

# Hints that mean nothing to other formats than h5ad.
OF_CELLS = {"layer": "layers", "obsm": "obsm", "hvg": "highly variable genes"}
# In a folder, these are mostly notes on the data, or something else in HDF5.
NAMED_ONLY = re.compile(r"\.(txt(\.\w+)?|h5)$", re.IGNORECASE)


def open_readers(paths: Sequence[str | Path], **hints: Any) -> list[Reader]:
    """Return readers of files, and of all files of a known format in folders, except .txt and .h5."""
    locations: list[Location] = []
    for path in paths:
        found = locate(path)
        if len(found) > 1 or str(found[0]) != shown(path):  # a folder, in which files of other formats are ignored
            known = [location for location in found if format_of(location) and not NAMED_ONLY.search(location.name)]
            if not known:
                raise DataError(f"{shown(path)}: the folder has no file that ends in one of {endings()}.")
            found = without_names(known)
        locations += found
    if not locations:
        raise DataError("No files were given.")
    files = [location.local.resolve() if location.local else location.path for location in locations]
    if len(set(files)) < len(files):
        twice = next(location for location, file in zip(locations, files, strict=True) if files.count(file) > 1)
        raise DataError(f"{twice}: is given twice.")
    locations = _with_distinct_names(locations)
    readers = [open_reader(location, **hints) for location in locations]
    asked, other = [name for name in OF_CELLS if hints.get(name)], [each for each in readers if each.kind != "h5ad"]
    if asked and other:
        raise DataError(f"{other[0].location}: only h5ad files have {OF_CELLS[asked[0]]}.")
    if len({reader.sparse for reader in readers}) > 1:
        dense = next(reader for reader in readers if not reader.sparse)
        thin = next(reader for reader in readers if reader.sparse)
        raise DataError(f"{dense.location} is dense and {thin.location} is sparse: fit one kind at a time.")
    return readers


def _with_distinct_names(locations: Sequence[Location]) -> list[Location]:
    """Return locations with a number after a name that is shown more than once: only their queries differ."""
    distinct: list[Location] = []
    count: Counter[str] = Counter()
    for location in locations:
        count[location.shown] += 1
        number = count[location.shown]
        distinct.append(location if number == 1 else replace(location, shown=f"{location.shown} ({number})"))
    return distinct


def names_of_files(readers: Sequence[Reader]) -> dict[str, str]:
    """Return a name for each file: the last part of its path if these are distinct, else the whole path.

    A matrix of 10x, which is always called the same, is named as its folder.
    """
    short = [_name(reader.location) for reader in readers]
    names = short if len(set(short)) == len(short) else [str(reader.location) for reader in readers]
    return {str(reader.location): name for reader, name in zip(readers, names, strict=True)}


def _name(location: Location) -> str:
    found = MATRIX.fullmatch(location.name)
    folder = str(location).rpartition("/")[0].rpartition("/")[2]
    return folder if found is not None and not found["sample"] and folder else location.name
