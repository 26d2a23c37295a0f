"""The map of the memberships, as a file of a model directory: the page can be drawn again without the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dbmd._utils.fields import check_array
from dbmd._utils.model_files import MAP
from dbmd.errors import first_line
from dbmd.model.membership_map import MembershipMap
from dbmd.storage import from_npz, to_npz, write_file


def write_map(found: MembershipMap, directory: Path) -> None:
    """Write a map into a model directory, whole or not at all."""
    write_file(directory / MAP, to_npz({"shape": np.array(found.shape, np.int64), "values": found.values}))


def read_map(directory: Path, r: int, n_samples: int) -> MembershipMap | None:
    """Return the map that a model directory has, checked; None if it has none.

    Parameters
    ----------
    directory : Path
        Of the model.
    r, n_samples : int
        Components of the model, and rows of the data of its fit.
    """
    path = directory / MAP
    if not path.exists():
        return None
    try:
        arrays = from_npz(path)
        shape, values = arrays["shape"], arrays["values"]
        check_array("shape", shape, (2,), "i", least=1.0)
        if values.dtype != np.uint8 or values.ndim != 3 or len(values) != r or 0 in values.shape:
            raise ValueError(
                f"values must be bytes of shape ({r}, height, width) and are {values.dtype} {values.shape}"
            )
        if int(shape[0]) * int(shape[1]) != n_samples:
            raise ValueError(f"shape must make {n_samples:,} pixels and is {tuple(shape.tolist())}")
    except Exception as error:  # a damaged file may raise anything
        reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise ValueError(f"{path} is not a sound map: {reason}. Remove it, and make it again.") from error
    return MembershipMap((int(shape[0]), int(shape[1])), values)
