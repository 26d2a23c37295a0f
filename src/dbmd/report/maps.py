"""Memberships as maps, where the samples are the pixels of a picture."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbmd.model.membership_map import NOTHING, TOP, MembershipMap, check_map_shape

PIXELS = 480_000  # in all maps together; 4/3 as many characters on the page


def map_of(memberships: Any, map_shape: Sequence[int] | None, r: int) -> MembershipMap | None:
    """Return the map to show, from what a caller gave; None if there is nothing to show.

    Parameters
    ----------
    memberships : array of shape (n, r), MembershipMap or None
        Of all samples, in the order of their rows.
    map_shape : sequence of int or None
        (height, width); None: that of the MembershipMap.
    r : int
        Components of the model.
    """
    if isinstance(memberships, MembershipMap):
        if map_shape is not None and tuple(map_shape) != memberships.shape:
            raise ValueError(f"map_shape {tuple(map_shape)} is not that of the map, {memberships.shape}.")
        return memberships
    if map_shape is None:
        return None
    if memberships is None:
        raise ValueError("map_shape needs memberships, those of all rows: memberships=model.transform(X).")
    H = _checked(memberships, r)
    shape = check_map_shape(map_shape, len(H))
    return None if shape is None else MembershipMap.of(H, shape)


def _checked(memberships: ArrayLike, r: int) -> NDArray[Any]:
    H = np.asarray(memberships)
    if H.ndim != 2 or H.shape[1] != r or H.dtype.kind not in "fiu":
        raise ValueError(f"memberships must be numbers of shape (n_samples, {r}). Got {H.dtype} of shape {H.shape}.")
    if H.size and not (np.nanmin(H) >= -1e-3 and np.nanmax(H) <= 1 + 1e-3):
        raise ValueError("memberships must lie between 0 and 1.")
    return H


def describe_maps(found: MembershipMap | None, clusters: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return a map of bytes for each of the clusters shown, and one of the clusters themselves.

    ``cluster`` has for each pixel the place of its cluster among those shown, 254 for one that is not shown, and 255
    where there are no memberships.
    """
    if found is None:
        return None
    leading = found.memberships
    _, height, width = leading.shape
    budget = PIXELS / (len(clusters) + 1)
    step = math.ceil(math.sqrt(max(height * width / budget, 1.0)))
    leading = _shrink(leading, step)
    missing = np.isnan(leading[0])
    place = np.full(len(leading), TOP)
    place[clusters] = np.arange(len(clusters))
    cluster = np.where(missing, NOTHING, place[np.nan_to_num(leading).argmax(axis=0)]).astype(np.uint8)
    values = np.where(missing, NOTHING, np.rint(np.nan_to_num(leading[clusters]) * TOP)).astype(np.uint8)
    return {
        "shape": list(found.shape),
        "height": leading.shape[1],
        "width": leading.shape[2],
        "values": b64encode(values.tobytes()).decode("ascii"),
        "cluster": b64encode(cluster.tobytes()).decode("ascii"),
        "missing": bool(missing.any()),
    }


def _shrink(maps: NDArray[Any], step: int) -> NDArray[Any]:
    """Return means over squares of ``step`` pixels, of those that have memberships; edges may be smaller."""
    if step == 1:
        return maps
    starts = [np.arange(0, side, step) for side in maps.shape[1:]]
    there = ~np.isnan(maps)

    def sums(values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.add.reduceat(np.add.reduceat(values, starts[0], axis=1), starts[1], axis=2))

    counts = sums(there.astype(float))
    return np.divide(sums(np.where(there, maps, 0.0)), counts, out=np.full(counts.shape, np.nan), where=counts > 0)
