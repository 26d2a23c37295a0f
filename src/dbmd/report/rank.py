"""The page of ``dbmd rank``: how many patterns, as a curve, in a sentence and in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.estimator import Choice
from dbmd.report.html import standing_alone
from dbmd.report.numbers import percent, plural
from dbmd.report.page import as_json
from dbmd.report.plain import VALUE, text

SCRIPTS = ("scales.js", "marks.js", "charts.js", "save.js", "rank.js", "drawing.js")
MOST_PATHS = 20


def render(choice: Choice, record: Mapping[str, Any]) -> str:
    """Return the page, html that stands alone.

    Parameters
    ----------
    choice : Choice
        From :func:`dbmd.choose_components`.
    record : mapping
        What ``rank.json`` has besides: n_samples_of_data, n_features, n_splits, seed, data, next, command, created,
        versions.

    Returns
    -------
    str
    """
    rows = curve(choice)
    described = {
        "is_stable": choice.is_stable,
        "limit": _short(choice.limit),
        "sentence": text(choice.sentence, 4 * VALUE),
        "figures": _figures(choice, record),
        "reading": _reading(choice, record),
        "next": text(record["next"], 4 * VALUE),
        "rows": [row | _texts(row) for row in rows],
        "made": {
            "command": text(record["command"], 4 * VALUE),
            "created": record["created"],
            "facts": _facts(choice, record),
        },
    }
    return standing_alone(
        "rank.html",
        styles=("report.css", "rank.css"),
        scripts=SCRIPTS,
        d=described,
        title=headline(choice),
        subtitle=None,
        data=as_json({"rows": rows, "limit": choice.limit}),
    )


def headline(choice: Choice) -> str:
    """Return the answer in a few words."""
    if choice.is_stable:
        return f"Two halves of the data agree on {plural(choice.n_components, 'pattern')}"
    return "Two halves of the data do not agree on their patterns"


def curve(choice: Choice, digits: int | None = 4) -> list[dict[str, Any]]:
    """Return for each number of patterns what a chart shows of it.

    Parameters
    ----------
    choice : Choice
        From :func:`dbmd.choose_components`.
    digits : int, optional
        Digits after the point; None: all.

    Returns
    -------
    list of dict
        ``r``; ``worst`` and ``mean``, each the median ``y`` over the splits with the lowest and highest, ``low`` and
        ``high``; ``explained``; whether it is ``proposed``.
    """
    return [
        {
            "r": r,
            "worst": _spread(choice.worst[i], digits),
            "mean": _spread(choice.mean[i], digits),
            "explained": _rounded(choice.explained[i], digits),
            "proposed": choice.is_stable and r == choice.n_components,
        }
        for i, r in enumerate(choice.tried)
    ]


def _short(limit: float) -> str:
    return f"{limit:.3f}".rstrip("0")


def _spread(values: NDArray[np.float64], digits: int | None) -> dict[str, float | None]:
    seen = values[~np.isnan(values)]  # one at least
    return {
        "y": _rounded(np.median(seen), digits),
        "low": _rounded(seen.min(), digits),
        "high": _rounded(seen.max(), digits),
    }


def _rounded(value: Any, digits: int | None) -> float | None:
    if np.isnan(value):
        return None
    return float(value) if digits is None else round(float(value), digits)


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a row as a table shows them, correlations with their spread."""

    def shown(part: Mapping[str, float | None]) -> tuple[str, str]:
        spread = "" if part["low"] == part["high"] else f"{part['low']:.3f} to {part['high']:.3f}"
        return f"{part['y']:.3f}", spread

    return {
        "worst_text": shown(row["worst"]),
        "mean_text": shown(row["mean"]),
        "explained_text": percent(row["explained"]),
    }


def _figures(choice: Choice, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"{choice.n_components}" if choice.is_stable else "none", "stable number of patterns"),
        (f"{choice.tried[0]} to {choice.tried[-1]}" if len(choice.tried) > 1 else f"{choice.tried[0]}", "tried"),
        (f"{choice.n_samples:,}", "samples compared"),
        (f"{record['n_splits']}", "splits into halves"),
    ]


def _reading(choice: Choice, record: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what stands beside each chart."""
    drawn = choice.n_samples < record["n_samples_of_data"]
    what = f"{choice.n_samples:,} samples, drawn of {record['n_samples_of_data']:,}," if drawn else "The samples"
    largest = choice.is_stable and choice.n_components == choice.tried[-1] and len(choice.tried) > 1
    return {
        "agreement": [
            f"{what} are split into two halves, and each half is fitted by itself, for every number of patterns. Then "
            "the patterns of both fits are matched, and the memberships of the same samples compared. A correlation "
            "of 1 says that it does not matter which half was seen.",
            "Look at the pattern that the halves agree on least. With a pattern too many it falls: each half fills it "
            f"with something else. From {_short(choice.limit)} on two patterns count as the same.",
            *(["The largest number that was tried is stable. Try more: -k."] if largest else []),
        ],
        "explained": [
            "More patterns always explain more, so this curve does not choose a number. It says what fewer patterns "
            "would lose.",
        ],
        "next": [
            "This fits all data with the number that is proposed."
            if choice.is_stable
            else "No number is proposed. A fit with any number is still possible: --halves marks the patterns of it "
            "that both halves have.",
        ],
        "numbers": [
            "Correlations are medians over the splits, with the lowest and the highest.",
        ],
    }


def _facts(choice: Choice, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    about = record["data"] or {}
    paths = [*map(str, about.get("paths", []))]
    facts = [("data" if i == 0 else "", text(path, VALUE)) for i, path in enumerate(paths[:MOST_PATHS])]
    if len(paths) > MOST_PATHS:
        facts.append(("", f"and {plural(len(paths) - MOST_PATHS, 'file')} more"))
    facts.append(("size", f"{record['n_samples_of_data']:,} samples of {record['n_features']:,} features"))
    if about.get("source"):
        facts.append(("column of the source", text(about["source"])))
    if about.get("fingerprint"):
        facts.append(("fingerprint", text(about["fingerprint"], VALUE)))
    facts.append(("seed", str(record["seed"])))
    facts.append(("versions", ", ".join(f"{name} {version}" for name, version in record["versions"].items())))
    facts.append(("created", record["created"]))
    return facts
