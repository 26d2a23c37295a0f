"""Choosing the columns of files that are fitted together: features, source, label, weight, categories."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dbmd.data.block import float_type
from dbmd.data.files import names_of_files
from dbmd.data.formats import Reader
from dbmd.data.formats._reader import first_twice
from dbmd.data.options import EACH_FILE, ColumnOptions
from dbmd.data.recipe import Recipe, Selection, as_array, sorted_names
from dbmd.data.scan import Scan, check_categories
from dbmd.errors import DataError

MOST_LISTED = 20  # names of columns in a message
MOST_SOURCES = 10_000


def select_columns(readers: Sequence[Reader], options: ColumnOptions) -> tuple[Selection, list[np.dtype[Any]]]:
    """Return the columns to read, and the types of those that are features as they are."""
    kinds = _common_columns(readers)
    columns, drop, encode = options.columns, options.drop, tuple(dict.fromkeys(options.encode))
    _check_names(readers[0], kinds, [*(columns or ()), *drop, *encode], annotations=False)
    roles = (options.source, options.label, options.sample_weight)
    named = [name for name in roles if name is not None and name != EACH_FILE]
    for reader in readers:
        _check_names(reader, kinds, [*named, *options.keep], annotations=True)
    _check_annotations(readers, named)
    # Rows may be annotated under the name of a feature, which is one all the same.
    left_out = {*drop, *encode, *(name for name in named if name not in readers[0].annotations)}
    _check_chosen(str(readers[0].location), columns or (), left_out)
    left = {*readers[0].index}
    usual = [name for name in kinds if name not in left]
    chosen = tuple(name for name in (columns if columns is not None else usual) if name not in left_out)
    _check_numbers(readers, kinds, chosen)
    if not chosen and not encode:
        raise DataError(f"{readers[0].location}: no columns are left to fit.")
    selection = Selection(
        chosen,
        encode,
        options.source,
        options.label,
        names_of_files(readers) if options.source == EACH_FILE else {},
        tuple(options.keep),
        options.sample_weight,
    )
    return selection, [kind for kind in (kinds[name] for name in chosen) if kind is not None]


def select_frame_columns(
    kinds: Mapping[str, str], options: ColumnOptions, what: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of a DataFrame that are features, and all that are needed.

    Parameters
    ----------
    kinds : dict of str to str
        For each column "number", "vector", or the name of its type.
    options : ColumnOptions
        The user's choice.
    what : str
        The DataFrame, for error messages.
    """
    others = tuple(name for name in (options.source, options.label, options.sample_weight) if name is not None)
    for name in (*(options.columns or ()), *options.drop, *others):
        check_known(name, list(kinds), what)
    columns = options.columns
    if columns is None:
        left = [name for name in kinds if name not in (*options.drop, *others)]
        vectors = [name for name in left if kinds[name] == "vector"]
        columns = vectors if len(vectors) == 1 else left
    _check_chosen(what, columns, {*options.drop, *others})
    text = [name for name in columns if kinds[name] not in ("number", "vector")]
    if text:
        raise DataError(
            f"{what}: column {text[0]!r} does not hold numbers ({kinds[text[0]]}). Name the features in columns=, or "
            "what is none in drop=."
        )
    if not columns:
        raise DataError(f"{what}: no columns are left to fit.")
    return tuple(columns), tuple(dict.fromkeys([*columns, *others]))


def make_recipe(selection: Selection, found: Scan, given: Mapping[str, Sequence[Any]], where: str) -> Recipe:
    """Return how the selected columns become samples.

    Parameters
    ----------
    selection : Selection
        The columns.
    found : Scan
        The values of all rows.
    given : dict of str to sequence
        Categories that the user chose; those of other columns are the values that were found.
    where : str
        The first file, for error messages.
    """
    names = {name: set(counts) for name, counts in found.values.items()}
    categories, taken = {}, set(selection.columns)
    for name in selection.encode:
        check_categories(found.values[name], where, name)
        if name in given:
            categories[name] = as_array(list(given[name]))
        else:
            categories[name] = sorted_names(names[name], f"values of column {name!r}")
        for feature in (f"{name}={value}" for value in categories[name].tolist()):
            if feature in taken:
                raise DataError(
                    f"{where}: encoding {name!r} gives a feature {feature!r}, and there is a column of that name. "
                    f"Rename the column, or leave it out (drop={[feature]})."
                )
    sources = None
    if selection.file_sources:
        sources = np.array(sorted(selection.file_sources.values()))
    elif selection.source is not None:
        sources = sorted_names(names[selection.source], "names of sources")
    if sources is not None:
        check_n_sources(len(sources), f"{where}: column {selection.source!r}")
    classes = None if selection.label is None else sorted_names(names[selection.label], "labels")
    return Recipe(selection, categories, sources, classes)


