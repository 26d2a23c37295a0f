"""The sentences beside patterns, maps and samples."""

from __future__ import annotations

from typing import Any

from dbmd.report import words
from dbmd.report.numbers import amount, percent, plural

Description = dict[str, Any]

BEYOND = (
    "The colours have the range of a typical sample without its noise. Patterns are what samples are mixed from, so "
    "they may go beyond that range; what does is shown in the last colour."
)


def patterns(d: Description) -> list[str]:
    """Return what the picture of the patterns shows."""
    shown = d["basis"]
    if shown["kind"] == "images":
        return words.basis(d) + ([BEYOND] if any(shown["beyond"]) else [])
    if shown["kind"] == "features":
        return _bars(d) + words.basis(d)
    sentences = ["Each line is one pattern, along the features in their order, all on one scale."]
    if shown["step"] > 1:
        sentences[0] += f" A point is the mean of {shown['step']} neighbouring features."
    if shown["std"] is not None:
        sentences.append("The band is one standard deviation of the pattern to either side.")
    if shown["labels"] is not None or not shown["counts"]:
        return sentences
    return [
        *sentences,
        f"Neighbouring features are alike: their correlation is {amount(shown['smoothness'], 2)}. If the features have "
        "no order, ask for bars instead of lines; if they are pixels, give the shape of the images.",
    ]


def _bars(d: Description) -> list[str]:
    if len(d["clusters"]) < 2:
        return []
    said = "Bars show the features in which each pattern differs most from the mean of all patterns."
    if d["basis"]["ranked"]["relative"] is not None:
        said += (
            " Features differ in range, so each bar is relative to how much patterns vary in its feature; the numbers "
            "are in the units of the data."
        )
    return [said]


def full_list(d: Description) -> str:
    """Return what the list of features has, and where all of them are."""
    listed = d["basis"]["ranked"]
    if listed["count"] == listed["total"]:
        return "By the size of the difference from the mean. The command dbmd patterns writes the same as a table."
    return (
        f"The {listed['count']} features of {listed['total']:,} in which a pattern differs most from the mean of the "
        "patterns. The command dbmd patterns writes all of them as a table."
    )


def maps(d: Description) -> list[str]:
    """Return what the maps show."""
    found = d["maps"]
    height, width = found["shape"]
    thinned = (
        f" The picture has {height:,} by {width:,} pixels, of which each pixel here is the mean of a block."
        if [height, width] != [found["height"], found["width"]]
        else ""
    )
    return [
        f"Each sample is a pixel. The first map has the colour of its cluster, each of the others its membership in "
        f"one pattern; all have one scale, from 0 to 1.{thinned}",
        "Point at a pixel to see its memberships; the same place is marked in every map.",
        *(["Pixels that were left out have the colour of the page."] if found["missing"] else []),
    ]


def samples(d: Description) -> list[str]:
    """Return what the points among the corners mean."""
    found, n = d["simplex"], len(d["simplex"]["x"])
    which = "Each point is a sample" if n >= d["n_samples"] else f"Each point is one of {plural(n, 'sample')} drawn"
    sentences = [
        f"{which}, placed by its memberships: at a corner if it belongs to one pattern alone, between corners if it "
        "is a mixture."
    ]
    if d["n_clusters"] == 2:
        return [*sentences, "With two patterns all lie on a line; they are scattered across it to be seen."]
    if d["n_clusters"] == 3:
        return [*sentences, "With true distances, corners are as far apart as their patterns differ."]
    return [
        *sentences,
        "Corners are as far apart as their patterns differ, as far as a plane can show it: it has "
        f"{percent(found['part'])} of the variation between the patterns. A point inside may be any mixture that "
        "falls there; point at it to see which.",
    ]
