"""AnnData: samples are its cells, features its variables, sources a column of its ``obs``. It is never imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd._utils.arrays import is_sparse, namespace
from dbmd.data.block import Samples, Window, canonical, float_type
from dbmd.data.finite import Missing, first_unusable
from dbmd.data.formats import batch_rows
from dbmd.data.formats._reader import first_twice
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.data.prefetch import prefetch
from dbmd.data.recipe import as_array
from dbmd.data.source_labels import number_sources
from dbmd.data.weights import check_weights
from dbmd.dataset._arrays import InMemory
from dbmd.dataset._base import Dataset
from dbmd.dataset._block import SingleBlock
from dbmd.engines._device_arrays import as_device_array, is_on_device
from dbmd.errors import DataError

HVG = "highly_variable"


def is_anndata(data: Any) -> bool:
    """Return whether data are an AnnData, or look like one."""
    # Of the class: X of a view, or of a file, is made when it is asked for.
    return all(hasattr(type(data), name) for name in ("X", "obs", "var", "obs_names", "var_names", "layers", "obsm"))


def open_anndata(
    adata: Any,
    *,
    source: Any = None,
    label: str | None = None,
    sample_weight: Any = None,
    layer: str | None = None,
    obsm: str | None = None,
    columns: Sequence[str] | None = None,
    mask: NDArray[np.bool_] | None = None,
    memory: int = DEFAULT_MEMORY,
    missing: Missing = "error",
) -> Dataset:
    """Return an AnnData as a dataset: in memory, here or on a GPU, or backed by a file, which is read piece by piece.

    Parameters
    ----------
    adata : AnnData of shape (n, n_vars)
        The cells.
    source, sample_weight : str or array-like of shape (n,), optional
        Columns of ``obs``, or the values: the source of each cell, and how often it counts.
    label : str, optional
        Column of ``obs`` with known classes.
    layer, obsm : str, optional
        What to take instead of ``X``.
    columns : sequence of str, optional
        Names of the variables to take, in this order.
    mask : array of bool of shape (n_vars,), optional
        Which variables to take.
    memory : int
        Bytes that the memberships of a backed AnnData may take, times four.
    missing : {"error", "allow", "drop"}
        What to do with missing values.
    """
    names, X = names_of(adata, layer, obsm), matrix_of(adata, layer, obsm)
    n = X.shape[0]
    if columns is not None:
        used = _numbers_of(columns, names)
    else:
        used = np.arange(len(names)) if mask is None else np.flatnonzero(mask)
    if not n or not len(used):
        raise DataError(f"adata: no {'genes' if n else 'cells'} are left to fit.")
    if (twice := first_twice(names)) is not None:
        raise DataError(f"adata: variable {twice!r} occurs twice. Call adata.var_names_make_unique() first.")
    source_names, source_codes = (None, 0) if source is None else number_sources(_values(adata, source), n)
    class_names, class_codes = (None, None) if label is None else number_sources(_values(adata, label), n)
    about = {"source": source if isinstance(source, str) else None, "label": label, "layer": layer, "obsm": obsm}
    shared: dict[str, Any] = {
        "shape": (n, len(used)),
        "dtype": float_type(X.dtype),
        "source_names": source_names,
        "feature_names": [names[i] for i in used],
        "class_names": class_names,
        "about": {name: value for name, value in about.items() if value is not None} or None,
        "missing": missing,
    }
    labels: dict[str, Any] = {
        "source_codes": source_codes,
        "class_codes": np.zeros(n, np.intp) if isinstance(class_codes, int) else class_codes,
        "weights": check_weights(_values(adata, sample_weight), n),
    }
    wanted = None if np.array_equal(used, np.arange(len(names))) else used
    if not (isinstance(X, np.ndarray) or sparse.issparse(X) or is_on_device(X)):
        block = Backed(X, wanted, **labels, missing=missing)
        return SingleBlock(**shared, memory=memory, block=block, name="adata")
    Xt = as_device_array(X) if is_on_device(X) else sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    Xt = canonical(Xt) if is_sparse(Xt) else Xt
    Xt = Xt if wanted is None else Xt[:, namespace(Xt).asarray(wanted)]
    _check_finite(Xt, 0, missing)
    return InMemory(**shared, Xt=Xt, **labels)


def names_of(adata: Any, layer: str | None, obsm: str | None) -> list[str]:
    """Return the names of the columns of the matrix to take; raise an error if there is no such matrix."""
    if layer is not None and obsm is not None:
        raise ValueError(f"Pass layer or obsm, not both. Got layer={layer!r} and obsm={obsm!r}.")
    if layer is not None and layer not in adata.layers:
        raise KeyError(f"adata has no layer {layer!r}. It has {_listed(adata.layers)}.")
    if obsm is not None and obsm not in adata.obsm:
        raise KeyError(f"adata.obsm has no key {obsm!r}. It has {_listed(adata.obsm)}.")
    if obsm is None:
        return [str(name) for name in adata.var_names]
    found = adata.obsm[obsm]
    return [str(name) for name in getattr(found, "columns", ())] or [f"{obsm}-{i}" for i in range(found.shape[1])]


def matrix_of(adata: Any, layer: str | None, obsm: str | None) -> Any:
    """Return the matrix to take, an array of some kind, or one in an open file, of shape (n, m)."""
    X = adata.obsm[obsm] if obsm is not None else adata.X if layer is None else adata.layers[layer]
    X = X.to_numpy() if hasattr(X, "to_numpy") else X  # a DataFrame in obsm
    if X is None:
        raise ValueError("adata has no X: name the layer to take, layer=..., or the key of obsm, obsm=....")
    if type(X).__module__.split(".")[0] == "dask":
        raise TypeError("adata is lazy: load it with adata.to_memory(), or open the file with backed='r'.")
    if X.dtype.kind not in "biuf":
        raise TypeError(f"adata must hold numbers. Got {X.dtype}.")
    return X


def obs_column(adata: Any, name: str) -> Any:
    """Return a column of ``obs``, a Series; every cell must have a value."""
    if name not in adata.obs:
        raise KeyError(f"adata.obs has no column {name!r}. It has {_listed(adata.obs)}.")
    column = adata.obs[name]
    if column.isna().any():
        raise ValueError(f"adata.obs[{name!r}] must have a value for every cell; some are missing.")
    return column


def variables(adata: Any, mask: Any) -> NDArray[np.bool_]:
    """Return which variables to take, shape (n_vars,).

    Parameters
    ----------
    adata : AnnData
        The cells.
    mask : str or array of bool of shape (n_vars,)
        The column of ``var`` that says so, or the values.
    """
    if isinstance(mask, str):
        if mask not in adata.var:
            raise KeyError(f"adata.var has no column {mask!r}. It has {_listed(adata.var)}.")
        what, mask = f"adata.var[{mask!r}]", adata.var[mask]
    else:
        what = "mask_var"
    values = np.asarray(mask)
    values = values.astype(bool) if values.dtype == object and {*values.tolist()} <= {True, False} else values
    if values.dtype != bool or values.shape != (adata.n_vars,):
        raise ValueError(
            f"{what} must be true or false for each of the {adata.n_vars} variables. Got {values.dtype} of shape "
            f"{values.shape}."
        )
    return values


@dataclass(frozen=True)
class Backed(Samples):
    """A matrix in an open file.

    Attributes
    ----------
    X : h5py.Dataset or backed sparse matrix of shape (n, n_vars)
        The matrix.
    wanted : array of int of shape (m,), optional
        The columns to take; None: all.
    source_codes : array of int of shape (n,), or an int
        The source of each row, or of all.
    class_codes : array of int of shape (n,), optional
        The known class of each row.
    weights : array of shape (n,), optional
        How often each row counts.
    missing : {"error", "allow", "drop"}
        What to do with missing values.
    """

    X: Any
    wanted: NDArray[np.intp] | None
    source_codes: NDArray[np.intp] | int
    class_codes: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None
    missing: Missing = "error"
    first_row: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.X.shape[0], self.X.shape[1] if self.wanted is None else len(self.wanted)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type to compute with."""
        return float_type(self.X.dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are CSR."""
        return not hasattr(self.X, "chunks")  # an array of h5py has them, None perhaps; anndata's sparse ones do not

    def windows(self) -> Iterator[Window]:
        """Yield the samples, read in advance in pieces of bounded size."""
        return prefetch(self._windows())

    def _windows(self) -> Iterator[Window]:
        step = batch_rows(self.dtype, self.X.shape[1])
        for i in range(0, self.shape[0], step):
            j = min(i + step, self.shape[0])
            rows: Any = self.X[i:j]
            rows = canonical(sparse.csr_array(rows)) if sparse.issparse(rows) else np.asarray(rows)
            rows = rows if self.wanted is None else rows[:, self.wanted]
            _check_finite(rows, i, self.missing)
            yield Window(
                i,
                rows,
                self.source_codes if isinstance(self.source_codes, int) else self.source_codes[i:j],
                None if self.class_codes is None else self.class_codes[i:j],
                weights=None if self.weights is None else self.weights[i:j],
            )


def _check_finite(rows: Any, first: int, missing: Missing) -> None:
    """Raise a DataError that names the first row with an entry that cannot be fitted; ``first`` is that of the rows."""
    entry = first_unusable(rows, missing, rows_may_be_empty=False) if rows.dtype.kind == "f" else None
    if entry is None:
        return
    remedy = "Only finite numbers can be fitted"
    if np.isnan(entry.value) and not is_sparse(rows):
        remedy += ", unless missing='allow', or missing='drop' to leave out such rows"
    raise DataError(f"Row {first + entry.row} of adata holds {entry.value}. {remedy}.")


def _values(adata: Any, given: Any) -> Any:
    """Return labels or weights of cells: those of a column of ``obs``, or as they are given."""
    return as_array(obs_column(adata, given).tolist()) if isinstance(given, str) else given


def _numbers_of(columns: Sequence[str], names: Sequence[str]) -> NDArray[np.intp]:
    """Return where variables stand, by their names."""
    number = {name: i for i, name in enumerate(names)}
    lacking = [name for name in columns if name not in number]
    if lacking:
        raise DataError(
            f"adata: lacks {len(lacking)} of {len(columns)} variables: {_listed(lacking, 5)}. Variables are matched by "
            "name: adata.var_names must be of the same kind as in the fit, symbols or accessions, say."
        )
    return np.array([number[name] for name in columns], dtype=np.intp)


def _listed(names: Any, most: int = 20) -> str:
    known = [repr(name) for name in names]
    return (", ".join(known[:most]) or "none") + (f" and {len(known) - most} more" if len(known) > most else "")
