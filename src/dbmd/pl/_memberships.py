"""Memberships of samples: by source, as points of the simplex, and as maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dbmd.pl._axes import ZERO, chosen, colours, names_of, one, several
from dbmd.report.basis import used_of
from dbmd.report.simplex import plane

Colour = Literal["cluster", "source", "class"]
LEGEND = 12  # most names in a legend


def sources(model: Any, *, ax: Any = None) -> Any:
    """Draw how much of each source is in each component: a bar for each source, divided by memberships.

    Parameters
    ----------
    model : DBMD
        Fitted.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "profile_")
    sizes, names = model.profile_.sizes, names_of(model)
    n_sources, r = sizes.shape
    ax = one(ax, height=1.4 + 0.28 * n_sources)
    fractions = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    left = np.zeros(n_sources)
    for k, colour in zip(range(r), colours(r), strict=True):
        ax.barh(np.arange(n_sources), fractions[:, k], left=left, color=colour, label=names[k], height=0.8)
        left += fractions[:, k]
    ax.set_yticks(np.arange(n_sources), [str(name) for name in model.sources_])
    ax.invert_yaxis()
    ax.set(xlim=(0.0, 1.0), xlabel="fraction of the memberships", ylabel="source")
    if r <= LEGEND:
        ax.legend(title="component", frameon=False, fontsize="small", bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return ax


def ternary(
    model: Any, memberships: ArrayLike | None = None, *, color: Colour | ArrayLike = "cluster", ax: Any = None
) -> Any:
    """Draw samples in a triangle whose corners are the components of a model with three of them.

    Parameters
    ----------
    model : DBMD
        Fitted, with ``n_components=3``.
    memberships : array-like of shape (n_samples, 3), optional
        From :meth:`dbmd.DBMD.transform`; by default those of ``model.membership_sample_``.
    color : {"cluster", "source", "class"} or array-like of shape (n_samples,), default="cluster"
        What the colours of the points say: their largest membership, or, of ``model.membership_sample_``, their source
        or known class; or a label or number for each point.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "components_")
    if len(model.components_) != 3:
        raise ValueError(
            f"A triangle shows models of 3 components, and this one has {len(model.components_)}. Draw "
            "pl.simplex(model)."
        )
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    return _points(model, memberships, corners, color, one(ax, 5.2, 4.6))


def simplex(
    model: Any, memberships: ArrayLike | None = None, *, color: Colour | ArrayLike = "cluster", ax: Any = None
) -> Any:
    """Draw samples between the components, all seen along the two directions in which the components differ most.

    The corners are the components in their first two principal components; a sample lies at the mean of the corners,
    weighted by its memberships. What is close in the figure may differ along other directions.

    Parameters
    ----------
    model : DBMD
        Fitted.
    memberships : array-like of shape (n_samples, n_components), optional
        From :meth:`dbmd.DBMD.transform`; by default those of ``model.membership_sample_``.
    color : {"cluster", "source", "class"} or array-like of shape (n_samples,), default="cluster"
        What the colours of the points say: their largest membership, or, of ``model.membership_sample_``, their source
        or known class; or a label or number for each point.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "components_")
    sizes = np.asarray(model.cluster_sizes_, float)
    corners = plane(model.scaled_components_, sizes, used_of(sizes))[0]
    return _points(model, memberships, corners, color, one(ax, 6.0, 5.0))


def maps(
    model: Any,
    memberships: ArrayLike,
    map_shape: Sequence[int],
    *,
    components: Sequence[int] | None = None,
    axes: Any = None,
) -> Any:
    """Draw the memberships of pixels as a map for each component.

    Parameters
    ----------
    model : DBMD
        Fitted.
    memberships : array-like of shape (height * width, n_components)
        From :meth:`dbmd.DBMD.transform`, the pixels row by row.
    map_shape : sequence of int
        (height, width) of the map.
    components : sequence of int, optional
        Which of them, by number; by default all.
    axes : array of matplotlib Axes, optional
        Where to draw: one for each component.

    Returns
    -------
    ndarray of Axes of shape (n_components,)
    """
    check_is_fitted(model, "components_")
    H = np.asarray(memberships, float)
    height, width = (int(side) for side in map_shape)
    if H.shape != (height * width, len(model.components_)):
        raise ValueError(
            f"memberships must have shape (height * width, n_components) = ({height * width}, "
            f"{len(model.components_)}). Got {H.shape}."
        )
    shown, names = chosen(model, components), names_of(model)
    panels = several(axes, len(shown), panel=(2.8, 0.4 + 2.6 * height / width))
    for ax, k in zip(panels, shown, strict=True):
        drawn = ax.imshow(H[:, k].reshape(height, width), cmap="viridis", vmin=0.0, vmax=1.0)
        ax.set_title(names[k], fontsize="medium")
        ax.set(xticks=[], yticks=[])
    panels[0].figure.colorbar(drawn, ax=list(panels), shrink=0.7, label="membership")
    return panels


