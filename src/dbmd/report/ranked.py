"""The features in which each component differs most from the others, as ranked lists of bounded length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.report.plain import numbers, text

LISTED, ENTRIES = 300, 6_000  # most features listed for a component, and for all of them
NAME = 40  # characters of a name in a list


def describe_ranked(
    W: NDArray[Any],
    mean: NDArray[Any],
    weight: NDArray[Any],
    std: NDArray[Any] | None,
    names: Sequence[Any] | None,
) -> dict[str, Any]:
    """Return for each component, shape (r, m), its features by their difference from the mean, largest first.

    Parameters
    ----------
    W : array of shape (r, m)
        The components.
    mean, weight : array of shape (m,)
        What they are compared with, and by what differences are multiplied before they are ranked: features in
        different units are made comparable.
    std : array of shape (r, m), optional
        Standard deviations.
    names : sequence of str, optional
        Of the features.
    """
    r, m = W.shape
    count = max(min(m, LISTED, ENTRIES // r), 1)
    strength = np.abs((W - mean) * weight)
    order = np.argsort(-strength, axis=1, kind="stable")[:, :count]
    features, places = np.unique(order, return_inverse=True)
    places = places.reshape(order.shape)
    return {
        "total": m,
        "count": count,
        "names": [f"feature {j}" if names is None else text(names[j], NAME) for j in features],
        "mean": numbers(mean[features]),
        "lists": places.tolist(),
        "values": numbers(np.take_along_axis(W, order, axis=1)),
        "std": None if std is None else numbers(np.take_along_axis(std, order, axis=1)),
        # Where features have units of their own, bars show differences in units of the spread between components.
        "relative": None if (weight == 1).all() else numbers(weight[features]),
    }
