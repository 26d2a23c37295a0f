"""Samples in any form that an estimator takes, opened as a dataset and checked against the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from dbmd.data.finite import with_nan
from dbmd.data.source_labels import number_sources
from dbmd.dataset import Dataset, framework_of, in_memory, is_anndata, is_path, open_data
from dbmd.dataset._finite import check_finite
from dbmd.dataset._on_device import open_on_device
from dbmd.engines._device_arrays import brought_here, is_on_device
from dbmd.estimator._checks import check_feature_names
from dbmd.estimator._tables import TABLE, split_columns, text_column

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


@contextmanager
def opened(model: DBMD, X: Any, source: Any, sample_weight: Any, *, reset: bool) -> Iterator[Dataset]:
    """Yield samples as a dataset; what is opened here is closed in the end.

    Parameters
    ----------
    model : DBMD
        The estimator.
    X : Dataset, array-like, path, AnnData, or collection of Spark or Dask
        The samples.
    source : array-like of shape (n,) or str, optional
        Their sources, or the column that names them.
    sample_weight : array-like of shape (n,) or str, optional
        Their weights, or the column that has them.
    reset : bool
        Whether the samples are to be fitted; else they must have the features of the model.
    """
    data = _as_dataset(model, X, source, sample_weight, reset=reset)
    try:
        yield data
    finally:
        if data is not X:
            data.close()


def _as_dataset(model: DBMD, X: Any, source: Any, sample_weight: Any, *, reset: bool) -> Dataset:
    if is_path(X) or is_anndata(X) or framework_of(X) in ("spark", model.engine):
        X, source, sample_weight = _open(model, X, source, sample_weight, reset=reset), None, None
    if not isinstance(X, Dataset):
        # What a further batch or new data have to say is said as in the fit.
        as_in_fit = None if reset else getattr(model, "fit_info_", {}).get("data")
        given = split_columns(X, source, sample_weight, as_in_fit)
        source, sample_weight = brought_here(given.source), brought_here(given.sample_weight)
        if not is_on_device(given.X):
            X = _validated(model, given.X, reset=reset)
            names, codes = (None, 0) if source is None else number_sources(source, X.shape[0])
            features = getattr(model, "feature_names_in_", None)
            return in_memory(X, names, codes, features, sample_weight, model.missing, given.about)
        # scikit-learn's checks would copy it, or fail.
        X = open_on_device(
            given.X, source=source, sample_weight=sample_weight, missing=model.missing, about=given.about
        )
        source = sample_weight = None
    if source is not None:
        raise ValueError("A dataset has its own sources: name them in open_data(..., source=).")
    if sample_weight is not None:
        raise ValueError("A dataset has its own weights: name them in open_data(..., sample_weight=).")
    if X.missing != "error" and model.missing != X.missing:
        raise ValueError(
            f"The data were opened with missing={X.missing!r}: pass missing={X.missing!r} to DBMD, too. Got "
            f"{model.missing!r}."
        )
    if reset:
        return X
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"The data have {X.shape[1]} features, the model has {model.n_features_in_}.")
    if X.feature_names is not None:
        check_feature_names(list(X.feature_names), list(getattr(model, "feature_names_in_", X.feature_names)))
    return X


def _open(model: DBMD, X: Any, source: Any, sample_weight: Any, *, reset: bool) -> Dataset:
    """Return files, an AnnData, or a collection that lives on the engine, as a dataset."""
    names = getattr(model, "feature_names_in_", None)
    columns = None if reset or names is None else list(names)
    how: dict[str, Any] = {"source": source, "sample_weight": sample_weight, "missing": model.missing}
    if is_anndata(X):
        before = None if reset else (getattr(model, "fit_info_", {}).get("data") or {}).get("source")
        if source is None and before in X.obs:
            how["source"] = before  # as in the fit, as of tables
        return open_data(X, **how, columns=columns)
    if is_path(X):
        # Only a fit is worth a cluster: memberships are computed in this process.
        engine = model.engine if reset and isinstance(model.engine, str) else "local"
        return open_data(X, **how, columns=columns, engine=engine)
    framework = framework_of(X)
    if framework != model.engine:
        raise ValueError(f"The data are on {framework}: fit them with engine={framework!r}. Got {model.engine!r}.")
    return open_data(X, **how, columns=columns, n_nodes=model.n_nodes)


def _validated(model: DBMD, X: Any, *, reset: bool) -> Any:
    X = with_nan(X)  # scikit-learn would leave out the mask of an array
    # Narrow types stay as they are: chunks are converted one by one.
    try:
        Xt = validate_data(model, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        if Xt.dtype.kind == "O":  # scikit-learn lets text of polars and pyarrow pass
            Xt = Xt.astype(np.float64)
    except (TypeError, ValueError) as error:
        if getattr(X, "ndim", 2) == 3:
            raise ValueError(
                f"{error} Samples are rows: a picture of shape (height, width, features) has a row for each pixel with "
                f"X.reshape(-1, {X.shape[2]}), images have one each with X.reshape({X.shape[0]}, -1)."
            ) from error
        text = text_column(X)
        if text is None:
            raise
        raise ValueError(
            f"{TABLE}: column {text[0]!r} does not hold numbers ({text[1]!r}). Name it in source= if it says where the "
            "samples come from, or leave it out."
        ) from error
    if Xt.dtype.kind == "f":
        check_finite(Xt, missing=model.missing)
    return Xt
