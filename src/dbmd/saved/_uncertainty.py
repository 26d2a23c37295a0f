"""How uncertain the components of a model are, as arrays of a model directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dbmd._utils.fields import check_array
from dbmd.model.uncertainty import Uncertainty

PREFIX = "uncertainty_"


def uncertainty_arrays(known: Uncertainty | None) -> dict[str, Any]:
    """Return the arrays by name; none if nothing is known."""
    if known is None:
        return {}
    return {PREFIX + field.name: getattr(known, field.name) for field in fields(Uncertainty)}


def uncertainty_from(arrays: Mapping[str, Any], model: Any) -> Uncertainty | None:
    """Return what a model directory says, checked; None for a directory of an earlier release.

    Parameters
    ----------
    arrays : mapping of str to array
        All arrays of the directory.
    model : DBMD
        With its parameters, components and sources.
    """
    if PREFIX + "moments" not in arrays or model.inference != "evidence":
        return None
    r, k = len(model.components_), len(model.components_) + bool(model.brightness)
    shapes = {
        "apart": (model.components_.shape, 0.0),
        "moments": ((k, k), -float(r)),
        "n": ((len(model.sources_),), 0.0),
    }
    for name, (shape, least) in shapes.items():
        if PREFIX + name not in arrays:
            raise KeyError(PREFIX + name)
        check_array(PREFIX + name, arrays[PREFIX + name], shape, least=least)
    return Uncertainty(**{name: arrays[PREFIX + name] for name in shapes})
