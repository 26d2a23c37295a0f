"""The memberships of some samples, as arrays of a model directory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbmd._utils.fields import check_array
from dbmd.model.membership_sample import MembershipSample

NAMES = ("rows", "source_codes", "class_codes", "memberships", "std")
PREFIX = "sample_"


def sample_arrays(sample: MembershipSample | None) -> dict[str, Any]:
    """Return the arrays of a sample by name; none if there is no sample."""
    if sample is None:
        return {}
    arrays = {PREFIX + name: getattr(sample, name) for name in NAMES}
    return {name: values for name, values in arrays.items() if values is not None}


def sample_from(arrays: Mapping[str, Any], r: int, n_sources: int, n_classes: int) -> MembershipSample | None:
    """Return the sample that a model directory has, checked; None for a directory of an earlier release.

    Parameters
    ----------
    arrays : mapping of str to array
        All arrays of the directory.
    r, n_sources, n_classes : int
        Components, sources and known classes of the model.
    """
    if PREFIX + "rows" not in arrays:
        return None
    values: dict[str, Any] = {name: arrays.get(PREFIX + name) for name in NAMES}
    k = len(values["rows"])
    for name, least, most in (("rows", 0, None), ("source_codes", 0, n_sources), ("class_codes", -1, n_classes)):
        codes = values[name]
        if codes is None:
            raise KeyError(PREFIX + name)
        check_array(PREFIX + name, codes, (k,), "i", least=float(least))
        if most is not None and codes.max(initial=-1) >= max(most, 0) and len(codes):
            raise ValueError(f"{PREFIX}{name} must be < {most} and has {codes.max()}")
    if values["memberships"] is None:
        raise KeyError(f"{PREFIX}memberships")
    for name in ("memberships", "std"):
        if values[name] is not None:
            check_array(PREFIX + name, values[name], (k, r), least=0.0)
    return MembershipSample(**values, limit=MembershipSample.empty(n_sources, r).limit)
