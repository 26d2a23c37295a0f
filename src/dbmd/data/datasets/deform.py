"""Deformed copies of images: shifted, rotated, scaled, and bent as if the paper were rubber (Simard et al. 2003)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 28
PADDED = SIDE + 3  # one pixel before, two after: every pixel read has a next one
CENTRE = np.float32((SIDE - 1) / 2)
# Standard deviations: angle in radians, logarithm of the scale, shifts and bending in pixels. Chosen out of four
# strengths so that copies differ to the eye, and k-means does about as well on them as on the originals: accuracy 0.50
# beside 0.52 on 6,000 images; with shifts of a pixel and all else half as strong again, 0.38.
MOTION = np.array([0.08, 0.05, 0.5, 0.5], np.float32)
BEND = np.float32(0.7)
# The bending is a sum of bumps at the points of a grid, random in height: smooth over the width of a bump, in pixels.
GRID = 6
WIDTH = 4.0
N_NUMBERS = len(MOTION) + 2 * GRID * GRID


def _bumps() -> NDArray[np.float32]:
    """Return bumps along a line, shape (GRID, SIDE), scaled so that random heights bend every pixel alike."""
    distance = np.arange(SIDE) - np.linspace(0.0, SIDE - 1.0, GRID)[:, None]
    bumps = np.exp(-0.5 * (distance / WIDTH) ** 2)
    return (bumps / np.linalg.norm(bumps, axis=0)).astype(np.float32)


BUMPS = _bumps()


def deform(images: NDArray[np.float32], numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a deformed copy of each image.

    Pixel p of a copy is read from the image at  A (p - centre) + centre + shift + bending(p),  A a rotation with a
    scale, between the pixels there by linear interpolation; beyond the edges an image is black.

    Parameters
    ----------
    images : array, shape (n, SIDE, SIDE), float32
        Pixels in [0, 1].
    numbers : array, shape (n, N_NUMBERS), float32
        Of a standard normal distribution: they say how. An image whose numbers are all 0 stays as it is.

    Returns
    -------
    array, shape (n, SIDE, SIDE), float32
        Pixels in [0, 1].
    """
    angle, scale, shift_y, shift_x = (numbers[:, : len(MOTION)] * MOTION).T[:, :, None, None]
    cos, sin = np.exp(scale) * np.cos(angle), np.exp(scale) * np.sin(angle)
    # One small product for each image, not a large one for all, whose rounding would depend on their number.
    heights = BEND * numbers[:, len(MOTION) :].reshape(-1, 2, GRID, GRID)
    bend_y, bend_x = (BUMPS.T @ heights @ BUMPS).swapaxes(0, 1)
    x = np.arange(SIDE, dtype=np.float32) - CENTRE
    y = x[:, None]
    rows = cos * y - sin * x + (shift_y + CENTRE) + bend_y
    columns = sin * y + cos * x + (shift_x + CENTRE) + bend_x
    return _read_at(images, rows, columns)


def _read_at(images: NDArray[np.float32], y: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return pixels of each image at rows y and columns x, which may lie between the pixels, or beyond the edges."""
    padded = np.zeros((len(images), PADDED, PADDED), np.float32)
    padded[:, 1 : SIDE + 1, 1 : SIDE + 1] = images
    pixels = padded.ravel()
    y, x = np.clip(y + 1.0, 0.0, SIDE + 1.0), np.clip(x + 1.0, 0.0, SIDE + 1.0)
    row, column = y.astype(np.intp), x.astype(np.intp)
    index = (np.arange(len(images))[:, None, None] * PADDED + row) * PADDED + column
    x -= column
    y -= row
    upper = _between(pixels.take(index), pixels[1:].take(index), x)
    lower = _between(pixels[PADDED:].take(index), pixels[PADDED + 1 :].take(index), x)
    return np.clip(_between(upper, lower, y), 0.0, 1.0)  # rounding errors


def _between(
    first: NDArray[np.float32], second: NDArray[np.float32], fraction: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return first + fraction (second - first), in the memory of second."""
    second -= first
    second *= fraction
    second += first
    return second
