"""What the components look like: as lines, as pictures, or as bars of the features that stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dbmd.pl._axes import ZERO, chosen, colours, names_of, one, several
from dbmd.report.basis import check_image_shape
from dbmd.report.ordered import are_ordered, places

Kind = Literal["auto", "lines", "images", "bars"]
LEGEND = 12  # most names in a legend


def patterns(
    model: Any,
    *,
    components: Sequence[int] | None = None,
    kind: Kind = "auto",
    image_shape: Sequence[int] | None = None,
    x: ArrayLike | None = None,
    n_top: int = 8,
    std: bool = True,
    axes: Any = None,
) -> Any:
    """Draw the components.

    Parameters
    ----------
    model : DBMD
        Fitted.
    components : sequence of int, optional
        Which of them, by number; by default all.
    kind : {"auto", "lines", "images", "bars"}, default="auto"
        Lines for features in an order, such as spectra, all in one panel; pictures, if the features are pixels; bars of
        the features in which each component differs most from the mean. "auto" takes pictures if ``image_shape`` is
        given, lines if the names of the features are numbers in order or the components are smooth, and else bars.
    image_shape : sequence of int, optional
        (height, width) or (height, width, 3) of pictures.
    x : array-like of shape (n_features,), optional
        Where the features lie along the axis of lines; by default at their names, if these are numbers, or 0, 1, ...
    n_top : int, default=8
        Number of bars for each component.
    std : bool, default=True
        Whether to show the standard deviation of the components, as a band or as whiskers, if the model has them.
    axes : matplotlib Axes or array of them, optional
        Where to draw: one for lines, one for each component otherwise.

    Returns
    -------
    Axes, or ndarray of Axes of shape (n_components,)
        One for lines, one for each component otherwise.
    """
    check_is_fitted(model, "components_")
    shape = check_image_shape(image_shape, model.components_.shape[1])
    shown = chosen(model, components)
    if kind == "auto":
        is_ordered = are_ordered(model.scaled_components_, getattr(model, "feature_names_in_", None))
        kind = "images" if shape is not None else "lines" if is_ordered else "bars"
    if kind == "lines":
        return _lines(model, shown, x, std, one(axes))
    if kind == "bars":
        return _bars(model, shown, n_top, std, axes)
    if kind == "images":
        if shape is None:
            raise ValueError("Pictures need their shape: image_shape=(height, width).")
        return _images(model, shown, shape, axes)
    raise ValueError(f"kind must be 'auto', 'lines', 'images' or 'bars'. Got {kind!r}.")


def _deviations(model: Any, wanted: bool) -> NDArray[Any] | None:
    return getattr(model, "components_std_", None) if wanted else None


def _lines(model: Any, shown: NDArray[np.intp], x: ArrayLike | None, std: bool, ax: Any) -> Any:
    W, deviations, names = model.components_, _deviations(model, std), names_of(model)
    at = positions(model) if x is None else np.asarray(x, float)
    if at.shape != (W.shape[1],):
        raise ValueError(f"x must have shape (n_features,) = ({W.shape[1]},). Got {at.shape}.")
    for k, colour in zip(shown, colours(len(shown)), strict=True):
        ax.plot(at, W[k], color=colour, label=names[k])
        if deviations is not None:
            ax.fill_between(at, W[k] - deviations[k], W[k] + deviations[k], color=colour, alpha=0.25, linewidth=0)
    ax.set(xlabel="feature", ylabel="component")
    ax.margins(x=0.01)
    if len(shown) <= LEGEND:
        ax.legend(title="component", frameon=False, fontsize="small")
    return ax


def positions(model: Any) -> NDArray[np.float64]:
    """Return where features lie along an axis, shape (m,): at the numbers in their names, or at 0, 1, ..."""
    found = places(getattr(model, "feature_names_in_", None))
    return np.arange(float(model.components_.shape[1])) if found is None else found[0]


def _bars(model: Any, shown: NDArray[np.intp], n_top: int, std: bool, axes: Any) -> NDArray[Any]:
    W, deviations, names = model.components_, _deviations(model, std), names_of(model)
    features = getattr(model, "feature_names_in_", None)
    labels = np.array([f"feature {j}" for j in range(W.shape[1])] if features is None else features, dtype=object)
    difference = W - np.average(W, axis=0, weights=model.cluster_sizes_)
    # Features in different units are ranked by how far they lie apart, in units of that.
    spread = W.std(axis=0)
    weight = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0.0) if _has_units(spread) else 1.0
    panels = several(axes, len(shown), panel=(3.4, 0.6 + 0.24 * n_top))
    for ax, k in zip(panels, shown, strict=True):
        top = np.argsort(-np.abs(difference[k] * weight), kind="stable")[:n_top][::-1]
        whiskers = None if deviations is None else deviations[k, top] * np.broadcast_to(weight, len(spread))[top]
        values = (difference[k] * weight)[top]
        up, down = colours(2)
        ax.barh(
            np.arange(len(top)),
            values,
            xerr=whiskers,
            color=[up if value >= 0.0 else down for value in values],
            ecolor=ZERO,
        )
        ax.axvline(0.0, color=ZERO, linewidth=0.8)
        ax.set_yticks(np.arange(len(top)), [str(name) for name in labels[top]], fontsize="small")
        ax.set_title(names[k], loc="left", fontsize="medium")
    panels[0].set_xlabel(
        "difference from the mean" if np.isscalar(weight) else "difference from the mean, in units of its spread"
    )
    return panels


def _has_units(spread: NDArray[Any]) -> bool:
    """Return whether features differ so much in spread that they cannot be of one unit."""
    return bool(len(spread) <= 64 and spread.max() > 10.0 * max(float(np.median(spread)), 0.0))


def _images(model: Any, shown: NDArray[np.intp], shape: tuple[int, ...], axes: Any) -> NDArray[Any]:
    W, names = model.components_, names_of(model)
    panels = several(axes, len(shown), panel=(2.0, 2.2 * shape[0] / shape[1]))
    low, high = float(W[shown].min()), float(W[shown].max())
    options: dict[str, Any] = {"cmap": "gray_r", "vmin": min(low, 0.0), "vmax": high}
    if low < -0.05 * high:  # zero in the middle: below and above it are two colours
        options = {"cmap": "RdBu_r", "vmin": -max(-low, high), "vmax": max(-low, high)}
    for ax, k in zip(panels, shown, strict=True):
        picture = W[k].reshape(shape)
        if len(shape) == 3:
            ax.imshow(((picture - min(low, 0.0)) / (high - min(low, 0.0))).clip(0.0, 1.0))
        else:
            drawn = ax.imshow(picture, **options)
        ax.set_title(names[k], fontsize="medium")
        ax.set(xticks=[], yticks=[])
    if len(shape) == 2:
        panels[0].figure.colorbar(drawn, ax=list(panels), shrink=0.7, label="component")
    return panels
