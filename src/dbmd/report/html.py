"""Html pages that stand alone: styles and scripts inside, no other file and no network."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import dbmd

if TYPE_CHECKING:
    from jinja2 import Environment


def standing_alone(
    template: str,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    packages: Sequence[str] = ("dbmd.report",),
    **values: Any,
) -> str:
    """Return a page made of a template.

    Parameters
    ----------
    template : str
        Its name. It gets ``style``, ``theme``, ``script``, ``policy`` and ``version`` besides the values.
    styles, scripts : sequence of str
        Names of files that become part of the page, in the order in which they need each other.
    packages : sequence of str
        Where all of these are looked for, in their folders ``templates``.
    **values
        What the template shows. It is escaped.

    Returns
    -------
    str
    """
    environment = _environment(packages)

    def source(name: str) -> str:
        return environment.loader.get_source(environment, name)[0] if environment.loader else ""

    style, theme = "\n".join(map(source, styles)), source("theme.js")
    # In a function of their own, so that their names do not meet those of browser extensions.
    script = "(() => {\n" + "\n".join(map(source, scripts)) + "})();"
    return environment.get_template(template).render(
        **values,
        style=style,
        theme=theme,
        script=script,
        policy=_policy(style, theme, script),
        version=dbmd.__version__,
    )


def _environment(packages: Sequence[str]) -> Environment:
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The report needs the package 'jinja2'. Install it with: pip install jinja2", name="jinja2"
        ) from error
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
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