def _points(model: Any, memberships: Any, corners: NDArray[Any], color: Any, ax: Any) -> Any:
    """Draw samples at the means of corners, shape (r, 2), weighted by their memberships."""
    sample: Any = getattr(model, "membership_sample_", None)
    if memberships is None and sample is None:
        raise ValueError("This model was saved without a sample of memberships: pass memberships=model.transform(X).")
    H = sample.memberships if memberships is None else np.asarray(memberships, float)
    if H.ndim != 2 or H.shape[1] != len(corners):
        raise ValueError(f"memberships must have shape (n_samples, {len(corners)}). Got {H.shape}.")
    at = H @ corners
    for i in range(len(corners)):
        for j in range(i):
            ax.plot(*corners[[i, j]].T, color=ZERO, linewidth=0.5, alpha=min(1.0, 6.0 / len(corners)), zorder=0)
    _scatter(model, at, H, color, sample if memberships is None else None, ax)
    centre = corners.mean(axis=0)
    for name, corner in zip(names_of(model), corners, strict=True):
        away = corner - centre
        ax.annotate(
            name,
            corner,
            xytext=8.0 * away / max(float(np.hypot(*away)), 1e-12),
            textcoords="offset points",
            ha="left" if away[0] > 0 else "right",
            va="bottom" if away[1] > 0 else "top",
            fontweight="bold",
        )
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.1)
    ax.set_axis_off()
    return ax


def _scatter(model: Any, at: NDArray[Any], H: NDArray[Any], color: Any, sample: Any, ax: Any) -> None:
    size = np.clip(4_000.0 / max(len(at), 1), 3.0, 30.0)
    labels = _labels(model, H, color, sample)
    if labels.dtype.kind == "f":
        drawn = ax.scatter(*at.T, c=labels, s=size, linewidths=0, alpha=0.8)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.7)
        return
    kinds = list(dict.fromkeys(sorted(labels.tolist(), key=_sorting)))
    for kind, colour in zip(kinds, colours(len(kinds)), strict=True):
        ax.scatter(*at[labels == kind].T, color=colour, s=size, linewidths=0, alpha=0.7, label=str(kind))
    if 1 < len(kinds) <= LEGEND:
        title = color if isinstance(color, str) else None
        ax.legend(
            title=title, frameon=False, fontsize="small", markerscale=2.0, loc="upper left", bbox_to_anchor=(1.0, 1.0)
        )


def _sorting(label: str) -> tuple[bool, float, str]:
    """Return a key by which numbers come in their order, before other labels."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def _labels(model: Any, H: NDArray[Any], color: Any, sample: Any) -> NDArray[Any]:
    """Return a label for each sample, shape (n,): text, or numbers for a scale of colours."""
    if not isinstance(color, str):
        values = np.asarray(color)
        if values.shape != (len(H),):
            raise ValueError(f"color must have shape ({len(H)},), a label for each sample. Got {values.shape}.")
        return values.astype(float) if values.dtype.kind == "f" else values.astype(str)
    if color == "cluster":
        return np.array(names_of(model))[H.argmax(axis=1)]
    if color not in ("source", "class"):
        raise ValueError(f"color must be 'cluster', 'source', 'class' or a label for each sample. Got {color!r}.")
    if sample is None:
        raise ValueError(f"color={color!r} is known of model.membership_sample_ only: pass a label for each sample.")
    if color == "source":
        return np.asarray(model.sources_).astype(str)[sample.source_codes]
    classes = model.fit_info_.get("classes")
    if classes is None:
        raise ValueError("color='class' is for models that were fitted with known classes (label=).")
    return np.array([*map(str, classes), "unknown"])[sample.class_codes]
