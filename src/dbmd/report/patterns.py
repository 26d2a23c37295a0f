"""In which way components are shown: as lines, pictures, or bars and a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.report.basis import describe_features, describe_images, mean_of, used_of
from dbmd.report.ordered import Patterns, are_ordered, describe_lines

REBUILT = 200  # samples whose values say what range the data have


def describe_patterns(
    model: Any, shown: NDArray[np.intp], image_shape: tuple[int, ...] | None, patterns: Patterns
) -> dict[str, Any]:
    """Return what a page shows of the components; its ``kind`` is "lines", "images" or "features".

    Parameters
    ----------
    model : DBMD
        Fitted.
    shown : array of int
        The components to show, in their order.
    image_shape : tuple of int or None
        Checked.
    patterns : {"auto", "lines", "images", "bars"}
        Checked. "auto": pictures if their shape is known, lines if features are in order, bars otherwise.
    """
    W = np.asarray(model.components_, float)[shown]
    sizes = np.asarray(model.cluster_sizes_, float)[shown]
    names: Sequence[Any] | None = getattr(model, "feature_names_in_", None)
    std = getattr(model, "components_std_", None)
    std = None if std is None else np.asarray(std, float)[shown]
    if image_shape is not None and patterns in ("auto", "images"):
        return describe_images(W, sizes, image_shape, data_range(model))
    used = used_of(sizes)
    if patterns == "lines" or (patterns == "auto" and are_ordered(W[used], names)):
        return describe_lines(W, mean_of(W, sizes), std, used, names)
    return describe_features(W, sizes, names, std)


def data_range(model: Any) -> tuple[float, float] | None:
    """Return the lowest and the highest value of a typical sample without its noise; None if no samples are known.

    Components are corners of what samples are mixed from, so that their own values may lie far outside the data. So may
    those of a few samples whose noise put them into a corner: quartiles over the samples are taken.
    """
    sample = getattr(model, "membership_sample_", None)
    if sample is None or not len(sample):
        return None
    chosen = sample.taken(np.linspace(0, len(sample) - 1, min(len(sample), REBUILT)).round().astype(int))
    W = np.asarray(model.components_, float)
    ends = np.array([(values.min(), values.max()) for values in (h @ W for h in chosen.memberships)])
    return float(np.quantile(ends[:, 0], 0.25)), float(np.quantile(ends[:, 1], 0.75))
