"""Memberships of samples under a fitted model: computed here, or lazily for collections of Dask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import prior_of
from dbmd.dataset import Dataset, framework_of
from dbmd.engines.local import Engine as LocalEngine
from dbmd.estimator._new_sources import source_levels
from dbmd.estimator.fitted import FittedArrays
from dbmd.h_step import origin_of
from dbmd.memberships import MembershipModel, write_memberships
from dbmd.registry import load
from dbmd.sweep import sweep, sweep_and_keep

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


def check_can_transform(X: Any) -> None:
    """Raise a TypeError if the memberships of data cannot be computed by the estimator."""
    home = X.framework if isinstance(X, Dataset) else framework_of(X)
    if home == "spark":
        raise TypeError("For a DataFrame of Spark take dbmd.spark.DBMDModel(model).transform(frame).")
    if home == "dask" and (isinstance(X, Dataset | list | tuple) or type(X).__name__ == "Delayed"):
        raise TypeError("Of what is on Dask take transform(X) of the dask.array or dask.dataframe itself.")


def membership_model(fitted: FittedArrays, data: Dataset) -> MembershipModel:
    """Return what the memberships of a dataset are computed from."""
    if fitted.noise_matters:
        sigma2, parts, V = source_levels(fitted, data)
    else:
        parts = fitted.parts_for(data.n_sources)
        sigma2, V = np.ones(data.n_sources), parts.assemble(fitted.W)
    return MembershipModel(V, parts, sigma2, fitted.prior, fitted.by_energy)


def memberships_of(fitted: FittedArrays, data: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the memberships of the samples of a dataset, shape (n, r), and their brightness, shape (n,)."""
    out, brightness = np.empty((data.shape[0], fitted.n_components), data.dtype), np.empty(data.shape[0], data.dtype)
    step = partial(write_memberships, out=out, brightness=brightness)
    with LocalEngine(data.nodes(fitted.n_nodes, fitted.n_components)) as engine:
        engine.ask(step, membership_model(fitted, data))
    return out, brightness


def mean_log_likelihood(fitted: FittedArrays, data: Dataset) -> float:
    """Return the mean log-likelihood of the samples of a dataset, given their memberships."""
    sigma2, parts, V = source_levels(fitted, data)
    n, m = data.shape
    origin = origin_of(parts.W(V), data.dtype)
    step = partial(sweep, sigma2=sigma2, prior=parts.prior(fitted.prior), parts=parts, origin=origin)
    ridge = np.zeros(parts.n_offsets) if parts.n_offsets else None
    with fitted.engine_for(data) as engine:
        found = engine.ask(partial(sweep_and_keep, sweep=step, sigma2=sigma2, parts=parts, ridge=ridge), V)
    log_likelihood = -0.5 * sum(
        s.squares / sigma2[c] + m * s.n * np.log(2 * np.pi * sigma2[c]) for c, s in found.items()
    )
    return float(log_likelihood / n)


# -- collections of Dask -------------------------------------------------------------------------------------------


def lazy_memberships(model: DBMD, X: Any, source: Any) -> Any:
    """Return the memberships of a dask.array or dask.dataframe as a dask.array of shape (n, r)."""
    fitted = FittedArrays.of(model)
    if source is None and fitted.noise_matters and fitted.noise == "source" and len(fitted.source_names) > 1:
        raise ValueError(
            f"The model knows {len(model.sources_)} sources: say in source= which samples are of which. A noise "
            "level can be estimated for samples that are here, transform(X.compute()), not for such as are not yet."
        )
    # What travels to the workers is small: not the history, the profile and the labels.
    small = type(model)(**model.get_params(deep=False) | {"engine": "local", "n_nodes": 1})
    for name in ("components_", "sources_", "noise_variance_", "n_features_in_"):
        setattr(small, name, getattr(model, name))
    names = list(getattr(model, "feature_names_in_", ()))
    return load("engines", "dask").map_rows(partial(_chunk_memberships, small), X, source, names, fitted.n_components)


def _chunk_memberships(model: DBMD, Xt: Any, source: Any = None) -> NDArray[Any]:
    """Return the memberships of a chunk of samples, all of them of sources that the model knows."""
    r = len(model.components_)
    if not Xt.shape[0]:
        return np.empty((0, r), model.components_.dtype)
    unknown = set() if source is None or model.noise != "source" else {*np.unique(source)} - {*model.sources_}
    if unknown and prior_of(model.alpha, r).any():
        raise ValueError(f"The model does not know the sources {unknown}: it has a noise level for {model.sources_}.")
    return model.transform(Xt, source=source)
