"""Plug-ins by name: solvers, kernels, engines and formats, one module each, whose name is the name of the plug-in.

What such a module must offer is said by the Protocols in :mod:`dbmd.protocols`. A new module is found without any other
change; a module whose name begins with an underscore is not a plug-in.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dbmd.protocols import Cluster, Clustering, Format, Kernel, MakeEngine, OneLoop, Pass, Solver


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a kind, without importing them.

    Parameters
    ----------
    kind : str
        The package, such as "solvers", "kernels" or "engines".
    """
    package = import_module(f"dbmd.{kind}")
    modules = (module.name for module in iter_modules(package.__path__))
    return tuple(sorted(name for name in modules if not name.startswith("_")))


def load(kind: str, name: str) -> ModuleType:
    """Return the module of a plug-in; raise a ValueError that lists the known names if there is none."""
    if name not in names(kind):
        raise ValueError(f"Unknown {kind.removesuffix('s')} {name!r}. Known: {', '.join(names(kind))}.")
    return import_module(f"dbmd.{kind}.{name}")


def load_solver(name: str) -> Solver:
    """Return a solver by its name."""
    return cast("Solver", load("solvers", name))


def load_kernel(name: str) -> Kernel:
    """Return a kernel by its name."""
    return cast("Kernel", load("kernels", name))


def load_clustering(name: str) -> Clustering:
    """Return a kernel that clusters samples, too, by its name."""
    return cast("Clustering", load("kernels", name))


def load_one_loop(name: str) -> type[OneLoop]:
    """Return what makes a pass in one loop, of a kernel that does so, by its name."""
    return cast("type[OneLoop]", load("kernels", name).OneLoop)


def load_pass(name: str) -> type[Pass] | None:
    """Return what makes a pass at once, of a kernel by its name; None if it has nothing that does."""
    return cast("type[Pass] | None", getattr(load("kernels", name), "Pass", None))


def load_engine(name: str) -> MakeEngine:
    """Return the class of an engine by its name: called with a list of nodes, it returns an Engine."""
    return cast("MakeEngine", load("engines", name).Engine)


def default_n_nodes(name: str) -> int | None:
    """Return how many nodes an engine, by its name, wants if the user has no wish; None: as suits the data."""
    wanted: int | None = getattr(load("engines", name), "default_n_nodes", lambda: None)()
    return wanted


def is_cluster(name: str) -> bool:
    """Return whether an engine, by its name, is that of a cluster: it has sessions."""
    return hasattr(load("engines", name), "Session")


def load_cluster(name: str) -> Cluster:
    """Return the engine of a cluster by its name, with what it offers for collections."""
    return cast("Cluster", load("engines", name))


def load_format(name: str) -> Format:
    """Return a file format by its name."""
    return cast("Format", load("data.formats", name))
