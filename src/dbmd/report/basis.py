"""The basis as the report shows it: the features in which the components differ, or pictures."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.report.plain import number, numbers, text
from dbmd.report.ranked import describe_ranked

FEATURES = 64  # most rows of the heat map
FEW = 12  # up to here features stay in their own order
TOP = 6  # features named for each component
HALF = 0.5  # of the highest value: a scale starts at zero if the lowest is below
SIGNED = 0.2  # of the highest value: data go below zero if the lowest is further below
FAINT = 0.05  # of the largest difference: what is below is not worth naming
UNUSED = 1e-3  # fraction of all memberships up to which a component does not set the scale
UNEQUAL = 10.0  # ratio of standard deviations from which each feature has its own scale
PIXELS = 400_000  # in all pictures together; about 4/3 as many characters on the page
SIDE = 160  # longest side of a picture


def check_image_shape(image_shape: Sequence[int] | None, n_features: int) -> tuple[int, ...] | None:
    """Return the shape as a tuple of 2 or 3 ints, or raise a ValueError that says what is wrong with it."""
    if image_shape is None:
        return None
    shape = tuple(int(side) for side in image_shape)
    if len(shape) not in (2, 3) or min(shape) < 1 or (len(shape) == 3 and shape[2] != 3):
        raise ValueError(f"image_shape must be (height, width) or (height, width, 3). Got {shape}.")
    if math.prod(shape) != n_features:
        side = math.isqrt(n_features)
        hint = f" ({side}, {side}) would fit." if side * side == n_features else ""
        raise ValueError(
            f"image_shape {shape} makes {math.prod(shape):,} values, but the model has {n_features:,} features.{hint}"
        )
    return shape


def describe_features(
    W: NDArray[Any], sizes: NDArray[Any], names: Sequence[Any] | None, std: NDArray[Any] | None = None
) -> dict[str, Any]:
    """Return the heat map of the components, shape (r, m), and for each of them the features that stand out.

    A feature stands out in a component by its difference from the mean of the components, weighted by their sizes.
    Where there are many features, each component chooses one in turn, so that none is left without a row.
    """
    r, m = W.shape
    mean, used = mean_of(W, sizes), used_of(sizes)
    difference = W - mean
    leading = _leading(np.abs(difference), FEATURES)
    shown = np.arange(m) if m <= FEATURES else _in_turn(leading[used], FEATURES)
    deviation = difference[np.ix_(used, shown)].std(axis=0)
    own_scale = bool(deviation.max() > UNEQUAL * np.median(deviation)) if deviation.any() else False
    if m > FEATURES or (names is not None and m > FEW):
        # By the component in which a feature is highest: rows that belong together lie together.
        highest = difference[:, shown].argmax(axis=0)
        shown = shown[np.lexsort((-difference[highest, shown], highest))]

    def name(feature: int) -> str:
        return text(names[feature]) if names is not None else f"feature {feature}"

    weight = rank_weight(difference[used])
    leading = _leading(np.abs(difference * weight), FEATURES)
    top = []
    for k in range(r):
        strength = np.abs(difference[k] * weight)
        worth = [j for j in leading[k][:TOP] if strength[j] > FAINT * strength.max()]
        top.append([{"name": name(j), "value": number(W[k, j]), "difference": number(difference[k, j])} for j in worth])
    return {
        "kind": "features",
        "total": m,
        "named": names is not None,
        "features": [name(j) for j in shown],
        "mean": numbers(mean[shown]),
        "values": numbers(W[:, shown].T),
        "own_scale": own_scale,
        "used": used.tolist(),
        "top": top,
        "ranked": describe_ranked(W, mean, weight, std, names),
    }


def rank_weight(difference: NDArray[Any]) -> NDArray[Any]:
    """Return by what differences from the mean, shape (r, m), are multiplied before they are ranked, shape (m,).

    A few features of very different spread have units of their own: each is divided by its standard deviation.
    """
    m = difference.shape[1]
    own = difference.std(axis=0)
    if m > FEATURES or not own.max() > UNEQUAL * np.median(own):
        return np.ones(m)
    return np.asarray(np.divide(1, own, out=np.zeros(m), where=own > 0))


def describe_images(
    W: NDArray[Any], sizes: NDArray[Any], shape: tuple[int, ...], data_range: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return the components, shape (r, m), as pictures of bytes: their values and, if grey, what sets them apart.

    All pictures have one scale, which is that of the data: components lie at the corners of the data and beyond, and
    what is beyond is shown as the end of the scale. ``beyond`` says at which ends there is such.
    """
    used = used_of(sizes)
    r, channels = len(W), shape[2] if len(shape) == 3 else 1
    pictures = W.reshape(r, shape[0], shape[1], channels).astype(float)
    views = 1 if channels == 3 else 2
    largest = math.sqrt(PIXELS / (r * channels * views))  # side of a square picture that the budget allows
    step = math.ceil(max(math.sqrt(shape[0] * shape[1]) / largest, max(shape[:2]) / SIDE, 1.0))
    pictures = _shrink(pictures, step)
    lowest, highest = float(pictures[used].min()), float(pictures[used].max())
    low, high, signed = _scale(*(data_range or (lowest, highest)), in_colours=channels == 3)
    description = {
        "kind": "images",
        "signed": signed,
        "height": pictures.shape[1],
        "width": pictures.shape[2],
        "channels": channels,
        "shape": list(shape),
        "values": _bytes(pictures, low, high),
        "beyond": [lowest < low - FAINT * (high - low), highest > high + FAINT * (high - low)],
    }
    if channels == 1:
        difference = pictures - mean_of(pictures, sizes)
        bound = float(np.abs(difference[used]).max())
        description["difference"] = _bytes(difference, -bound, bound)
    return description


