"""CoverType: forest cover of 581,012 patches of land, 54 features, 7 classes."""

from __future__ import annotations

import numpy as np

from dbmd.data.datasets.labelled import Draw, Labelled
from dbmd.data.datasets.origin import fetched, folder, reading

# Ten measurements, then indicators, which the two origins name differently: here as in the set's description.
N_MEASURED = 10
INDICATORS = (*(f"Wilderness_Area{i}" for i in range(1, 5)), *(f"Soil_Type{i}" for i in range(1, 41)))


def load(draw: Draw) -> Labelled:
    """Return the features as they are, classes from 1 to 7."""
    found = folder("covtype")
    if found is not None:
        path = found / "covtype.npz"
        with reading(path), path.open("rb") as content, np.load(content) as file:
            X, y, names = file["X"], file["y"], file["columns"][:-1]
            if X.shape != (len(y), N_MEASURED + len(INDICATORS)):
                raise ValueError(f"X has shape {X.shape}, y {y.shape}")
    else:
        from sklearn.datasets import fetch_covtype

        bunch = fetched(fetch_covtype, "covtype", "covtype.npz")
        X, y, names = bunch.data, bunch.target, bunch.feature_names
    rows = draw.rows(len(y))
    return Labelled(
        name="CoverType",
        X=np.ascontiguousarray(X[rows], np.float32),
        y=y[rows].astype(np.int64),
        about="Forest cover of patches of land (UCI Covertype), the features as they are.",
        surrogate=False,
        feature_names=(*(str(name) for name in names[:N_MEASURED]), *INDICATORS),
    )
