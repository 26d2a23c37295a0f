"""Whether features have an order, as those of spectra and time series do, and the components as lines along it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dbmd.report.plain import number, numbers, text

Patterns = Literal["auto", "lines", "images", "bars"]
PATTERNS: tuple[Patterns, ...] = get_args(Patterns)
FEWEST = 5  # features that make a line when their names are numbers
MANY = 32  # features without names that make one if they vary smoothly
SMOOTH = 0.85  # correlation of neighbours from which features vary smoothly
AGAIN = 0.1  # rise of the correlation at the distance of a row that shows an image unrolled
LABELLED = 0.5  # enough for names that are numbered, such as X400 and X402
POINTS, NUMBERS = 600, 24_000  # most points of a line, and of all of them
NUMBER = re.compile(r"([^\d+.-]*)([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)([^\d]*)")


def check_patterns(patterns: str, image_shape: Sequence[int] | None) -> None:
    """Raise a ValueError if there is no such way to show components, or if it needs the shape of images."""
    if patterns not in PATTERNS:
        raise ValueError(f"patterns must be one of {', '.join(map(repr, PATTERNS))}. Got {patterns!r}.")
    if patterns == "images" and image_shape is None:
        raise ValueError("patterns='images' needs image_shape, the height and width of the images.")


def places(names: Sequence[Any] | None) -> tuple[NDArray[np.float64], str, bool] | None:
    """Return the numbers in the names of features, what stands around them, and whether they are plain positions.

    Returns
    -------
    array of shape (m,), or None
        Rising or falling; None if names are not numbers in order.
    str
        What stands after each number, a unit perhaps.
    bool
        Whether they count from 0 or 1, or have a word before them: such names may be given to anything.
    """
    if names is None or len(names) < 2:
        return None
    values = np.empty(len(names))
    around = None
    for j, name in enumerate(names):
        found = NUMBER.fullmatch(str(name).strip())
        around = (found[1], found[3]) if found and not j else around
        if found is None or around != (found[1], found[3]):
            return None
        values[j] = float(found[2])
    steps = np.diff(values)
    if not np.isfinite(values).all() or not ((steps > 0).all() or (steps < 0).all()):
        return None
    before, after = around or ("", "")
    counts = values[0] in (0, 1) and bool((steps == 1).all())
    return values, after.strip(" _"), counts or bool(before.strip())


def smoothness(W: NDArray[Any], lag: int = 1) -> float:
    """Return the correlation of features that stand ``lag`` apart, over all components, shape (r, m)."""
    centred = W - W.mean(axis=1, keepdims=True)
    # Each component counts the same, whatever its size.
    squares = (centred**2).sum(axis=1, keepdims=True)
    centred = np.divide(centred, np.sqrt(squares), out=np.zeros_like(centred), where=squares > 0)
    n_components = int((squares > 0).sum())
    return float((centred[:, lag:] * centred[:, :-lag]).sum() / n_components) if n_components else 0.0


def are_ordered(W: NDArray[Any], names: Sequence[Any] | None) -> bool:
    """Say whether components, shape (r, m), read best as lines along the features.

    They do if the names of the features are numbers in order, such as wavelengths; or if features have no names, or
    merely numbered ones, and neighbours are alike, unless they are alike again a row of a square image further on.
    """
    m = W.shape[1]
    found = places(names)
    if found is not None and m >= FEWEST and not found[2]:
        return True
    if (names is not None and found is None) or m < MANY:
        return False
    numbered = found is not None and not np.isin(found[0][0], (0, 1))
    if smoothness(W) < (LABELLED if numbered else SMOOTH):
        return False
    side = math.isqrt(m)
    return side * side != m or smoothness(W, side) < smoothness(W, side // 2) + AGAIN


def describe_lines(
    W: NDArray[Any], mean: NDArray[Any], std: NDArray[Any] | None, used: NDArray[np.intp], names: Sequence[Any] | None
) -> dict[str, Any]:
    """Return the components, shape (r, m), as lines of a bounded number of points.

    Where there are more features than points, each point is the mean of neighbouring features, and its standard
    deviation the mean of theirs: errors of neighbours are not independent.
    """
    r, m = W.shape
    step = math.ceil(m / max(min(POINTS, NUMBERS // r), 2))
    starts = np.arange(0, m, step)
    lengths = np.diff(np.append(starts, m))

    def thinned(values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.add.reduceat(values, starts, axis=-1) / lengths)

    found = places(names)
    x = np.arange(m, dtype=float) if found is None else found[0]
    labels = None if found is not None or names is None else [text(names[j], 40) for j in starts]
    return {
        "kind": "lines",
        "total": m,
        "named": names is not None,
        "x": numbers(thinned(x)),
        "labels": labels,
        "unit": "" if found is None else text(found[1], 20),
        "counts": found is None or found[2],
        "step": step,
        "smoothness": number(smoothness(W[used])) if m > 1 else None,
        "used": used.tolist(),
        "mean": numbers(thinned(mean)),
        "values": numbers(thinned(W)),
        "std": None if std is None else numbers(thinned(std)),
    }
