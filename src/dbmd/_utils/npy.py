"""Careful reading of NumPy's formats: no memory is allocated for data that a file only claims to have."""

from __future__ import annotations

import io
import math
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_HEADER = 10_000  # bytes, the limit of NumPy, which checks it only after reading


def read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether it is in Fortran order, and type of an array; raise a ValueError if it is none.

    Parameters
    ----------
    stream : file
        Open at the beginning of the array; afterwards, at its first number.
    """
    version = np.lib.format.read_magic(stream)
    digits = stream.read(2 if version == (1, 0) else 4)
    size = int.from_bytes(digits, "little")
    if size > MOST_HEADER:
        raise ValueError(f"the header of an array says that it takes {size} bytes, more than {MOST_HEADER}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(io.BytesIO(digits + stream.read(size)))
    if min(shape, default=0) < 0:
        raise ValueError(f"the header of an array says that its shape is {shape}")
    return shape, is_fortran, dtype


def read_member(archive: zipfile.ZipFile, name: str, most: int) -> NDArray[Any]:
    """Return an array of an npz archive; raise a ValueError if it takes more bytes than ``most``. No pickle is read."""
    size = archive.getinfo(name).file_size  # no more than this is decompressed
    if size > most:
        raise ValueError(f"{name} takes {size} bytes, more than {most}")
    with archive.open(name) as stream:
        shape, _, dtype = read_header(stream)
        if math.prod(shape) * dtype.itemsize > size:
            raise ValueError(f"{name} says that its shape is {shape}, which takes more than its {size} bytes")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
