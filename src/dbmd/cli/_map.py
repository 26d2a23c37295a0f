"""The map of memberships that ``dbmd fit --map-shape`` keeps in the model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dbmd.dataset import Dataset
from dbmd.engines.local import available_threads
from dbmd.errors import first_line
from dbmd.estimator._memberships import membership_model
from dbmd.estimator.fitted import FittedArrays
from dbmd.memberships import iter_memberships
from dbmd.model.membership_map import MapSums, MembershipMap
from dbmd.saved.membership_map import read_map
from dbmd.storage import open_file


def collect_map(model: Any, data: Dataset, shape: tuple[int, int]) -> MembershipMap:
    """Return the memberships of all rows of a dataset as a map: one pass, a few windows in memory at a time."""
    arrays = FittedArrays.of(model)
    block = data.nodes(1, arrays.parts.n_patterns)[0].samples
    block = block if arrays.preparation is None else arrays.preparation.of(block)
    sums = MapSums(shape, arrays.n_components)
    for window, Ht, _ in iter_memberships(block, membership_model(arrays, data), n_threads=available_threads()):
        sums.add(window.first, Ht)
    return sums.map()


def saved_map(model: Any, directory: Path) -> MembershipMap | None:
    """Return the map in the directory of a model, or None."""
    return read_map(directory, len(model.components_), int(model.fit_info_["n_samples"]))


def read_memberships(path: Path) -> np.ndarray[Any, Any]:
    """Return the memberships in an npy file of ``dbmd transform``."""
    with open_file(path) as file:
        try:
            found: np.ndarray[Any, Any] = np.lib.format.read_array(file, allow_pickle=False)
        except Exception as error:  # what NumPy raises on bytes gone wrong is not written down anywhere
            raise ValueError(f"{path}: cannot be read as an npy file of memberships ({first_line(error)}).") from error
    return found
