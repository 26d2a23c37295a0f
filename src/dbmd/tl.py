"""The interface for single-cell data: a function on AnnData, like the tools of scanpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dbmd.config import Missing
from dbmd.data.block import Samples, Window, canonical, float_type
from dbmd.data.finite import first_unusable
from dbmd.data.formats import batch_rows
from dbmd.data.options import DEFAULT_MEMORY
from dbmd.data.prefetch import prefetch
from dbmd.dataset import SingleBlock
from dbmd.errors import DataError
from dbmd.estimator import DBMD
from dbmd.memberships import labels_of
from dbmd.model.known import Known

__all__ = ["dbmd"]


def dbmd(
    adata: Any,
    n_components: int = 8,
    *,
    batch_key: str | None = None,
    layer: str | None = None,
    key_added: str = "dbmd",
    copy: bool = False,
    **params: Any,
) -> Any:
    """Decompose cells into gene programs; batches are sources, each with a noise level of its own.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
        In memory, dense or sparse, or backed by a file, which is then read piece by piece.
    n_components : int, default=8
        Number of gene programs.
    batch_key : str, optional
        Column of ``obs`` that names the batch of each cell.
    layer : str, optional
        Layer to use instead of ``X``.
    key_added : str, default="dbmd"
        Name under which results are stored.
    copy : bool, default=False
        Return a copy with the results instead of adding them to ``adata``.
    **params
        Parameters of :class:`dbmd.DBMD`: ``log``, ``offsets``, ``lam``, ``random_state``, ... The columns of a
        DataFrame of ``known`` programs are matched to the names of the variables.

    Returns
    -------
    AnnData or None
        The copy, with ``copy=True``. Results:

        - ``obsm["X_" + key_added]``: memberships, shape (n_obs, n_components), rows on the simplex.
        - ``varm[key_added]``: the gene programs, shape (n_vars, n_components).
        - ``obs[key_added]``: the largest membership, categorical.
        - ``obs[key_added + "_brightness"]``: the brightness of each cell, with ``brightness=True``.
        - ``uns[key_added]``: parameters, noise variance of each batch, objective, explained variance; with
          ``offsets=True`` the offset of each batch, shape (n_batches, n_vars).
    """
    import pandas as pd

    if layer is not None and layer not in adata.layers:
        raise KeyError(f"adata has no layer {layer!r}. It has {', '.join(map(repr, adata.layers)) or 'none'}.")
    if batch_key is not None and batch_key not in adata.obs:
        raise KeyError(f"adata.obs has no column {batch_key!r}. It has {', '.join(map(repr, adata.obs)) or 'none'}.")
    if adata.is_view and adata.isbacked and not copy:
        raise ValueError("A view of a backed adata cannot take results: pass copy=True, or adata.to_memory().")
    if copy:
        adata = adata.copy() if not adata.isbacked else adata.to_memory()
    batches = None
    if batch_key is not None:
        if adata.obs[batch_key].isna().any():
            raise ValueError(f"adata.obs[{batch_key!r}] must name a batch for every cell; some are missing.")
        batches = adata.obs[batch_key].astype(str).to_numpy(dtype=str)
    model = DBMD(n_components, **params)
    if model.known is not None:
        known = Known.of(model.known)
        model.known = Known(known.for_features(adata.n_vars, list(adata.var_names)), known.names)
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise ValueError("adata has no X: name the layer to take.")
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        model.fit(X, source=batches)
        Ht, brightness = model._transform(X, batches)
    else:
        data = _backed(X, batches, model.missing)
        model.fit(data)
        Ht, brightness = model._transform(data, None)
    adata.obsm[f"X_{key_added}"] = Ht
    adata.varm[key_added] = model.components_.T
    names = getattr(model, "component_names_", range(len(model.components_)))
    adata.obs[key_added] = pd.Categorical.from_codes(labels_of(Ht), [str(name) for name in names])
    if model.brightness:
        adata.obs[f"{key_added}_brightness"] = brightness
    adata.uns[key_added] = {
        "params": {
            "n_components": n_components,
            "batch_key": batch_key or "",
            "layer": layer or "",
            **_storable(params),
        },
        "batches": model.sources_.astype(str),
        "noise_variance": model.noise_variance_,
        "objective": model.objective_,
        "explained_variance": model.fit_info_["explained"],
        "n_iter": model.n_iter_,
    }
    if model.offsets:
        adata.uns[key_added]["offsets"] = model.offsets_
    return adata if copy else None


@dataclass(frozen=True)
class Backed(Samples):
    """A matrix in an open file.

    Attributes
    ----------
    X : h5py.Dataset or backed sparse matrix of shape (n, m)
        The matrix.
    source_codes : array of int of shape (n,), or an int
        The source of each row, or of all.
    missing : {"error", "allow", "drop"}
        What to do with missing values.
    """

    X: Any
    source_codes: NDArray[np.intp] | int
    missing: Missing = "error"
    first_row: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.X.shape

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
        step = batch_rows(self.dtype, self.shape[1])
        for i in range(0, self.shape[0], step):
            j = min(i + step, self.shape[0])
            rows: Any = self.X[i:j]
            rows = canonical(sparse.csr_array(rows)) if sparse.issparse(rows) else np.asarray(rows)
            entry = first_unusable(rows, self.missing, rows_may_be_empty=False) if rows.dtype.kind == "f" else None
            if entry is not None:
                remedy = "Only finite numbers can be fitted"
                if np.isnan(entry.value) and not sparse.issparse(rows):
                    remedy += ", unless missing='allow', or missing='drop' to leave out such rows"
                raise DataError(f"Row {i + entry.row} of adata holds {entry.value}. {remedy}.")
            yield Window(i, rows, self.source_codes if isinstance(self.source_codes, int) else self.source_codes[i:j])


def _backed(X: Any, batches: NDArray[Any] | None, missing: Missing) -> SingleBlock:
    """Return a matrix in an open file as a dataset: one node, for one file is read by one thread at a time."""
    names, codes = (None, 0) if batches is None else np.unique(batches, return_inverse=True)
    block = Backed(X, codes if names is not None and len(names) > 1 else 0, missing)
    return SingleBlock(
        shape=block.shape,
        dtype=block.dtype,
        source_names=names,
        missing=missing,
        memory=DEFAULT_MEMORY,
        block=block,
        name="adata",
    )


def _storable(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that can be written to an h5ad file."""
    return {name: value for name, value in params.items() if isinstance(value, bool | int | float | str | np.ndarray)}
