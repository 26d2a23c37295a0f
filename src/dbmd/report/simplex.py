"""Samples on the simplex of their memberships, seen in the plane: some of them, with what a page says of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.evidence import golden
from dbmd.model.membership_sample import MembershipSample
from dbmd.report.plain import number

POINTS = 3_000
CLASSES = 40  # with a colour of their own, the most frequent
EPS = 1e-12  # of the largest square: an axis shorter than that is none
NAMED = 3  # largest memberships that are said of a sample
TRIANGLE = np.array([[0.5, np.sqrt(0.75)], [0.0, 0.0], [1.0, 0.0]])  # the largest cluster on top


def plane(W: NDArray[Any], sizes: NDArray[Any], used: NDArray[np.intp]) -> tuple[NDArray[np.float64], float]:
    """Return the components, shape (r, m), on their first two principal axes, shape (r, 2), and the part they show.

    Components without samples do not turn the axes. The longer axis lies; the largest cluster is to the left, and
    above.
    """
    mean = np.average(W[used], axis=0, weights=sizes[used] if sizes[used].sum() > 0 else None)
    centred = np.asarray(W - mean, float)
    # Inner products of the few components instead of their many features.
    squares, axes = np.linalg.eigh(centred[used] @ centred[used].T)
    squares, axes = squares[::-1].clip(0), axes[:, ::-1]
    corners = np.zeros((len(W), 2))
    for axis in range(min(2, len(used))):
        if squares[axis] > EPS * squares[0]:
            corners[:, axis] = centred @ (axes[:, axis] @ centred[used]) / np.sqrt(squares[axis])
    corners *= np.where(corners[sizes.argmax()] * np.array([1, -1]) > 0, -1.0, 1.0)
    return corners, float(squares[:2].sum() / squares.sum()) if squares.sum() > 0 else 1.0


def describe_simplex(
    W: NDArray[Any],
    sizes: NDArray[Any],
    used: NDArray[np.intp],
    sample: MembershipSample | None,
    clusters: NDArray[np.intp],
    sources: NDArray[np.intp],
    class_names: Sequence[str] | None,
) -> dict[str, Any] | None:
    """Return where samples and the corners of the simplex lie in the plane; None if there is nothing to see.

    Parameters
    ----------
    W : array of shape (r, m)
        All components, scaled as in the fit.
    sizes : array of shape (r,)
        Sums of their memberships.
    used : array of int
        Components that hold samples.
    sample : MembershipSample, optional
        Memberships of some samples.
    clusters : array of int
        The components that are shown, in their order; others have no corner of their own on the page.
    sources : array of int
        The sources that the page has by name, in their order.
    class_names : sequence of str, optional
        Names of the known classes.

    Returns
    -------
    dict, or None
        Coordinates are from 0 to 1 along the longer side of the picture, y upwards. ``triangle`` has those of the
        equal-sided triangle, with three components. Codes of clusters, sources and classes are places in their order
        on the page, and -1 for those that it does not name.
    """
    r = len(W)
    if sample is None or not len(sample) or r < 2:
        return None
    # By the golden ratio, not by row: sources that come one after the other would cover each other.
    order = np.argsort(golden(sample.rows), kind="stable")[:POINTS]
    chosen = sample.taken(order)
    H = chosen.memberships
    corners, part = plane(W, sizes, used)
    at = H @ corners
    if np.ptp(corners[:, 1]) <= 1e-9 * np.ptp(corners[:, 0]):  # a line: samples beside it, so that they can be seen
        at[:, 1] = (golden(chosen.rows) - 0.5) * 0.3 * np.ptp(corners[:, 0])
    low = np.minimum(at.min(axis=0), corners[used].min(axis=0))
    high = np.maximum(at.max(axis=0), corners[used].max(axis=0))
    extent = float((high - low).max()) or 1.0
    leading = np.argsort(-H, axis=1, kind="stable")[:, : min(NAMED, r)]
    described: dict[str, Any] = {
        "part": number(part),
        "extent": [number(side) for side in (high - low) / extent],
        "corners": _round((corners[clusters] - low) / extent, 4),
        "shown": [bool(each) for each in np.isin(clusters, used)],
        "x": _round((at[:, 0] - low[0]) / extent),
        "y": _round((at[:, 1] - low[1]) / extent),
        "row": chosen.rows.tolist(),
        "source": _places(chosen.source_codes, sources).tolist(),
        "class": None,
        "leading": _places(leading, clusters).tolist(),
        "memberships": _round(np.take_along_axis(H, leading, axis=1)),
        "std": None if chosen.std is None else _round(np.take_along_axis(chosen.std, leading, axis=1)),
        "triangle": None,
    }
    if class_names is not None and (chosen.class_codes >= 0).any():
        counts = np.bincount(chosen.class_codes[chosen.class_codes >= 0], minlength=len(class_names))
        named = np.sort(np.argsort(-counts, kind="stable")[:CLASSES])
        described["class"] = _places(chosen.class_codes, named).tolist()
        described["classes"] = [class_names[code] for code in named]
    if r == 3:
        own = H[:, clusters]
        at = own @ TRIANGLE
        described["triangle"] = {"x": _round(at[:, 0]), "y": _round(at[:, 1])}
    return described


def _places(codes: NDArray[np.integer], shown: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the place of each code among those that are shown; -1 for others."""
    place = np.full(max(int(codes.max(initial=-1)), int(shown.max(initial=-1))) + 2, -1)
    place[shown] = np.arange(len(shown))
    return np.asarray(place[codes])  # -1, of a sample without a class, is the last


def _round(values: NDArray[Any], digits: int = 3) -> list[Any]:
    return list(np.round(np.asarray(values, float), digits).tolist())