def check_n_sources(n: int, what: str) -> None:
    """Raise a DataError if there are so many sources that they are hardly meant as sources."""
    if n > MOST_SOURCES:
        raise DataError(
            f"{what} names {n:,} sources, more than {MOST_SOURCES:,}. "
            "Each has a noise level of its own, so it must have many rows: is this an id?"
        )


def _common_columns(readers: Sequence[Reader]) -> dict[str, np.dtype[Any] | None]:
    """Return the columns that all files have, each with a type that holds those of all."""
    first = readers[0]
    kinds = dict(first.columns)
    for reader in readers[1:]:
        missing = [name for name in kinds if name not in reader.columns]
        extra = [name for name in reader.columns if name not in kinds]
        if missing or extra:
            what = f"lacks {_listed(missing)}" if missing else f"also has {_listed(extra)}"
            raise DataError(f"{reader.location}: {what}. All files must have the columns of {first.location}.")
        for name, kind in reader.columns.items():
            mine = kinds[name]
            kinds[name] = None if mine is None or kind is None else np.result_type(mine, kind)
    return kinds


def _check_names(reader: Reader, kinds: Mapping[str, Any], names: Iterable[str], *, annotations: bool) -> None:
    """Raise a DataError if there is no such column; sources and labels may also be annotations."""
    # In the mapping first: there may be thousands of names, and tens of thousands of genes.
    lacking = [name for name in names if name not in kinds]
    if not annotations and len(lacking) > 1:
        raise DataError(f"{reader.location}: has no columns {_listed(lacking)}.")
    for name in lacking:
        if not annotations:
            check_known(name, list(kinds), str(reader.location))
        elif name != reader.row_names:
            check_known(name, [*reader.annotations, *kinds], str(reader.location), obs=reader.annotations)


def check_known(name: str, known: Sequence[str], what: str, *, obs: Sequence[str] = ()) -> None:
    """Raise a DataError if there is no such column. It lists the annotations of rows, if any, rather than genes."""
    if name not in known:
        near = difflib.get_close_matches(name, known, 3)
        hint = f"Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        if obs or not near:
            hint += f" obs has {_listed(obs, MOST_LISTED)}." if obs else f"It has {_listed(known, MOST_LISTED)}."
        raise DataError(f"{what}: has no column {name!r}. {hint.strip()}")


def _check_annotations(readers: Sequence[Reader], names: Iterable[str]) -> None:
    """Raise a DataError if a name is an annotation in one file and a feature in another."""
    for name in names:
        has = {name in reader.annotations: reader.location for reader in readers}
        if len(has) > 1:
            raise DataError(f"{has[False]}: has {name!r} as a feature, and {has[True]} as an annotation of its rows.")


def _check_chosen(what: str, columns: Sequence[str], left_out: Container[str]) -> None:
    """Raise a DataError if a column is asked for twice, or as a feature and as something else."""
    if (twice := first_twice(columns)) is not None:
        raise DataError(f"{what}: column {twice!r} is asked for twice.")
    for name in columns:
        if name in left_out:
            raise DataError(
                f"{what}: column {name!r} is asked for as a feature, and also as source, label, weight, or "
                "to be encoded or left out. It can be only one of them."
            )


def _check_numbers(readers: Sequence[Reader], kinds: Mapping[str, Any], chosen: Sequence[str]) -> None:
    """Raise a DataError if a column that was chosen does not hold numbers."""
    text = [name for name in chosen if kinds[name] is None]
    if not text:
        return
    reader = next(reader for reader in readers if reader.columns[text[0]] is None)
    example = reader.not_a_number(text[0])
    what = f"column {text[0]!r} does not hold numbers" if len(text) == 1 else f"columns {_listed(text)} hold no numbers"
    raise DataError(
        f"{reader.location}: {what}{f' ({example})' if example else ''}. Leave out what is no feature "
        f"(drop={text[:5]}), or one-hot code it (encode={text[:1]})."
    )


def computing_type(types: Sequence[np.dtype[Any]], asked: DTypeLike | None) -> np.dtype[Any]:
    """Return the type to compute with: the one asked for, or the narrowest that holds numbers of all types."""
    if asked is None:
        return float_type(np.result_type(*types)) if types else np.dtype(np.float32)
    dtype = np.dtype(asked)
    if dtype not in (np.float32, np.float64):
        raise DataError(f"The type to compute with must be float32 or float64. Got {dtype}.")
    return dtype


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
