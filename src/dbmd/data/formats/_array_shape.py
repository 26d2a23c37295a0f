"""What is a sample in an array: a row, a column, or a pixel of a picture."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dbmd.data.formats._reader import check_width
from dbmd.data.location import Location
from dbmd.errors import DataError


class ArrayShape(NamedTuple):
    """An array as a table.

    Attributes
    ----------
    n, m : int
        Number of samples and of features.
    map_shape : tuple of int or None
        Height and width, if the samples are the pixels of a picture, line by line.
    """

    n: int
    m: int
    map_shape: tuple[int, int] | None


def array_shape(
    location: Location, shape: tuple[int, ...], dtype: np.dtype[Any], memory: int, *, transpose: bool
) -> ArrayShape:
    """Return how an array is read. Raises a DataError if it holds no numbers, or has no such shape.

    Parameters
    ----------
    location : Location
        Its file, for error messages.
    shape : tuple of int
        (n, m), or height, width and features of a picture; transposed (m, n), or features, height and width.
    dtype : dtype
        Type of its entries.
    memory : int
        Bytes, which limit the number of features.
    transpose : bool
        Whether it is transposed.
    """
    if dtype.kind not in "biuf":
        raise DataError(f"{location}: must hold numbers. Got an array of type {dtype}.")
    if len(shape) not in (2, 3):
        raise DataError(
            f"{location}: must be an array of shape (samples, features), or a picture of shape (height, width, "
            f"features). Got shape {shape}."
        )
    if len(shape) == 3 and shape[1] == shape[2] and not transpose:
        raise DataError(
            f"{location}: of shape {shape}, may be {shape[0]} images of {shape[1]} x {shape[2]} pixels, or one picture "
            f"with {shape[2]} features. Save it in two dimensions: array.reshape({shape[0]}, -1) for images, "
            f"array.reshape(-1, {shape[2]}) for a picture."
        )
    m, *sides = shape if transpose else (shape[-1], *shape[:-1])
    check_width(location, m, memory)
    height, width = sides if len(sides) == 2 else (sides[0], 1)
    return ArrayShape(height * width, m, (height, width) if len(sides) == 2 else None)
