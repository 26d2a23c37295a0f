"""The report: one html page that stands alone, without any other file and without the network."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbmd._utils.model_files import REPORT
from dbmd.report import view_words, words
from dbmd.report.compute import describe
from dbmd.report.html import standing_alone
from dbmd.report.ordered import Patterns
from dbmd.report.plain import VALUE, text
from dbmd.storage import write_file

# In the order in which they need each other.
DRAWING = ("colours.js", "lines.js", "ranked.js", "stacked.js", "maps.js", "simplex.js")
SCRIPTS = (
    *("scales.js", "marks.js", "charts.js", "images.js", *DRAWING, "save.js", "tables.js"),
    *("views.js", "report.js", "drawing.js"),
)


def render(
    model: Any,
    *,
    image_shape: Sequence[int] | None = None,
    map_shape: Sequence[int] | None = None,
    memberships: Any = None,
    patterns: Patterns = "auto",
    title: str | None = None,
) -> str:
    """Return the report of a fitted model, an html page.

    Parameters
    ----------
    model : DBMD
        Fitted, with ``profile_`` and ``fit_info_``.
    image_shape : sequence of int, optional
        (height, width) or (height, width, 3), if the features are the pixels of a picture.
    map_shape : sequence of int, optional
        (height, width), if the samples are the pixels of a picture, row by row: their memberships are shown as maps.
    memberships : array of shape (n_samples, r), optional
        Memberships of all samples, as :meth:`dbmd.DBMD.transform` returns them; what ``map_shape`` needs.
    patterns : {"auto", "lines", "images", "bars"}
        How to show the components: along features in order (spectra, time), as pictures of ``image_shape``, or by the
        features that set each of them apart. "auto" looks at ``image_shape``, the names of the features, and whether
        neighbours are alike.
    title : str, optional
        The heading. By default it says how many clusters, samples and sources there are.

    Returns
    -------
    str
        A whole page of less than 2 MB. What comes from the data (names, labels, paths) is escaped.
    """
    description = describe(model, image_shape, map_shape=map_shape, memberships=memberships, patterns=patterns)
    headline = words.headline(description)
    return standing_alone(
        "report.html",
        styles=("report.css", "views.css"),
        scripts=SCRIPTS,
        d=description,
        words=words,
        view_words=view_words,
        title=text(title, VALUE) if title else headline,
        subtitle=headline if title else None,
        data=as_json(description),
    )


def write(
    model: Any,
    path: str | os.PathLike[str],
    *,
    image_shape: Sequence[int] | None = None,
    map_shape: Sequence[int] | None = None,
    memberships: Any = None,
    patterns: Patterns = "auto",
    title: str | None = None,
) -> Path:
    """Write the report of a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : DBMD
        Fitted, with ``profile_`` and ``fit_info_``.
    path : path-like
        The file; one that is there is replaced. Its folder must exist.
    image_shape : sequence of int, optional
        (height, width) or (height, width, 3), if the features are the pixels of a picture.
    map_shape : sequence of int, optional
        (height, width), if the samples are the pixels of a picture, row by row: their memberships are shown as maps.
    memberships : array of shape (n_samples, r), optional
        Memberships of all samples, as :meth:`dbmd.DBMD.transform` returns them; what ``map_shape`` needs.
    patterns : {"auto", "lines", "images", "bars"}
        How to show the components: along features in order (spectra, time), as pictures of ``image_shape``, or by the
        features that set each of them apart. "auto" looks at ``image_shape``, the names of the features, and whether
        neighbours are alike.
    title : str, optional
        The heading.

    Returns
    -------
    Path
        Of the file.
    """
    path = Path(path)
    page = render(
        model, image_shape=image_shape, map_shape=map_shape, memberships=memberships, patterns=patterns, title=title
    )
    write_file(path, page.encode("utf-8"))
    return path


def page_path(path: str | os.PathLike[str]) -> Path:
    """Return where to write a page: the file itself, or ``report.html`` in a folder; a ValueError for other files."""
    path = Path(path)
    if path.is_dir():
        return path / REPORT
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"The page must end in .html, or be put in a folder that is there. Got {str(path)!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such folder to write {path.name} to.")
    return path


def as_json(description: dict[str, Any]) -> str:
    r"""Return JSON that may stand inside a script element: no text in it can close the element or open another.

    Examples
    --------
    >>> from dbmd.report.page import as_json
    >>> print(as_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    plain = json.dumps(description, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return plain
