"""Handwritten digits of 8 x 8 pixels, which come with scikit-learn."""

from __future__ import annotations

import numpy as np

from dbmd.data.datasets.labelled import Draw, Labelled


def load(draw: Draw) -> Labelled:
    """Return 1,797 images, pixels from 0 to 16."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = draw.rows(len(found.target))
    return Labelled(
        name="digits",
        X=found.data[rows].astype(np.float32),
        y=found.target[rows],
        about="1,797 handwritten digits of 8 x 8 pixels, as they come with scikit-learn.",
        surrogate=False,
        feature_names=tuple(found.feature_names),
    )
