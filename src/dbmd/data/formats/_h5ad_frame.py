"""``obs`` and ``var`` of an AnnData file: a group of columns, or one array of records as anndata wrote before 0.7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Whole = Callable[[Any], Any]  # returns all values of a dataset, if there is room for them


class Field:
    """A field of an array of records, which can be read like a dataset of its own.

    Parameters
    ----------
    records : h5py.Dataset of shape (n,)
        The array.
    field : str
        Name of the field.
    values : structured array of shape (n,), optional
        The records, if they were read before.
    """

    def __init__(self, records: Any, field: str, values: Any = None) -> None:
        self._values = values
        inner = records.dtype.fields[field][0]
        self.records, self.field, self.name = records, field, f"{records.name}[{field!r}]"
        self.dtype, self.shape, self.file = inner.base, (*records.shape, *inner.shape), records.file
        self.nbytes, self.attrs = records.shape[0] * inner.itemsize, dict[str, Any]()

    def __getitem__(self, rows: Any) -> Any:
        return self.records.fields(self.field)[rows] if self._values is None else self._values[self.field][rows]


class Frame:
    """A table with names of its rows.

    Parameters
    ----------
    file : h5py.File
        The file.
    name : {"obs", "var"}
        Which table.
    records : structured array of shape (n,), optional
        Its records, if it has them and they were read before. h5py 3.16 crashes where threads read text of records.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, in order, without the names of rows.
    """

    def __init__(self, file: Any, name: str, records: Any = None) -> None:
        self._records = records
        self.file, self.table = file, file[name]
        fields = getattr(self.table.dtype, "fields", None) if hasattr(self.table, "dtype") else {}
        if fields is None:
            raise ValueError(f"{name} must be a table, not an array of {self.table.dtype}")
        self.is_group = not fields
        if self.is_group:
            self._index = _text(self.table.attrs.get("_index", "_index"))
            ordered = map(_text, self.table.attrs.get("column-order", ()))
            self.columns = tuple(each for each in ordered if each in self.table)
        else:
            self._index = "index" if "index" in fields else next(iter(self.table.dtype.names))
            self.columns = tuple(each for each in self.table.dtype.names if each != self._index)

    @property
    def row_names(self) -> Any:
        """The dataset with the names of rows; None if there are none."""
        if not self.is_group:
            return Field(self.table, self._index, self._records)
        names = self.table.get(self._index)
        return names["values"] if "values" in getattr(names, "keys", tuple)() else names

    def column(self, name: str) -> Any:
        """Return a column: a dataset, or a group of datasets."""
        return self.table[name] if self.is_group else Field(self.table, name, self._records)

    def arrow(self, name: str, start: int, stop: int, whole: Whole) -> Any:
        """Return rows of a column as an array of Arrow."""
        import pyarrow as pa

        column = self.column(name)
        if hasattr(column, "keys"):
            if "mask" in column:  # pandas' types that have missing values
                values, mask = column["values"][start:stop], column["mask"][start:stop]
                return pa.array(texts(values) if values.dtype.kind in "OS" else values, mask=mask)
            return _categorical(whole(column["categories"]), column["codes"][start:stop])
        values, categories = column[start:stop], self._categories(name, column)
        if categories is not None and values.dtype.kind in "iu":
            return _categorical(whole(categories) if categories.shape else np.atleast_1d(categories[()]), values)
        return pa.array(texts(values) if values.dtype.kind in "OS" else values)

    def _categories(self, name: str, column: Any) -> Any:
        """Return the categories of a column of codes that stand elsewhere in the file; None if it has none."""
        if "categories" in column.attrs:  # as anndata wrote them before 0.8
            return self.file[column.attrs["categories"]]
        # Before 0.7, the categories of obs and of var were side by side in uns.
        return None if self.is_group else self.file.get(f"uns/{name}_categories")


def _categorical(categories: Any, codes: Any) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0),
        pa.array(texts(categories) if categories.dtype.kind in "OS" else categories),
    )


def texts(values: Any) -> list[str]:
    """Return text of any type that HDF5 has for it."""
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
