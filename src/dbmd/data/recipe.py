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
from dbmd.data.options import EACH_FILE
from dbmd.data.row_labels import RowLabels
from dbmd.data.weights import weights_in
from dbmd.errors import DataError


@dataclass(frozen=True)
class Selection:
    """Which columns of files are read, and as what. Known before any row is read.

    Attributes
    ----------
    columns : tuple of str
        Columns that are features as they are.
    encode : tuple of str
        Columns to one-hot code; these features come after the others.
    source, label : str, optional
        Columns with the source and the known class of each sample; source may be ``EACH_FILE``.
    file_sources : dict of str to str
        The name of the source for each file, if source is ``EACH_FILE``.
    keep : tuple of str
        Columns to copy to the output.
    sample_weight : str, optional
        Column with the weight of each sample.
    """

    columns: tuple[str, ...]
    encode: tuple[str, ...] = ()
    source: str | None = None
    label: str | None = None
    file_sources: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    sample_weight: str | None = None

    @property
    def coded(self) -> tuple[str, ...]:
        """Columns whose distinct values are numbered: sources, labels and categories, each once."""
        named = (*self.encode, None if self.source == EACH_FILE else self.source, self.label)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def others(self) -> tuple[str, ...]:
        """Columns whose values are needed although they are no features as they are, each once."""
        return tuple(dict.fromkeys((*self.coded, *(() if self.sample_weight is None else (self.sample_weight,)))))


@dataclass(frozen=True)
class Recipe:
    """How the columns of a file become samples. It needs the values of all rows: see :func:`.columns.make_recipe`.

    Attributes
    ----------
    selection : Selection
        The columns.
    categories : dict of str to array
        The categories of each column to one-hot code, in order.
    source_names, class_names : array, optional
        Names of all sources and classes in order; codes are indices into them. None without a source or a label.
    """

    selection: Selection
    categories: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source_names: NDArray[Any] | None = None
    class_names: NDArray[Any] | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in order."""
        encoded = (f"{name}={value}" for name, values in self.categories.items() for value in values)
        return [*self.selection.columns, *encoded]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.selection.columns) + sum(map(len, self.categories.values()))

    def window(self, batch: Batch, reader: Reader, row: int, first: int) -> Window:
        """Return a batch as a window of a block.

        Parameters
        ----------
        batch : Batch
            The rows.
        reader : Reader
            The file they are from.
        row : int
            Number of the first of them in the file, for error messages.
        first : int
            Number of the first of them in the block.
        """
        Xt, selection = batch.Xt, self.selection
        if self.categories:
            parts = [self._one_hot(batch, reader, row, name, sparse.issparse(Xt)) for name in self.categories]
            Xt = sparse.csr_array(sparse.hstack([Xt, *parts])) if sparse.issparse(Xt) else np.hstack([Xt, *parts])
        source_codes: NDArray[np.intp] | int = 0
        if self.source_names is not None and selection.source == EACH_FILE:
            name = selection.file_sources[str(reader.location)]
            source_codes = int(np.flatnonzero(self.source_names == name)[0])
        elif self.source_names is not None and selection.source is not None:
            source = selection.source
            source_codes = codes_among(batch.others[source], self.source_names, reader, row, source)
        class_codes = None
        if selection.label is not None and self.class_names is not None:
            class_codes = codes_among(batch.others[selection.label], self.class_names, reader, row, selection.label)
        weights = None
        if selection.sample_weight is not None:
            weights = weights_in(batch.others[selection.sample_weight], reader, row, selection.sample_weight)
        extra = {name: batch.others[name] for name in selection.keep}
        return Window(first, Xt, source_codes, class_codes, extra, weights)

    def _one_hot(self, batch: Batch, reader: Reader, row: int, name: str, as_sparse: bool) -> Any:
        values, codes = distinct(batch.others[name], reader, row, name)
        categories = self.categories[name].tolist()
        values = as_names(values, self.categories[name])
        # A category that the model does not know is coded as all zeros.
        column = np.array([categories.index(value) if value in categories else -1 for value in values], np.intp)
        hot = column[codes]
        known = np.flatnonzero(hot >= 0)
        if as_sparse:
            ones = np.ones(len(known), batch.Xt.dtype)
            return sparse.csr_array((ones, (known, hot[known])), shape=(len(hot), len(categories)))
        out = np.zeros((len(hot), len(categories)), batch.Xt.dtype, order="F")
        out[known, hot[known]] = 1
        return out


def distinct(column: Any, labels: RowLabels, row: int, name: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Return the distinct values of a column of Arrow, and for each row the index of its value.

    Raises a DataError that names the first row without a value.

    Parameters
    ----------
    column : pyarrow.Array of length n
        The column.
    labels : RowLabels
        How error messages name the rows.
    row : int
        Number of the first row, for error messages.
    name : str
        Name of the column, for error messages.

    Returns
    -------
    list
        The distinct values.
    array of int of shape (n,)
        For each row the index of its value.
    """
    import pyarrow as pa

    wrong = DataError(
        f"{labels.location}: column {name!r} must have a name or a number in each row to tell rows apart by. "
        f"Got a column of {column.type}."
    )
    try:
        if pa.types.is_float16(column.type):  # which old versions of Arrow neither encode nor cast
            column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
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
            raise DataError(f"{labels.location}: {labels.where(row + int(missing[0]))}, column {name!r} is empty.")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return [_plain(value) for value in values], codes


def codes_among(column: Any, names: NDArray[Any], labels: RowLabels, row: int, name: str) -> NDArray[np.intp]:
    """Return for each row of a column the index of its value in sorted names, shape (n,); see :func:`distinct`."""
    values, codes = distinct(column, labels, row, name)
    values = as_names(values, names)
    index = np.searchsorted(names, np.array(values, dtype=names.dtype)) if values else np.zeros(0, np.intp)
    return index.astype(np.intp)[codes]


def as_names(values: list[Any], names: NDArray[Any]) -> list[Any]:
    """Return values of a column as names have them: text from a csv file may stand for whole numbers."""
    if names.dtype.kind == "U" or any(isinstance(name, str) for name in names[:1].tolist()):
        return values
    return [int(value) if isinstance(value, str) and _is_whole(value) else value for value in values]


def sorted_names(values: set[Any], what: str, *, as_they_are: bool = False) -> NDArray[Any]:
    """Return the names of sources or classes in order.

    Parameters
    ----------
    values : set
        The names.
    what : str
        What they are names of, for error messages.
    as_they_are : bool
        Whether text stays text. By default, text that is a whole number becomes one if all text is.
    """
    texts = {value for value in values if isinstance(value, str)}
    if not as_they_are and all(_is_whole(text) for text in texts):
        values = (values - texts) | {int(text) for text in texts}
    kinds = {type(value) for value in values}
    if len(kinds) > 1 and not kinds <= {int, float, bool}:
        shown = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(f"The {what} must be of one kind in all files. Got {shown}.")
    return as_array(sorted(values))


def as_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array of the type that NumPy chooses, or of objects if that type would merge some of them.

    It makes floating-point numbers of -1 and 2^63, and text that ends in NUL ends before it.
    """
    array = np.array(values)
    return array if array.tolist() == list(values) else np.array(values, dtype=object)


def _plain(value: Any) -> Any:
    """Return a number or text; dates and the like as text."""
    return value if isinstance(value, bool | int | float | str) else str(value)


def _is_whole(text: str) -> bool:
    return len(text) <= 1000 and text.removeprefix("-").isdecimal() and str(int(text)) == text  # Python has a limit
