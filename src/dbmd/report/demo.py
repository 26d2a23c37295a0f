"""The picture of ``dbmd demo``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

OURS, THEIRS, MUTED = "#1b6ca8", "#c9ced6", "#5b6470"
SAMPLES = 7


def draw(
    X: NDArray[Any],
    rebuilt: NDArray[Any],
    source: NDArray[Any],
    put_in: Mapping[str, float],
    found: Mapping[str, float],
    accuracy: Mapping[str, Sequence[float]],
    path: Path,
) -> None:
    """Draw samples of each source and what the model sees in them, the noise levels, and the accuracies.

    Parameters
    ----------
    X, rebuilt : array of shape (n, 64)
        Digits as they came, and as the model rebuilds them.
    source : array of shape (n,)
        Their sources, 0 to C - 1.
    put_in, found : mapping of name to number
        Standard deviations of the noise of the C sources.
    accuracy : mapping of name to (dbmd, k-means)
        For each source and for all.
    path : Path
        Where to write the picture.
    """
    figure = Figure(figsize=(11.0, 5.2), dpi=130, layout="constrained")
    left, right = np.ravel(np.asarray(figure.subfigures(1, 2, width_ratios=[1.5, 1.0], wspace=0.03)))
    _digits(left, X, rebuilt, source, put_in)
    levels, bars = right.subplots(2, 1)
    _noise(levels, put_in, found)
    _accuracy(bars, accuracy)
    figure.savefig(path)


def _digits(
    figure: Any, X: NDArray[Any], rebuilt: NDArray[Any], source: NDArray[Any], put_in: Mapping[str, float]
) -> None:
    figure.suptitle("As they came, and as dbmd rebuilds them", fontsize=11, fontweight="bold", x=0.02, ha="left")
    axes = figure.subplots(2 * len(put_in), SAMPLES)
    for c, (name, level) in enumerate(put_in.items()):
        rows = np.flatnonzero(source == c)[:SAMPLES]
        for column, row in enumerate(rows):
            for offset, image in enumerate((X[row], rebuilt[row])):
                ax = axes[2 * c + offset, column]
                ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16, interpolation="nearest")
                ax.set_xticks([])
                ax.set_yticks([])
                for spine in ax.spines.values():
                    spine.set_color("#d8dce2")
        axes[2 * c, 0].set_ylabel(f"{name}\nnoise {level:g}", fontsize=8, rotation=0, ha="right", va="center")
        axes[2 * c + 1, 0].set_ylabel("rebuilt", fontsize=8, rotation=0, ha="right", va="center", color=OURS)


def _noise(ax: Any, put_in: Mapping[str, float], found: Mapping[str, float]) -> None:
    places = np.arange(len(put_in))
    levels = [found[name] for name in put_in]
    ax.scatter(list(put_in.values()), places, s=90, facecolors="none", edgecolors=MUTED, linewidths=1.6, label="put in")
    ax.scatter(levels, places, s=36, color=OURS, label="found", zorder=3)
    for place, value in zip(places, levels, strict=True):
        ax.annotate(f"{value:.1f}", (value, place), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8)
    ax.set_yticks(places, list(put_in))
    ax.set_ylim(len(put_in) - 0.4, -0.7)
    ax.set_xlim(0, 1.15 * max(*put_in.values(), *levels))
    ax.set_title("Noise level of each source", fontsize=11, fontweight="bold", loc="left")
    ax.set_xlabel("standard deviation (pixels go from 0 to 16)", fontsize=8)
    _plain(ax)


def _accuracy(ax: Any, accuracy: Mapping[str, Sequence[float]]) -> None:
    places = np.arange(len(accuracy))
    for shift, which, color, name in ((-0.19, 0, OURS, "dbmd"), (0.19, 1, THEIRS, "k-means")):
        values = [pair[which] for pair in accuracy.values()]
        bars = ax.bar(places + shift, values, 0.36, color=color, label=name)
        ax.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    ax.set_xticks(places, list(accuracy))
    ax.set_ylim(0, 1)
    ax.set_title("Digits in the right cluster, no labels used", fontsize=11, fontweight="bold", loc="left")
    _plain(ax)


def _plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.legend(frameon=False, fontsize=8, loc="upper right")
