"""Check a built site: ``python docs/check.py docs/_build/html``.

Links and pictures lead to files and anchors that exist, nothing is loaded from the network, and every public name has
an entry in the reference. Links to other sites are not followed: the check works offline.
"""

from __future__ import annotations

import inspect
import re
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

# What is public: the names in __all__ of these modules, or, without it, their own classes and functions.
PUBLIC = (
    "dbmd",
    "dbmd.data.datasets",
    "dbmd.engines",
    "dbmd.errors",
    "dbmd.metrics",
    "dbmd.pl",
    "dbmd.protocols",
    "dbmd.spark",
    "dbmd.tl",
)
# Attributes by which a page loads something, as opposed to leading to it.
LOADS = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The anchors of a page, and what it links to and loads.

    Parameters
    ----------
    path : Path
        An html file.

    Attributes
    ----------
    anchors : set of str
        Values of ``id`` and ``name``.
    links : list of (bool, str)
        Whether it is loaded, and the address.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[bool, str]] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(((tag, name) in LOADS, value))


def broken_links(site: Path) -> Iterator[str]:
    """Yield a sentence for each link, picture or script that leads nowhere or to the network."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        for is_loaded, link in page.links:
            address = urlsplit(link)
            if address.scheme == "data":
                continue
            if address.scheme or address.netloc:
                if is_loaded:
                    yield f"{here}: loads {link} from the network."
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.is_file():
                yield f"{here}: {link} leads to no file."
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].anchors:
                yield f"{here}: {link} leads to no anchor."
    for path in sorted(site.rglob("*.css")):
        if re.search(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"](https?:)?//", path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: loads something from the network."


def public_names() -> list[str]:
    """Return the full names of everything that is public, modules left out."""
    names: list[tuple[ModuleType, str]] = []
    for module_name in PUBLIC:
        module = import_module(module_name)
        own = [name for name, value in vars(module).items() if _is_own(value, module_name)]
        offered = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        names += [(module, name) for name in offered if not name.startswith("__")]
    return [f"{module.__name__}.{name}" for module, name in names if not inspect.ismodule(getattr(module, name))]


def _is_own(value: object, module_name: str) -> bool:
    """Say whether something is a class or a function of a module itself."""
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module_name


def without_a_page(site: Path) -> Iterator[str]:
    """Yield a sentence for each public name that has no entry in the reference."""
    # Four lines of text, then, compressed, a line for each entry: its name, its kind, ...
    entries = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    known = {entry.split()[0] for entry in entries if entry.split()[1].startswith("py:")}
    for name in public_names():
        if name not in known:
            yield f"{name} is public, and has no page in the reference: add it to docs/api.md."


def main() -> None:
    """Print what is wrong, and end with 1 if something is."""
    site = Path(sys.argv[1])
    wrong = sorted({*broken_links(site), *without_a_page(site)})
    print(*wrong, sep="\n", end="\n" if wrong else "")
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, {len(public_names())} public names, {len(wrong)} of their links and names are wrong.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
