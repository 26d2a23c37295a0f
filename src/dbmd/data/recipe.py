"""How the columns of a file become samples, sources and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.data.block import Window
from dbmd.data.formats import Batch, Reader
from dbmd.data.place import Place
from dbmd.errors import DataError

EACH_FILE = "@file"  # as the name of the source column: every file is a source of its own


@dataclass(frozen=True)
class Recipe:
    """What to do with the columns of a file.

    Attributes
    ----------
    columns : tuple of str
        Columns that are features as they are.
    encoded : dict of str to array
        Columns that are one-hot coded, with their categories in order; these features come after the others.
    source, label : str, optional
        Columns with the source and the known class of each sample; source may be "@file".
    files : dict of str to str
        What a file is called as a source, if each is one.
    source_names, classes : array, optional
        The names of all sources and classes, in order: their numbers are places in it.
    keep : tuple of str
        Columns to hand through as they are.
    """

    columns: tuple[str, ...]
    encoded: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str | None = None
    label: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    source_names: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    keep: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are no features as they are, but whose values matter."""
        named = (*self.encoded, None if self.source == EACH_FILE else self.source, self.label)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in order."""
        return [*self.columns, *(f"{name}={value}" for name, values in self.encoded.items() for value in values)]

    def window(self, batch: Batch, reader: Reader, row: int, first: int) -> Window:
        """Return a batch as a window of a block.

        Parameters
        ----------
        batch : Batch
            The rows.
        reader : Reader
            Where they come from.
        row : int
            Number of the first of them in the file: for messages.
        first : int
            Number of the first of them in the block.
        """
        Xt = batch.Xt
        if self.encoded:
            parts = [self._one_hot(batch, reader, row, name, sparse.issparse(Xt)) for name in self.encoded]
            Xt = sparse.csr_array(sparse.hstack([Xt, *parts])) if sparse.issparse(Xt) else np.hstack([Xt, *parts])
        source_codes: NDArray[np.intp] | int = 0
        if self.source == EACH_FILE and self.source_names is not None:
            source_codes = int(np.flatnonzero(self.source_names == self.files[str(reader.location)])[0])
        elif self.source is not None and self.source_names is not None:
            source_codes = numbers(batch.others[self.source], self.source_names, reader, row, self.source)
        classes = None
        if self.label is not None and self.classes is not None:
            classes = numbers(batch.others[self.label], self.classes, reader, row, self.label)
        return Window(first, Xt, source_codes, classes, {name: batch.others[name] for name in self.keep})

    def _one_hot(self, batch: Batch, reader: Reader, row: int, name: str, as_sparse: bool) -> Any:
        values, codes = distinct(batch.others[name], reader, row, name)
        categories = self.encoded[name].tolist()
        values = as_named(values, self.encoded[name])
        # A category that was not known when the model was made is none of those that were: all zeros.
        place = np.array([categories.index(value) if value in categories else -1 for value in values], np.intp)
        hot = place[codes]
        known = np.flatnonzero(hot >= 0)
        if as_sparse:
            ones = np.ones(len(known), batch.Xt.dtype)
            return sparse.csr_array((ones, (known, hot[known])), shape=(len(hot), len(categories)))
        out = np.zeros((len(hot), len(categories)), batch.Xt.dtype, order="F")
        out[known, hot[known]] = 1
        return out


def distinct(column: Any, reader: Reader | Place, row: int, name: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the different values of a column of Arrow, and for each row which it has."""
    import pyarrow as pa

    wrong = DataError(
        f"{reader.location}: column {name!r} must have a name or a number in each row to tell rows apart by. "
        f"Got a column of {column.type}."
    )
    try:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as error:  # lists, or dates that Python has not
        raise wrong from error
    if pa.types.is_nested(encoded.type.value_type):  # lists that were encoded already
        raise wrong
    is_missing = np.array([value is None or value != value or value == "" for value in values], bool)
    if encoded.null_count or is_missing.any():
        codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        missing = np.flatnonzero(np.append(is_missing, True)[codes])
        if len(missing):
            raise DataError(f"{reader.location}: {reader.where(row + int(missing[0]))}, column {name!r} is empty.")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return [_plain(value) for value in values], codes


def numbers(column: Any, names: NDArray[Any], reader: Reader, row: int, column_name: str) -> NDArray[np.intp]:
    """Return for each row the place of its value among sorted names."""
    values, codes = distinct(column, reader, row, column_name)
    values = as_named(values, names)
    place = np.searchsorted(names, np.array(values, dtype=names.dtype)) if values else np.zeros(0, np.intp)
    return place.astype(np.intp)[codes]


def as_named(values: list[Any], names: NDArray[Any]) -> list[Any]:
    """Return values of a column as they are named: text from a csv file may stand for whole numbers."""
    if names.dtype.kind == "U" or any(isinstance(name, str) for name in names[:1].tolist()):
        return values
    return [int(value) if isinstance(value, str) and _is_whole(value) else value for value in values]


def sorted_names(values: set[Any], what: str, *, as_they_are: bool = False) -> NDArray[Any]:
    """Return the names of sources or classes in order; whole numbers that came as text become numbers, unless told."""
    texts = {value for value in values if isinstance(value, str)}
    if not as_they_are and all(_is_whole(text) for text in texts):
        values = (values - texts) | {int(text) for text in texts}
    kinds = {type(value) for value in values}
    if len(kinds) > 1 and not kinds <= {int, float, bool}:
        shown = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(f"The {what} must be of one kind in all files. Got {shown}.")
    return as_array(sorted(values))


def as_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array of the type that NumPy gives them; as objects if it would not tell all of them apart.

    It makes floating-point numbers of -1 and 2^63, and text that ends in NUL ends before it.
    """
    array = np.array(values)
    return array if array.tolist() == list(values) else np.array(values, dtype=object)


def _plain(value: Any) -> Any:
    """Return a number or text; dates and the like as text."""
    return value if isinstance(value, bool | int | float | str) else str(value)


def _is_whole(text: str) -> bool:
    return len(text) <= 1000 and text.removeprefix("-").isdecimal() and str(int(text)) == text  # Python has a limit
