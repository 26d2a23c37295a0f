"""The interface for single-cell data: functions on AnnData, like the tools of scanpy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import Auto
from dbmd.dataset import is_anndata, open_data
from dbmd.dataset._anndata import HVG, names_of, obs_column, variables
from dbmd.engines._device_arrays import brought_here
from dbmd.estimator import DBMD, load
from dbmd.memberships import labels_of
from dbmd.model.known import Known

__all__ = ["dbmd", "model", "transform"]


class _Default:
    """The default of ``mask_var``: None means something else."""

    def __repr__(self) -> str:
        return f"adata.var.get({HVG!r})"


DEFAULT: Any = _Default()


def dbmd(
    adata: Any,
    n_components: int | Auto = 8,
    *,
    batch_key: str | None = None,
    layer: str | None = None,
    key_added: str = "dbmd",
    copy: bool = False,
    obsm: str | None = None,
    mask_var: Any = DEFAULT,
    **params: Any,
) -> Any:
    """Decompose cells into gene programs; batches are sources, each with a noise level of its own.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
        In memory, dense or sparse, or backed by a file, which is then read piece by piece.
    n_components : int or "auto", default=8
        Number of gene programs; "auto": as many as two halves of the cells agree on.
    batch_key : str, optional
        Column of ``obs`` that names the batch of each cell.
    layer : str, optional
        Layer to use instead of ``X``.
    key_added : str, default="dbmd"
        Name under which results are stored.
    copy : bool, default=False
        Return a copy with the results instead of adding them to ``adata``.
    obsm : str, optional
        Key of ``obsm`` to use instead of ``X``, "X_pca" for example.
    mask_var : str or array of bool of shape (n_vars,), optional
        The variables to fit: a column of ``var``, or the values themselves. By default ``var["highly_variable"]`` if it
        is there, as in ``scanpy.pp.pca``; None: all variables.
    **params
        Parameters of :class:`dbmd.DBMD`: ``log``, ``offsets``, ``lam``, ``random_state``, ... The columns of a
        DataFrame of ``known`` programs are matched to the names of the variables.

    Returns
    -------
    AnnData or None
        The copy, with ``copy=True``. Results:

        - ``obsm["X_" + key_added]``: memberships, shape (n_obs, n_components), rows on the simplex.
        - ``varm[key_added]``: the gene programs, shape (n_vars, n_components); zero for variables that were not fitted.
          Those of an entry of ``obsm`` are in ``uns[key_added]["components"]``, shape (n_columns, n_components).
        - ``obs[key_added]``: the largest membership, categorical.
        - ``obs[key_added + "_brightness"]``: the brightness of each cell, with ``brightness=True``.
        - ``uns[key_added]``: parameters, noise variance of each batch, objective, explained variance; with
          ``offsets=True`` the offset of each batch, shape (n_batches, n_vars); and the model, which :func:`model`
          returns. All of it can be written to h5ad.
    """
    _check_can_take_results(adata, copy)
    names = names_of(adata, layer, obsm)
    mask = _mask(adata, mask_var, obsm)
    if batch_key is not None:
        obs_column(adata, batch_key)  # its errors speak of batches
    if copy:
        adata = adata.copy() if not adata.isbacked else adata.to_memory()
    used = np.arange(len(names)) if mask is None else np.flatnonzero(mask)
    fitted = DBMD(n_components, **params)
    if fitted.known is not None:
        fitted.known = _known(fitted.known, names, used)
    data = open_data(
        adata,
        source=batch_key,
        layer=layer,
        obsm=obsm,
        columns=None if mask is None else [names[i] for i in used],
        missing=fitted.missing,
    )
    fitted.fit(data)
    _add_memberships(adata, fitted, data, key_added)

    def of_all(values: NDArray[Any]) -> NDArray[Any]:
        """Return values with zeros in the columns of variables that were not fitted."""
        out = np.zeros((len(values), len(names)), values.dtype)
        out[:, used] = values
        return out

    found: dict[str, Any] = {
        "params": {
            "n_components": fitted.n_components_,
            "batch_key": batch_key or "",
            "layer": layer or "",
            "obsm": obsm or "",
            "mask_var": _name(mask_var, mask),
            **_storable(params),
        },
        **facts(fitted),
    }
    if fitted.offsets:
        found["offsets"] = of_all(fitted.offsets_)
    if obsm is None:
        adata.varm[key_added] = of_all(fitted.components_).T
    else:
        found["components"] = fitted.components_.T
    adata.uns[key_added] = found
    return adata if copy else None


def model(adata: Any, key: str = "dbmd") -> DBMD:
    """Return the model that :func:`dbmd.tl.dbmd` has stored: to save, to report, to apply to other cells.

    Parameters
    ----------
    adata : AnnData
        With results of :func:`dbmd.tl.dbmd`, also after it was written to a file and read back.
    key : str, default="dbmd"
        Name under which they are stored.

    Returns
    -------
    DBMD
        Fitted. ``model(adata).save(path)`` writes a directory for ``dbmd report`` and ``dbmd transform``.
    """
    return _stored(adata, key)


def transform(
    adata: Any,
    model: Any,
    *,
    batch_key: str | None = None,
    layer: str | None = None,
    obsm: str | None = None,
    key: str = "dbmd",
    key_added: str = "dbmd",
    copy: bool = False,
) -> Any:
    """Find the memberships of cells in the gene programs of a model.

    Variables are matched by name: ``adata`` must have those of the fit, and may have others. They have to be normalised
    as in the fit.

    Parameters
    ----------
    adata : AnnData of shape (n_obs, n_vars)
        The cells, in memory or backed by a file.
    model : DBMD, AnnData, str or Path
        A fitted model, an AnnData in which :func:`dbmd.tl.dbmd` has stored one, or a directory with one.
    batch_key : str, optional
        Column of ``obs`` that names the batch of each cell. By default that of the fit, if it is there. What is needed
        of batches that were not in the fit, such as their offset, is estimated.
    layer, obsm : str, optional
        What to use instead of ``X``; by default as in the fit.
    key : str, default="dbmd"
        Name under which the model is stored in an AnnData.
    key_added : str, default="dbmd"
        Name under which results are stored.
    copy : bool, default=False
        Return a copy with the results instead of adding them to ``adata``.

    Returns
    -------
    AnnData or None
        The copy, with ``copy=True``. Results: ``obsm["X_" + key_added]``, ``obs[key_added]`` and, of a model with
        brightness, ``obs[key_added + "_brightness"]``, as from :func:`dbmd.tl.dbmd`.
    """
    _check_can_take_results(adata, copy)
    fitted = _fitted(model, key)
    about = fitted.fit_info_.get("data") or {}
    if layer is None and obsm is None:
        layer, obsm = about.get("layer"), about.get("obsm")
    if batch_key is None and about.get("source") in adata.obs:
        batch_key = about["source"]
    if copy:
        adata = adata.copy() if not adata.isbacked else adata.to_memory()
    names = getattr(fitted, "feature_names_in_", None)
    how: dict[str, Any] = {"source": batch_key, "layer": layer, "obsm": obsm, "missing": fitted.missing}
    data = open_data(adata, **how, columns=None if names is None else list(names))
    _add_memberships(adata, fitted, data, key_added)
    return adata if copy else None


def _check_can_take_results(adata: Any, copy: bool) -> None:
    if not is_anndata(adata):
        raise TypeError(f"adata must be an AnnData. Got {type(adata).__name__}: fit arrays and files with dbmd.DBMD.")
    if adata.is_view and adata.isbacked and not copy:
        raise ValueError("A view of a backed adata cannot take results: pass copy=True, or adata.to_memory().")


def _fitted(model: Any, key: str) -> DBMD:
    """Return a fitted model, wherever it is."""
    if isinstance(model, DBMD):
        return model
    if isinstance(model, str | Path):
        return load(model)
    if is_anndata(model):
        return _stored(model, key)
    raise TypeError(f"model must be a DBMD, an AnnData with one, or a directory. Got {type(model).__name__}.")


def _stored(adata: Any, key: str) -> DBMD:
    """Return the model that an AnnData holds."""
    stored = adata.uns.get(key)
    if not isinstance(stored, Mapping) or "model" not in stored:
        there = [name for name, each in adata.uns.items() if isinstance(each, Mapping) and "model" in each]
        raise KeyError(
            f"adata.uns[{key!r}] has no model of dbmd. Models are stored in {', '.join(map(repr, there)) or 'no key'}: "
            "fit one with dbmd.tl.dbmd(adata)."
        )
    with TemporaryDirectory() as folder:
        for name, content in stored["model"].items():
            whole = str(content).encode() if name.endswith(".json") else np.asarray(content, np.uint8).tobytes()
            Path(folder, Path(name).name).write_bytes(whole)  # a name in a file may hold anything
        return load(folder)


def _add_memberships(adata: Any, fitted: DBMD, data: Any, key_added: str) -> None:
    """Put the memberships of cells where results belong."""
    import pandas as pd

    Ht, brightness = (
        fitted.transform(data, return_brightness=True) if fitted.brightness else (fitted.transform(data), 0)
    )
    Ht, brightness = brought_here(Ht), brought_here(brightness)  # of cells on a GPU, too: where other tools look
    adata.obsm[f"X_{key_added}"] = Ht
    names = getattr(fitted, "component_names_", range(len(fitted.components_)))
    adata.obs[key_added] = pd.Categorical.from_codes(labels_of(Ht), [str(name) for name in names])
    if fitted.brightness:
        adata.obs[f"{key_added}_brightness"] = brightness


def _mask(adata: Any, mask_var: Any, obsm: str | None) -> NDArray[np.bool_] | None:
    """Return which variables to fit, shape (n_vars,); None: all."""
    if mask_var is DEFAULT:
        return variables(adata, HVG) if obsm is None and HVG in adata.var else None
    if mask_var is None:
        return None
    if obsm is not None:
        raise ValueError("mask_var chooses variables of X or a layer: leave it out with obsm.")
    return variables(adata, mask_var)


def _name(mask_var: Any, mask: Any) -> str:
    """Return the column of ``var`` that chose the variables; "" if there was none."""
    if mask is None or not (mask_var is DEFAULT or isinstance(mask_var, str)):
        return ""
    return HVG if mask_var is DEFAULT else str(mask_var)


def _known(known: Any, names: list[str], used: NDArray[np.intp]) -> Known:
    """Return known programs of the variables that are fitted."""
    known = Known.of(known)
    wanted = [names[i] for i in used]
    if known.columns is not None and {*known.columns} == {*wanted}:
        return Known(known.for_features(len(wanted), wanted), known.names)
    return Known(known.for_features(len(names), names)[:, used], known.names)


def facts(fitted: DBMD) -> dict[str, Any]:
    """Return what ``uns`` holds of a model: numbers, and its files, which :func:`model` reads."""
    return {
        "batches": fitted.sources_.astype(str),
        "noise_variance": fitted.noise_variance_,
        "objective": fitted.objective_,
        "explained_variance": fitted.fit_info_["explained"],
        "n_iter": fitted.n_iter_,
        "model": _to_arrays(fitted),
    }


def _to_arrays(fitted: DBMD) -> dict[str, Any]:
    """Return the files of a saved model: text, and arrays of bytes, which h5ad can hold."""
    with TemporaryDirectory() as folder:
        files = sorted(path for path in fitted.save(Path(folder, "model")).iterdir() if path.is_file())
        return {
            path.name: path.read_text("utf-8")
            if path.suffix == ".json"
            else np.frombuffer(path.read_bytes(), np.uint8).copy()
            for path in files
        }


def _storable(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that can be written to an h5ad file."""
    return {name: value for name, value in params.items() if isinstance(value, bool | int | float | str | np.ndarray)}
