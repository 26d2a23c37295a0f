"""The report: one html page that stands alone, without any other file and without the network."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dbmd
from dbmd.report import words
from dbmd.report.compute import describe
from dbmd.report.plain import VALUE, text
from dbmd.storage import write_file

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("scales.js", "marks.js", "charts.js", "images.js", "report.js")  # in the order in which they need each other


def render(model: Any, *, image_shape: Sequence[int] | None = None, title: str | None = None) -> str:
    """Return the report of a fitted model, an html page.

    Parameters
    ----------
    model : DBMD
        Fitted, with ``profile_`` and ``fit_info_``.
    image_shape : sequence of int, optional
        (height, width) or (height, width, 3), if the features are the pixels of a picture.
    title : str, optional
        The heading. By default it says how many clusters, samples and sources there are.

    Returns
    -------
    str
        A whole page of less than 2 MB. What comes from the data (names, labels, paths) is escaped.
    """
    environment = _environment()
    description = describe(model, image_shape)

    def source(name: str) -> str:
        return environment.loader.get_source(environment, name)[0] if environment.loader else ""

    # In a function of their own, so that their names do not meet those of browser extensions.
    script = "(() => {\n" + "\n".join(source(name) for name in SCRIPTS) + "})();"
    theme, style = source("theme.js"), source("report.css")
    headline = words.headline(description)
    return environment.get_template("report.html").render(
        d=description,
        words=words,
        title=text(title, VALUE) if title else headline,
        subtitle=headline if title else None,
        version=dbmd.__version__,
        data=as_json(description),
        style=style,
        theme=theme,
        script=script,
        policy=_policy(style, theme, script),
    )


def write(
    model: Any, path: str | os.PathLike[str], *, image_shape: Sequence[int] | None = None, title: str | None = None
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
    title : str, optional
        The heading.

    Returns
    -------
    Path
        Of the file.
    """
    path = Path(path)
    page = render(model, image_shape=image_shape, title=title).encode("utf-8")
    write_file(path, page)
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


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The report needs the package 'jinja2'. Install it with: pip install jinja2", name="jinja2"
        ) from error
    return Environment(
        loader=PackageLoader("dbmd.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _policy(style: str, *scripts: str) -> str:
    """Return a content security policy that allows these texts and the page's own pictures, and no request at all."""

    def allowed(part: str) -> str:
        return f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'"

    return "; ".join(
        [
            "default-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "img-src data:",
            f"style-src {allowed(style)}",
            f"script-src {' '.join(allowed(script) for script in scripts)}",
        ]
    )
