"""Finding solvers, engines and kernels by name: one file each, and its name is the name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all modules of a kind ("solvers", "engines", "kernels") without loading them."""
    package = import_module(f"dbmd.{kind}")
    modules = (module.name for module in iter_modules(package.__path__))
    return tuple(sorted(name for name in modules if not name.startswith("_")))


def load(kind: str, name: str) -> ModuleType:
    """Return the module of a kind by its name."""
    if name not in names(kind):
        raise ValueError(f"Unknown {kind.removesuffix('s')} {name!r}. Known: {', '.join(names(kind))}.")
    return import_module(f"dbmd.{kind}.{name}")