def _scale(low: float, high: float, *, in_colours: bool) -> tuple[float, float, bool]:
    """Return the ends of the scale of pictures, and whether zero is in its middle, from the range of the data."""
    if in_colours:  # what screens show goes from zero to one, or to the largest number of a few bits
        for most in (1.0, 255.0, 65535.0):
            if -FAINT * most <= low and 0.3 * most <= high <= (1 + FAINT) * most:
                return 0.0, most, False
        return low, high, False
    if low < -SIGNED * high:  # zero in the middle: below and above it are two colours
        bound = max(-low, high)
        return -bound, bound, True
    return (0.0 if low < HALF * high else low), high, False  # from zero, unless that is far from all values


def mean_of(W: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of the components, weighted by size: one without samples may have any values."""
    return np.asarray(np.average(W, axis=0, weights=sizes if sizes.sum() > 0 else None))


def used_of(sizes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the numbers of the components that hold samples, for they set the scale; of all if none does."""
    used = np.flatnonzero(sizes > UNUSED * sizes.sum())
    return used if len(used) else np.arange(len(sizes))


def _leading(strength: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return for each row of (r, m) the columns with its ``count`` largest entries, largest first."""
    count = min(count, strength.shape[1])
    if count < strength.shape[1]:
        columns = np.argpartition(-strength, count - 1, axis=1)[:, :count]
    else:
        columns = np.tile(np.arange(count), (len(strength), 1))
    order = np.argsort(-np.take_along_axis(strength, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def _in_turn(leading: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return the first ``count`` different entries of (r, k), column by column."""
    return np.array(list(dict.fromkeys(leading.T.ravel().tolist()))[:count], dtype=np.intp)


def _shrink(pictures: NDArray[Any], step: int) -> NDArray[Any]:
    """Return means over squares of ``step`` pixels; those at the far edges may be smaller."""
    for axis in (1, 2):
        starts = np.arange(0, pictures.shape[axis], step)
        sums = np.add.reduceat(pictures, starts, axis=axis)
        lengths = np.diff(np.append(starts, pictures.shape[axis]))
        pictures = sums / lengths.reshape([-1 if a == axis else 1 for a in range(4)])
    return pictures


def _bytes(pictures: NDArray[Any], low: float, high: float) -> dict[str, Any]:
    scaled = (pictures - low) / (high - low) if high > low else np.full(pictures.shape, 0.5)
    data = np.rint(255 * scaled.clip(0, 1)).astype(np.uint8).tobytes()
    return {"low": number(low), "high": number(high), "data": b64encode(data).decode("ascii")}
