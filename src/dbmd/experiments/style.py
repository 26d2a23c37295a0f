"""How the figures look, and small things that all of them need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dbmd.experiments.experiment import Record

MUTED = "#5b6470"
# One colour and one mark for each method, in all figures; they differ without colours, too.
COLOURS = {
    "exact": "#1b2127",
    "agd": "#d1701a",
    "admm": "#1b6ca8",
    "cease": "#2e8b57",
    "k-means": "#8a8f98",
    "nmf": "#a05195",
}
MARKS = {"exact": "*", "agd": "s", "admm": "o", "cease": "^", "k-means": "x", "nmf": "D"}
NAMES = {"exact": "exact", "agd": "AGD", "admm": "ADMM", "cease": "CEASE", "k-means": "k-means", "nmf": "Scalable-NMF"}


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 9.6, height: float = 4.0, **options: Any) -> Any:
    """Return a figure and its axes, an array of shape (rows, columns)."""
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return figure, axes


def label(ax: Any, title: str, x: str, y: str) -> None:
    """Name a panel and its axes."""
    ax.set_title(title, fontsize=10, fontweight="bold", loc="left")
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)


def legend(ax: Any, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(frameon=False, fontsize=8, **options)


def where(records: Iterable[Record], **values: Any) -> list[Record]:
    """Return the records with these values."""
    return [record for record in records if all(record[name] == value for name, value in values.items())]


def column(records: Iterable[Record], name: str) -> NDArray[Any]:
    """Return one value of each record; NaN where there is none."""
    return np.array([np.nan if record[name] is None else record[name] for record in records])


def distinct(records: Iterable[Record], name: str) -> list[Any]:
    """Return the different values of a name, in the order in which they come."""
    return list(dict.fromkeys(record[name] for record in records))
