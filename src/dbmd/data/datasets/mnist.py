"""MNIST: 70,000 handwritten digits of 28 x 28 pixels; and a surrogate of a set of 400,000."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dbmd.data.datasets.deform import N_NUMBERS, SIDE, deform
from dbmd.data.datasets.labelled import Draw, Labelled
from dbmd.data.datasets.origin import fetched, folder, reading

PARTS = ("train", "t10k")
N_400K = 400_000
BATCH = 256  # images that are deformed at a time: their arrays stay in the cache


def load(draw: Draw) -> Labelled:
    """Return the 60,000 training images, then the 10,000 test images, pixels in [0, 1]."""
    images, y = _read()
    rows = draw.rows(len(y))
    return Labelled(
        name="MNIST",
        X=_shares(images[rows]).reshape(-1, SIDE * SIDE),
        y=y[rows],
        about="Handwritten digits of 28 x 28 pixels (MNIST), training images before test images, pixels in [0, 1].",
        surrogate=False,
    )


def load_400k(draw: Draw) -> Labelled:
    """Return a surrogate of a set of 400,000 images: those of MNIST, and deformed copies of them.

    Image i is a copy of image i mod 70,000. How it is deformed depends on the seed and i alone.
    """
    images, y = _read()
    rows = draw.rows(N_400K)
    # The numbers of all images are drawn, whichever are wanted: that takes a fraction of a second. N_400K in the seed
    # makes them other numbers than those that decide which are wanted.
    numbers = np.random.default_rng([draw.seed, N_400K]).standard_normal((N_400K, N_NUMBERS), dtype=np.float32)
    numbers[: len(y)] = 0.0  # the originals
    X = np.empty((len(rows), SIDE * SIDE), np.float32)
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        X[start : start + BATCH] = deform(_shares(images[batch % len(y)]), numbers[batch]).reshape(-1, SIDE * SIDE)
    return Labelled(
        name="MNIST, surrogate with 400,000 images",
        X=X,
        y=y[rows % len(y)],
        about=(
            "A surrogate of a set of 400,000 handwritten digits: the 70,000 of MNIST, and copies of them that are "
            "shifted, rotated, scaled and elastically deformed; pixels in [0, 1]."
        ),
        surrogate=True,
    )


def _shares(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return pixels as shares of the brightest."""
    return np.divide(images, 255, dtype=np.float32)


def _read() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images, shape (n, 28, 28), and digits."""
    found = folder("mnist")
    if found is None:
        from sklearn.datasets import fetch_openml

        files = "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and the same two of t10k"
        bunch = fetched(fetch_openml, "mnist", files, name="mnist_784", version=1, as_frame=False)
        return bunch.data.astype(np.uint8).reshape(-1, SIDE, SIDE), bunch.target.astype(np.int64)
    images, digits = [], []
    for part in PARTS:
        images.append(_idx(found / f"{part}-images-idx3-ubyte.gz", 3))
        path = found / f"{part}-labels-idx1-ubyte.gz"
        digits.append(_idx(path, 1))
        with reading(path):
            if len(digits[-1]) != len(images[-1]):
                raise ValueError(f"it has {len(digits[-1]):,} digits for {len(images[-1]):,} images")
    return np.concatenate(images), np.concatenate(digits).astype(np.int64)


def _idx(path: Path, n_axes: int) -> NDArray[np.uint8]:
    """Return an array of bytes from a file: two zeros, 8 for bytes, number of axes, their lengths, the entries."""
    with reading(path):
        content = gzip.decompress(path.read_bytes())
        if content[:4] != bytes([0, 0, 8, n_axes]):
            raise ValueError(f"it is no idx file of bytes with {n_axes} axes")
        lengths = np.frombuffer(content, ">i4", n_axes, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(lengths)
