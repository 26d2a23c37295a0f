"""Writing memberships as an AnnData file, a piece at a time, as anndata's description of the format has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.errors import DataError

KEY = "dbmd"
# What each entry says of itself: its type, and the version of that.
ENCODINGS = {
    "anndata": "0.1.0",
    "array": "0.2.0",
    "categorical": "0.2.0",
    "dataframe": "0.2.0",
    "dict": "0.1.0",
    "numeric-scalar": "0.2.0",
    "string": "0.2.0",
    "string-array": "0.2.0",
}


class H5adWriter:
    """An AnnData file without ``X``: memberships and clusters of samples, and the model. A context manager.

    Parameters
    ----------
    path : Path
        The file.
    shape : tuple of int
        Number of samples and of components.
    dtype : dtype
        Type of the memberships.
    component_names : sequence of str of shape (r,)
        The categories of ``obs["dbmd"]``.
    has_brightness : bool
        Whether samples have a brightness.
    """

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        component_names: Sequence[str],
        *,
        has_brightness: bool,
    ) -> None:
        try:
            import h5py
        except ModuleNotFoundError:
            raise DataError(f"{path}: writing h5ad needs h5py. Install it with: pip install 'dbmd[anndata]'") from None
        self.file, self.n, self.row = h5py.File(path, "w"), shape[0], 0
        self.text_type, self.columns = h5py.string_dtype(), dict[str, list[Any]]()
        _say(self.file, "anndata")
        for name in ("layers", "obsm", "obsp", "varm", "varp", "uns"):
            _say(self.file.create_group(name), "dict")
        self.obs = _say(self.file.create_group("obs"), "dataframe")
        self.memberships = _say(self.file["obsm"].create_dataset(f"X_{KEY}", shape, dtype), "array")
        self.names = _say(self.obs.create_dataset("_index", self.n, self.text_type), "string-array")
        cluster = _say(self.obs.create_group(KEY), "categorical")
        cluster.attrs["ordered"] = False
        self.codes = _say(cluster.create_dataset("codes", self.n, np.int32), "array")
        self._put(cluster, "categories", np.array([str(name) for name in component_names], dtype=object))
        self.order, self.brightness = [KEY], None
        if has_brightness:
            self.brightness = _say(self.obs.create_dataset(f"{KEY}_brightness", self.n, dtype), "array")
            self.order.append(f"{KEY}_brightness")

    def __enter__(self) -> H5adWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def add(
        self, Ht: NDArray[Any], labels: NDArray[np.intp], brightness: NDArray[Any], names: Any, kept: Mapping[str, Any]
    ) -> None:
        """Write the samples that come next.

        Parameters
        ----------
        Ht : array of shape (rows, r)
            Their memberships.
        labels : array of int of shape (rows,)
            Their clusters; -1 for a sample that was left out.
        brightness : array of shape (rows,)
            Their brightness.
        names : pyarrow.Array of length rows, or None
            Their names; None: their numbers.
        kept : dict of str to pyarrow.Array
            Further columns of ``obs``.
        """
        rows = slice(self.row, self.row + len(Ht))
        self.memberships[rows], self.codes[rows] = Ht, labels
        if self.brightness is not None:
            self.brightness[rows] = brightness
        texts = map(str, range(rows.start, rows.stop)) if names is None else names.to_pylist()
        self.names[rows] = np.array(list(texts), dtype=object)
        for name, column in kept.items():
            self.columns.setdefault(name, []).append(column)
        self.row = rows.stop

    def finish(self, feature_names: Sequence[str], components: NDArray[Any], uns: Mapping[str, Any]) -> None:
        """Write what is known of the variables, and the model.

        Parameters
        ----------
        feature_names : sequence of str of shape (m,)
            Names of the variables.
        components : array of shape (r, m)
            The components.
        uns : dict
            Numbers, text, arrays of them, and such dicts: ``uns["dbmd"]``.
        """
        for name, pieces in self.columns.items():
            self._put_column(name, pieces)
        self.obs.attrs["_index"] = "_index"
        self.obs.attrs["column-order"] = np.array([*self.columns, *self.order], dtype=self.text_type)
        var = _say(self.file.create_group("var"), "dataframe")
        self._put(var, "_index", np.array([str(name) for name in feature_names], dtype=object))
        var.attrs["_index"], var.attrs["column-order"] = "_index", np.array([], dtype=np.float64)
        self._put(self.file["varm"], KEY, np.ascontiguousarray(components.T))
        self._put(self.file["uns"], KEY, uns)

    def _put_column(self, name: str, pieces: list[Any]) -> None:
        """Write a column of ``obs``: numbers as they are, all else as categories."""
        import pyarrow as pa

        try:
            column = pa.chunked_array(pieces)
            column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
            column = column.combine_chunks()
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_integer(column.type) and column.null_count:
                column = column.cast(pa.float64())
            if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
                self._put(self.obs, name, column.to_numpy(zero_copy_only=False))
                return
            coded = column.cast(pa.string()).dictionary_encode()
        except (pa.ArrowException, ValueError) as error:
            what = str(error).splitlines()[0]
            raise DataError(
                f"The column {name!r} to keep cannot be a column of obs ({what}). Write parquet."
            ) from error
        group = _say(self.obs.create_group(name), "categorical")
        group.attrs["ordered"] = False
        self._put(group, "codes", coded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
        self._put(group, "categories", np.array(coded.dictionary.to_pylist(), dtype=object))

    def _put(self, group: Any, name: str, value: Any) -> None:
        """Write an entry of a group, with what it is."""
        if isinstance(value, Mapping):
            inner = _say(group.create_group(name), "dict")
            for each, content in value.items():
                self._put(inner, each, content)
        elif isinstance(value, str):
            _say(group.create_dataset(name, data=value, dtype=self.text_type), "string")
        elif isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            _say(group.create_dataset(name, data=value.astype(object), dtype=self.text_type), "string-array")
        elif isinstance(value, np.ndarray):
            packing = {"compression": "gzip"} if value.size > 1000 and value.dtype != np.uint8 else {}
            _say(group.create_dataset(name, data=value, **packing), "array")
        elif value is not None:  # there is nothing that says None which all versions read
            _say(group.create_dataset(name, data=value), "numeric-scalar")


def _say(entry: Any, kind: str) -> Any:
    """Say of an entry of the file what it is, and return it."""
    entry.attrs["encoding-type"], entry.attrs["encoding-version"] = kind, ENCODINGS[kind]
    return entry
