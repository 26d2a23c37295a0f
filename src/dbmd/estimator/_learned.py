"""The attributes of a fitted estimator, made from the result of the algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.preparation import Preparation
from dbmd.dataset import Dataset
from dbmd.estimator._uncertainty import kept_sample
from dbmd.estimator._units import in_data_units, offsets_for_users
from dbmd.model.evidence import pooled
from dbmd.model.result import Result

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


def set_learned(model: DBMD, attributes: dict[str, Any]) -> None:
    """Set attributes of a fitted estimator by name; those that are None are removed."""
    for name, value in attributes.items():
        if value is not None:
            setattr(model, name, value)
        elif hasattr(model, name):
            delattr(model, name)


def usable_attributes(
    data: Dataset,
    scaled: NDArray[Any],
    sigma2: NDArray[Any],
    offsets: NDArray[Any] | None,
    preparation: Preparation | None,
) -> dict[str, Any]:
    """Return the attributes without which a model cannot be used; callbacks see them during a fit.

    Parameters
    ----------
    data : Dataset
        The samples.
    scaled : array of shape (r, m)
        The components, in the units of the scaled data.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    offsets : array of shape (n_sources, m), optional
        The offsets of the sources, if they have any.
    preparation : Preparation, optional
        How the data are scaled.
    """
    scaled = scaled.astype(data.dtype)
    attributes = {
        "components_": in_data_units(scaled, preparation),
        "_scaled_components": None if preparation is None else scaled,
        "noise_variance_": sigma2,
        "sources_": data.model_sources,
        "offsets_": offsets_for_users(offsets, preparation),
        "_scaled_offsets": offsets,
        "_preparation": preparation,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def order_by_size(result: Result, n: int, n_known: int = 0) -> NDArray[np.intp]:
    """Return the components in the order of their sizes, the largest first, shape (r,); known ones stay the first.

    Components that are no sample's largest membership come last, so that the labels in use are consecutive.
    """
    counts, sizes = result.profile.counts.sum(axis=0), result.profile.sizes.sum(axis=0)
    # Components that coincide have sizes that differ by rounding, which the number of nodes changes.
    order = np.lexsort((-np.round(sizes / n, 9), counts == 0))
    return np.concatenate([np.arange(n_known), order[order >= n_known]]) if n_known else order


def feature_attributes(data: Dataset) -> dict[str, Any]:
    """Return the attributes that describe the features of a dataset."""
    names = data.feature_names
    return {
        "n_features_in_": data.shape[1],
        "feature_names_in_": None if names is None else np.asarray(names, dtype=object),
    }


def excess_attributes(
    excess: NDArray[np.float64] | None, sigma2: NDArray[np.float64], n_features: int
) -> dict[str, Any]:
    """Return the attributes on the noise in the plane of the components.

    Parameters
    ----------
    excess : array of shape (n_sources,), optional
        The noise excess of each source; None with ``inference="map"``.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    n_features : int
        Number of features.
    """
    effective = None if excess is None else n_features / pooled(excess, sigma2)
    return {"noise_excess_": excess, "effective_features_": effective}


def learned_attributes(
    result: Result,
    data: Dataset,
    *,
    unit: str,
    source_names: NDArray[Any],
    order: NDArray[np.intp],
    labels: NDArray[np.intp] | None,
    seconds: float,
    seed: int | None,
) -> dict[str, Any]:
    """Return the attributes that a fit and a further batch have in common.

    Parameters
    ----------
    result : Result
        Of the algorithm.
    data : Dataset
        The samples.
    unit : str
        What the square roots of noise levels are measured in.
    source_names : array of shape (n_sources,)
        All sources of the model.
    order : array of int of shape (r,)
        The order in which to number the components.
    labels : array of int of shape (n,), optional
        The cluster of each sample, by its number in that order; -1 for one that was left out.
    seconds : float
        Time that the fit took.
    seed : int, optional
        Of the fit, for the record.
    """
    profile = result.profile.reordered(order)
    return {
        "sources_": source_names,
        "noise_variance_": result.sigma2,
        "profile_": profile,
        "_membership_sample": kept_sample(result.sample.reordered(order)),
        "cluster_sizes_": profile.sizes.sum(axis=0),
        "objective_": result.objective,
        "history_": result.history,
        "n_iter_": len(result.history),
        "fit_info_": _info(result, data, seconds, seed) | {"noise_unit": unit},
        "labels_": labels,
        "_past": result.past.reordered(order),
        "_uncertainty": None if result.uncertainty is None else result.uncertainty.reordered(order),
        "_w_errors": None,  # those of an earlier fit
    }


def _info(result: Result, data: Dataset, seconds: float, seed: int | None) -> dict[str, Any]:
    """Return facts about the fit, ready for JSON."""
    return {
        "n_samples": data.shape[0],
        "seconds": seconds,
        "converged": result.converged,
        "seed": seed,
        "dtype": data.dtype.name,
        "explained": float(result.explained[-1]),
        "explained_by_source": [None if np.isnan(part) else float(part) for part in result.explained[:-1]],
        "classes": None if data.class_names is None else data.class_names.tolist(),
        "data": None if data.about is None else dict(data.about),
        **({} if getattr(data, "weights", None) is None else {"weighted": True}),
    }
