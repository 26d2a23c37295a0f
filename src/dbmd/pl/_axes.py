"""Axes and colours, which all figures need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PANEL = (3.0, 2.6)  # inches of one of several panels
COLUMNS = 5  # most panels side by side
ZERO = "0.6"  # colour of lines that only guide the eye


def one(ax: Any, width: float = 6.4, height: float = 4.0) -> Any:
    """Return axes to draw on: those that are given, or those of a new figure of so many inches."""
    return ax if ax is not None else _pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def several(axes: Any, count: int, panel: tuple[float, float] = PANEL) -> NDArray[Any]:
    """Return axes for so many panels, shape (count,): the first of those that are given, or those of a new figure."""
    if axes is None:
        columns = min(count, COLUMNS)
        rows = math.ceil(count / columns)
        size = (panel[0] * columns, panel[1] * rows)
        grid = _pyplot().subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)[1].ravel()
        for unused in grid[count:]:
            unused.set_axis_off()
        return np.asarray(grid[:count], dtype=object)
    flat = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(flat) < count:
        raise ValueError(f"axes must have room for {count} panels. Got {len(flat)}.")
    return flat[:count]


def colours(count: int) -> list[Any]:
    """Return a colour for each of so many things: those of the style, or evenly spaced ones where it has too few."""
    plt = _pyplot()
    cycle = [each["color"] for each in plt.rcParams["axes.prop_cycle"] if "color" in each]
    return cycle[:count] if len(cycle) >= count else list(plt.get_cmap("turbo")(np.linspace(0.05, 0.95, count)))


def names_of(model: Any) -> list[str]:
    """Return the names of the components of a model, or their numbers."""
    names = getattr(model, "component_names_", None)
    return [str(name) for name in (range(len(model.components_)) if names is None else names)]


def chosen(model: Any, components: Sequence[int] | None) -> NDArray[np.intp]:
    """Return the numbers of the components to show; by default all."""
    r = len(model.components_)
    if components is None:
        return np.arange(r)
    numbers = np.atleast_1d(np.asarray(components, dtype=np.intp))
    if not len(numbers) or numbers.min() < -r or numbers.max() >= r:
        raise ValueError(f"components must be numbers from 0 to {r - 1}. Got {components!r}.")
    return numbers % r


def _pyplot() -> Any:
    """Return matplotlib.pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'dbmd[report]'.") from error
    return plt
