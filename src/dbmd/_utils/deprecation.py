"""How a public name or parameter is retired: it works for two more minor releases, with a FutureWarning.

The warning says since when, until when, and what to use instead:

    @renamed_parameter("n_clusters", "n_components", since="0.2", removal="0.4")
    def fit(X, *, n_components=8): ...

    @deprecated("Use transform instead.", since="0.2", removal="0.4")
    def memberships(self, X): ...

    RENAMED = {"accuracy": Renamed("clustering_accuracy", since="0.2", removal="0.4")}

    def __getattr__(name):
        return renamed_name(__name__, name, RENAMED)
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

__all__ = ["Renamed", "deprecated", "renamed_name", "renamed_parameter"]

P = ParamSpec("P")
T = TypeVar("T")


def deprecated(instead: str, *, since: str, removal: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that makes a function or method warn when it is called, and says so in its docstring.

    Parameters
    ----------
    instead : str
        A sentence that says what to use instead.
    since, removal : str
        The version that deprecated it, and the one that will remove it.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        message = f"{_name_of(function)} is deprecated since {since} and will be removed in {removal}. {instead}"

        @wraps(function)
        def warning(*args: P.args, **kwargs: P.kwargs) -> T:
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        note = f".. deprecated:: {since}\n   It will be removed in {removal}. {instead}"
        warning.__doc__ = "\n\n".join(part for part in (summary, note, rest) if part)
        return warning

    return decorate


def renamed_parameter(
    old: str, new: str, *, since: str, removal: str
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator that lets a function take a keyword argument by its old name, too, with a warning.

    The signature shows the new name only, so that a scikit-learn estimator may have it on ``__init__``.

    Parameters
    ----------
    old, new : str
        The names.
    since, removal : str
        The version that renamed it, and the one that will no longer know the old name.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        if new not in inspect.signature(function).parameters:
            raise TypeError(f"{_name_of(function)} has no parameter {new!r}.")

        @wraps(function)
        def renaming(*args: Any, **kwargs: Any) -> T:
            if old in kwargs:
                if new in inspect.signature(function).bind_partial(*args, **_without(kwargs, old)).arguments:
                    raise TypeError(
                        f"{_name_of(function)} got both {new!r} and {old!r}, its old name. Pass {new!r} only."
                    )
                warnings.warn(
                    f"The parameter {old!r} of {_name_of(function)} was renamed to {new!r} in {since}. "
                    f"The old name will be removed in {removal}.",
                    FutureWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return renaming

    return decorate


@dataclass(frozen=True)
class Renamed:
    """Where a name of a module went.

    Attributes
    ----------
    name : str
        The new name, in the same module; or, with dots, the full name in another one.
    since, removal : str
        The version that renamed it, and the one that will no longer know the old name.
    """

    name: str
    since: str
    removal: str


def renamed_name(module: str, name: str, renamed: Mapping[str, Renamed]) -> Any:
    """Return what a name of a module stands for now, with a warning: for the ``__getattr__`` of the module.

    Parameters
    ----------
    module : str
        The full name of the module.
    name : str
        The name that was not found in it.
    renamed : mapping of str to Renamed
        Its old names.

    Raises
    ------
    AttributeError
        If it is none of them.
    """
    if name not in renamed:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    now = renamed[name]
    home, _, attribute = (now.name if "." in now.name else f"{module}.{now.name}").rpartition(".")
    warnings.warn(
        f"{module}.{name} was renamed to {home}.{attribute} in {now.since}. "
        f"The old name will be removed in {now.removal}.",
        FutureWarning,
        stacklevel=3,
    )
    return getattr(import_module(home), attribute)


def _without(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key != name}


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name that users know: for a constructor, that of its class."""
    name = str(getattr(function, "__qualname__", function))
    return name.rpartition("<locals>.")[2].removesuffix(".__init__")
