"""Memberships of the pixels of a picture, whose rows are the samples: thinned to a size that can be kept and shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE = 256  # most pixels in a row or column of what is kept
TOP, NOTHING = 254, 255  # bytes: that of a membership of one, and that of a pixel without memberships


@dataclass(frozen=True)
class MembershipMap:
    """Memberships of the pixels of a picture, as bytes.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the picture; the samples are its pixels, row by row.
    values : array of uint8 of shape (r, height, width)
        Memberships times 254, means over blocks of pixels where the picture is larger than 256 x 256; 255 where there
        are none.
    """

    shape: tuple[int, int]
    values: NDArray[np.uint8]

    @classmethod
    def of(cls, memberships: NDArray[np.floating], shape: tuple[int, int]) -> MembershipMap:
        """Return the map of the memberships of all samples, shape (n, r)."""
        sums = MapSums(shape, memberships.shape[1])
        sums.add(0, memberships)
        return sums.map()

    @property
    def memberships(self) -> NDArray[np.float64]:
        """The memberships, shape (r, height, width); NaN where there are none."""
        return np.where(self.values == NOTHING, np.nan, self.values / TOP)


class MapSums:
    """Sums of memberships over blocks of pixels, to which samples are added piece by piece.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the picture.
    r : int
        Number of components.
    """

    def __init__(self, shape: tuple[int, int], r: int) -> None:
        self.shape = shape
        # Each side by itself, so that a long and narrow picture keeps its narrow side.
        self.steps = tuple(math.ceil(side / SIDE) for side in shape)
        self.thinned = tuple(math.ceil(side / step) for side, step in zip(shape, self.steps, strict=True))
        self.sums = np.zeros((r, math.prod(self.thinned)))
        self.counts = np.zeros(math.prod(self.thinned))

    def add(self, first: int, memberships: NDArray[np.floating]) -> None:
        """Add the memberships of consecutive samples, shape (n, r), from row ``first`` on. Rows of NaN are left out."""
        down, across = np.divmod(np.arange(first, first + len(memberships)), self.shape[1])
        place = (down // self.steps[0]) * self.thinned[1] + across // self.steps[1]
        there = ~np.isnan(memberships[:, 0])
        place, found = place[there], memberships[there]
        self.counts += np.bincount(place, minlength=len(self.counts))
        for k, column in enumerate(found.T):
            self.sums[k] += np.bincount(place, column, minlength=len(self.counts))

    def map(self) -> MembershipMap:
        """Return the means as bytes."""
        means = (self.sums / np.maximum(self.counts, 1)).clip(0, 1)
        values = np.where(self.counts > 0, np.rint(means * TOP), NOTHING).astype(np.uint8)
        return MembershipMap(self.shape, values.reshape(-1, *self.thinned))


def check_map_shape(map_shape: Sequence[int] | None, n_samples: int) -> tuple[int, int] | None:
    """Return the shape as a tuple of 2 ints, or raise a ValueError that says what is wrong with it."""
    if map_shape is None:
        return None
    shape = tuple(int(side) for side in map_shape)
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"map_shape must be (height, width). Got {shape}.")
    if math.prod(shape) != n_samples:
        side = math.isqrt(n_samples)
        hint = f" ({side}, {side}) would fit." if side * side == n_samples else ""
        raise ValueError(
            f"map_shape {shape} makes {math.prod(shape):,} pixels, but there are {n_samples:,} rows.{hint}"
        )
    return shape[0], shape[1]
