"""Between the units of the user's data and those of the scaled data, in which everything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd.config import Config
from dbmd.data.preparation import Preparation
from dbmd.model.known import Known
from dbmd.model.result import Result
from dbmd.model.statistics import Float

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

UNITS = {"standard": "standard deviations", "minmax": "ranges", "sum": "sums of samples", "l2": "norms of samples"}


def noise_unit(config: Config) -> str:
    """Return in a few words what the square root of a noise level is measured in."""
    data = "the log of the data" if config.log else "the data"
    if config.scaling is None:
        return data
    return f"{UNITS[config.scaling]} of {data}" if config.log else UNITS[config.scaling]


def in_scaled_units(rows: Float, preparation: Preparation | None) -> Float:
    """Return rows in the units of the data, shape (k, m), in those of the scaled data."""
    return rows if preparation is None else np.asarray(preparation.apply(rows), np.float64)


def in_data_units(rows: NDArray[Any], preparation: Preparation | None) -> NDArray[Any]:
    """Return rows in the units of the scaled data, shape (k, m), in those of the data, of the same type."""
    if preparation is None:
        return rows
    return np.asarray(preparation.to_data_units(rows.astype(np.float64)), np.float64).astype(rows.dtype)


def known_in_scaled_units(
    config: Config, n_features: int, feature_names: Any, preparation: Preparation | None
) -> Float | None:
    """Return the known components as the algorithm takes them, shape (n_features, n_known); None if there are none."""
    known = config.known_components(n_features, None if feature_names is None else [*map(str, feature_names)])
    return None if known is None else in_scaled_units(known, preparation).T


def change_of_scale(model: DBMD, preparation: Preparation | None) -> Float | float:
    """Return by what to multiply what the last fit found for data that are scaled anew: shape (m,), or one number."""
    before = getattr(model, "_preparation", None)
    old, new = (1.0 if each is None or each.scale is None else each.scale for each in (before, preparation))
    return old / new


def unit_attributes(
    result: Result,
    config: Config,
    preparation: Preparation | None,
    *,
    order: NDArray[np.intp],
    dtype: np.dtype[Any],
    feature_names: Any = None,
) -> dict[str, Any]:
    """Return the attributes of a fitted estimator that have a unit, and the names of components.

    Parameters
    ----------
    result : Result
        Of the algorithm, in the units of the scaled data.
    config : Config
        The parameters.
    preparation : Preparation, optional
        How the data were scaled; None: not at all.
    order : array of int of shape (r,)
        The order in which to number the components.
    dtype : dtype
        Of the data.
    feature_names : sequence of str of shape (m,), optional
        Names of the features.
    """
    scaled = result.W.T.astype(dtype)[order]
    components = in_data_units(scaled, preparation)
    if preparation is not None and preparation.by_sample is None and config.known is not None:
        # As they were given: there and back again, they would differ by rounding.
        names = None if feature_names is None else [*map(str, feature_names)]
        components[: config.n_known] = config.known_components(len(result.W), names)
    return {
        "components_": components,
        "_scaled_components": None if preparation is None else scaled,
        "component_names_": None if config.known is None else Known.of(config.known).component_names(len(order)),
        "scale_": None if preparation is None else preparation.scale,
        "offsets_": offsets_for_users(result.offsets, preparation),
        "offset_variance_": result.offset_variance,
        "_scaled_offsets": result.offsets,
        "_preparation": preparation,
    }


def offsets_for_users(offsets: Float | None, preparation: Preparation | None) -> Float | None:
    """Return offsets, shape (n_sources, m), in the units of the data where these differ by factors only."""
    if offsets is None or preparation is None or preparation.scale is None or preparation.log:
        return offsets
    return offsets * preparation.scale


def coefficients(H: NDArray[Any], components: NDArray[Any], *, by_energy: bool) -> NDArray[Any]:
    """Return the coefficients of components that memberships stand for, shape (n, r), rows that sum to one.

    Parameters
    ----------
    H : array of shape (n, r)
        Memberships.
    components : array of shape (r, m)
        In the units of the scaled data.
    by_energy : bool
        Whether memberships are coefficients multiplied by the norms of the components.
    """
    if not by_energy:
        return H
    norms = np.linalg.norm(components, axis=1)
    parts = np.divide(H, norms, out=np.zeros_like(H), where=norms > 0.0)
    total = parts.sum(axis=1, keepdims=True)
    return np.divide(parts, total, out=H.copy(), where=total > 0.0)
