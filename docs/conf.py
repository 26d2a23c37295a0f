"""How Sphinx builds the site: ``make docs``. Nothing is fetched from the network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT / "src"), str(DOCS)]

import click  # noqa: E402
from check import public_names  # noqa: E402

import dbmd  # noqa: E402
from dbmd.cli._groups import GroupedCommand, group_of  # noqa: E402

project = "dbmd"
author = "The dbmd developers"
copyright = author
release = version = dbmd.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "sg_execution_times.rst", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = [
    "sphinx_gallery.space_in_filename"
]  # the folder of the checkout may have one; check.py looks at the links
nitpicky = True
# What is private, and other libraries, have no page here: names of theirs are shown without a link.
nitpick_ignore_regex = [
    ("py:.*", rf"(?!({'|'.join(map(re.escape, public_names()))})\b)dbmd\..*"),
    ("py:.*", r"(?!dbmd\.).*\..*"),
    ("py:meth", "close"),  # in the first line of a class, which the tables of the reference show without its class
]

# -- Markdown ----------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # or --source would get a dash
highlight_language = "none"  # most blocks without a language are formulas and commands

# Pages of the site that are files elsewhere in the repository. The stub in docs/ links to the file.
ELSEWHERE = {
    "benchmarks": "benchmarks/README.md",
    "benchmark-notes": "benchmarks/NOTES.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
}
LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)


def as_page(app: Any, docname: str, source: list[str]) -> None:
    """Take a page from where it is in the repository, and let its links lead to pages of the site."""
    path = ROOT / ELSEWHERE[docname] if docname in ELSEWHERE else DOCS / f"{docname}.md"
    if not path.exists():
        return  # not Markdown, or generated
    if docname in ELSEWHERE:
        app.env.note_dependency(str(path))
        source[0] = path.read_text("utf-8")
    pages = {(ROOT / file).resolve(): DOCS / f"{name}.md" for name, file in ELSEWHERE.items()}

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found.group(1), (path.parent / found.group(2)).resolve(), found.group(3) or ""
        target = pages.get(target, target)
        if target.parent == ROOT / "examples" / "gallery":
            target = DOCS / "gallery" / f"{target.stem}.rst"  # made from it by sphinx-gallery
        if not target.is_relative_to(DOCS):  # a file that is not on the site
            return f"`{target.relative_to(ROOT)}`" if target.is_relative_to(ROOT) else text
        # MyST shows the title of the page where a link has no text, and the name of the file otherwise.
        text = "" if text.endswith(".md") and not anchor else text
        return f"[{text}]({os.path.relpath(target, (DOCS / docname).parent)}{anchor})"

    source[0] = ANCHOR.sub(r"(\1)=", LINK.sub(link, source[0]))


def is_left_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for its metadata routing, and the setters of Params."""
    return True if re.fullmatch(r"set_\w+_request|set(?!Params)[A-Z]\w*", name) else None


def without_arguments(app: Any, what: str, name: str, obj: Any, *_: Any) -> tuple[str, None] | None:
    """Show a Protocol without the arguments that typing gives it."""
    return ("", None) if what == "class" and getattr(obj, "_is_protocol", False) else None


def with_examples(app: Any, context: Any, lines: list[str]) -> None:
    """Show the examples of a command as a block of code, which sphinx-click makes lines of verse of."""
    shown, is_example = [], False
    for line in lines:
        if line.startswith("| ") and not is_example:
            shown += [line[2:].strip(), "", ".. code-block:: console", ""]
        elif line.startswith("| "):
            shown.append(f"   $ {line[2:].strip()}")
        else:
            shown.append(line)
        is_example = line.startswith("| ")
    lines[:] = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", "\n".join(shown)).split("\n")


def with_plain_defaults(app: Any, context: Any, lines: list[str]) -> None:
    """Show a default path as a path."""
    lines[:] = [re.sub(r"\w+Path\(('.*?')\)", r"\1", line) for line in lines]


def with_groups(app: Any, context: Any, lines: list[str]) -> None:
    """Show the options of a command under the names of their groups, as its help does."""
    if not isinstance(context.command, GroupedCommand):
        return
    groups = iter([group_of(option) for option in context.command.params if isinstance(option, click.Option)])
    shown, current = [], ""
    for line in lines:
        if line.startswith(".. option::") and (group := next(groups)) != current:
            current = group
            shown += [f"**{group}**", ""]
        shown.append(line)
    lines[:] = shown


def setup(app: Any) -> None:
    """Connect the above; called by Sphinx."""
    app.connect("source-read", as_page)
    app.connect("autodoc-skip-member", is_left_out)
    app.connect("autodoc-process-signature", without_arguments)
    app.connect("sphinx-click-process-description", with_examples)
    app.connect("sphinx-click-process-options", with_plain_defaults)
    app.connect("sphinx-click-process-options", with_groups)


# -- reference ---------------------------------------------------------------------------------------------------------

autosummary_generate = True
# Two names that differ by case only would be one file on some systems.
autosummary_filename_map = {"dbmd.metrics.Agreement": "dbmd.metrics.Agreement-class"}
autodoc_typehints = "none"  # numpydoc's sections say it in words
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# -- gallery -----------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "copyfile_regex": "",
    "download_all_examples": False,
    "show_signature": False,
    "capture_repr": (),  # what is printed, and figures
    "min_reported_time": 60,
    "write_computation_times": False,
    "show_memory": False,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "remove_config_comments": True,
    "plot_gallery": True,
}

# -- looks -------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"dbmd {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "dbmd"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "show_nav_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "quick-start": [], "gallery/**": []}
