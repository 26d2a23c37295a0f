"""Folders of 10x Genomics: a matrix of features x barcodes, with their names in files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dbmd.data.compression import SUFFIXES, open_decompressed
from dbmd.data.location import Location
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.errors import DataError

# Public archives put the name of a sample before each: GSM123_matrix.mtx.gz, GSM123_barcodes.tsv.gz.
PACKED = "|".join(re.escape(suffix) for suffix in SUFFIXES)
MATRIX = re.compile(rf"(?P<sample>.*?)matrix\.mtx(?:{PACKED})?", re.IGNORECASE)
NAMES = re.compile(rf"(?P<sample>.*?)(?:barcodes|features|genes)\.tsv(?:{PACKED})?", re.IGNORECASE)
GENES = "Gene Expression"  # the type of features that are genes


class TenX(NamedTuple):
    """Names of the rows and columns of a matrix of 10x.

    Attributes
    ----------
    barcodes : list of str
        Names of the samples.
    features : list of str
        Names of the features, each once.
    other_types : tuple of str
        Those that are not genes, if some are: antibodies, peaks.
    """

    barcodes: list[str]
    features: list[str]
    other_types: tuple[str, ...]


def without_names(locations: Sequence[Location]) -> list[Location]:
    """Return files without those that hold the names of a matrix of 10x in the same folder."""
    matrices = {
        (location.path.rpartition("/")[0], found["sample"])
        for location in locations
        if (found := MATRIX.fullmatch(location.name)) is not None
    }
    kept = []
    for location in locations:
        found = NAMES.fullmatch(location.name)
        if found is None or (location.path.rpartition("/")[0], found["sample"]) not in matrices:
            kept.append(location)
    return kept


def find_names(location: Location, memory: int) -> TenX | None:
    """Return the names beside a matrix of 10x; None if it is another, or there are none.

    Parameters
    ----------
    location : Location
        The matrix.
    memory : int
        Bytes that the names may take.
    """
    found = MATRIX.fullmatch(location.name)
    if found is None:
        return None
    sample = found["sample"]
    barcodes = _beside(location, [f"{sample}barcodes.tsv"])
    features = _beside(location, [f"{sample}features.tsv", f"{sample}genes.tsv"])
    if barcodes is None and features is None:
        return None
    if barcodes is None or features is None:
        lacks, has = ("barcodes.tsv", features) if barcodes is None else ("features.tsv or genes.tsv", barcodes)
        raise DataError(
            f"{location}: has {has} beside it, but no {sample}{lacks}. 10x writes both: copy the whole folder."
        )
    rows = [line.split("\t") for line in _lines(features, memory)]
    names = unique([row[1] if len(row) > 1 else row[0] for row in rows])
    types = [row[2] if len(row) > 2 else GENES for row in rows]
    others = tuple(name for name, kind in zip(names, types, strict=True) if kind != GENES)
    return TenX(
        [line.split("\t")[0] for line in _lines(barcodes, memory)],
        names,
        others if len(others) < len(names) else (),
    )


def unique(names: Sequence[str]) -> list[str]:
    """Return names of which those that occur again have a number behind them, as scanpy does it: a, a-1, a-2."""
    count = dict.fromkeys(names, 0)
    taken, found = {*names}, []
    for name in names:
        new = name
        while count[name] and new in taken:
            new, count[name] = f"{name}-{count[name]}", count[name] + 1
        count[name] = count[name] or 1
        taken.add(new)
        found.append(new)
    return found


def _beside(location: Location, names: Iterable[str]) -> Location | None:
    places = (location.beside(name + suffix) for name in names for suffix in (".gz", "", *SUFFIXES[1:]))
    return next((place for place in places if place is not None), None)


def _lines(location: Location, memory: int) -> list[str]:
    most = max(memory, DEFAULT_MEMORY)
    try:
        with open_decompressed(location) as stream:
            data = bytes(stream.read(most + 1))
    except OSError as error:
        raise DataError(f"{location}: cannot be read ({error}).") from error
    if len(data) > most:
        raise DataError(f"{location}: holds more than the {most:,} bytes that names may take. Is this another file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{location}: is not text in UTF-8.") from None
    return [line for line in text.replace("\r\n", "\n").split("\n") if line]
