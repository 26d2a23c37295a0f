"""Options of several commands, and types of options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dbmd.cli._groups import DATA, OUTPUT, RUN, option
from dbmd.config import MISSING
from dbmd.data.address import is_address, shown
from dbmd.data.options import DEFAULT_MEMORY

F = TypeVar("F", bound=Callable[..., Any])
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def option_name(parameter: str) -> str:
    """Return the option for a parameter of DBMD."""
    special = {
        "n_components": "-k",
        "random_state": "--seed",
        "n_nodes": "--nodes",
        "solver_options": "--solver-option",
    }
    return special.get(parameter, "--" + parameter.replace("_", "-"))


def in_options(message: str) -> str:
    """Return a message about parameters of DBMD with the names of the options."""
    parameter = r"The '(\w+)' (?:parameter of DBMD|array)"
    of_the_solver = r"""The "solver_options\['(\w+)'\]" parameter of DBMD"""
    two_of_the_solver = r"\b(\w+) or (\w+) in solver_options\b"
    name = (
        r"\b(n_components(?!='auto')|random_state|n_nodes|solver_options|max_iter|n_init|tol|sample_weight|image_shape"
        r"|map_shape)\b"
    )
    # These are words of plain English, too.
    words = "brightness|known|log|missing|n_components|nonnegative|offsets|scaling|shares"
    value = rf"\b({words})=(?:'(\w+)'|(True)|(False)|(?!\w))"

    def translated(found: re.Match[str]) -> str:
        if found[6]:
            option = option_name(found[6])
            return f"--no-{option[2:]}" if found[9] else f"{option} {found[7]}" if found[7] else option
        if found[2]:
            return f"--solver-option {found[2]}"
        if found[3]:
            return f"--solver-option {found[3]}=... or --solver-option {found[4]}=..."
        return option_name(found[1] or found[5])

    # In one pass: a translation must not be translated again.
    return re.sub(f"{parameter}|{of_the_solver}|{two_of_the_solver}|{name}|{value}", translated, message)


class LocalPath(click.Path):
    """A path on this machine."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse an address, which would be taken for a folder called s3:, for example."""
        if is_address(value):
            self.fail(f"{shown(value)} is an address. Only data are read from one: name a path here.", param, ctx)
        return super().convert(value, param, ctx)


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: 500MB, 2GB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if not match or match[2].lower() not in UNITS:
            self.fail(f"{value!r} is not a size. Write 500MB or 2GB.", param, ctx)
        return int(float(match[1]) * UNITS[match[2].lower()])


class Seconds(click.FloatRange):
    """A number of seconds, zero or more; inf for never."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0.0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):  # passes any comparison with a bound
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names."""
        if isinstance(value, tuple):
            return value
        return tuple(name.strip() for name in value.split(",") if name.strip())


class Shape(click.ParamType):  # type: ignore[type-arg]
    """Sizes of an image: 28x28, or 32x32x3 if it may have colours."""

    name = "shape"

    def __init__(self, *, in_colours: bool = True) -> None:
        self.lengths = (2, 3) if in_colours else (2,)
        self.examples = "28x28 or 32x32x3" if in_colours else "95x95"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the sizes."""
        if isinstance(value, tuple):
            return value
        sides = value.lower().replace("×", "x").split("x")  # noqa: RUF001, people do type it
        if len(sides) not in self.lengths or not all(side.isdecimal() and int(side) for side in sides):
            self.fail(f"{value!r} is not a height and a width, such as {self.examples}.", param, ctx)
        return tuple(int(side) for side in sides)


class CountOrAuto(click.ParamType):  # type: ignore[type-arg]
    """A whole number, or "auto"."""

    name = "int|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or "auto"."""
        try:
            return value if value == "auto" else int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'auto'.", param, ctx)


class Counts(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers: 2:12 for all from 2 to 12, 2:30:4 for every fourth, 3,5,8 for these."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers in rising order, each once."""
        if isinstance(value, tuple):
            return value
        found: set[int] = set()
        for part in value.split(","):
            numbers = [each.strip() for each in part.split(":")]
            if len(numbers) > 3 or not all(each.isdecimal() and int(each) for each in numbers):
                self.fail(f"{value!r} are no numbers of patterns. Write 2:12, 2:30:4 or 3,5,8.", param, ctx)
            first, last, step = (*map(int, numbers), *[int(numbers[0]), 1][len(numbers) - 1 :])
            if last < first:
                self.fail(f"{part.strip()!r} has no numbers: the first must be the smaller one.", param, ctx)
            found.update(range(first, last + 1, step))
        return tuple(sorted(found))


def needs_image_shape(patterns: str, image_shape: tuple[int, ...] | None) -> None:
    """Raise a usage error if patterns are to be shown as images whose shape is not said."""
    if patterns == "images" and image_shape is None:
        raise click.BadParameter("images have a shape: give --image-shape, such as 28x28.", param_hint="--patterns")


class NumberOrName(click.ParamType):  # type: ignore[type-arg]
    """A number, or one of some names."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.name = "|".join((*names, "number"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """Return the name or the number."""
        if value in self.names or not isinstance(value, str):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor one of {', '.join(self.names)}.", param, ctx)


def reading_options(command: F) -> F:
    """Add the options on how files are read."""
    for decorate in reversed(
        (
            option(
                "--missing",
                type=click.Choice(MISSING),
                group=DATA,
                help="Missing values: refuse them, use what is there, or leave out such rows.  [default: error]",
            ),
            option(
                "--header/--no-header", default=None, group=DATA, help="csv: whether line 1 has names.  [default: look]"
            ),
            option("--delimiter", group=DATA, help="csv: what stands between fields.  [default: look]"),
            option("--layer", group=DATA, help="h5ad: layer to take.  [default: X, or as in the fit]"),
            option("--obsm", metavar="KEY", group=DATA, help="h5ad: take an entry of obsm, X_pca say, instead of X."),
            option(
                "--transpose/--no-transpose",
                default=None,
                group=DATA,
                help="Features are in rows and samples in columns: genes x cells.",
            ),
            option(
                "--memory",
                type=Size(),
                default=f"{DEFAULT_MEMORY // 10**6}MB",
                show_default=True,
                group=RUN,
                help="Keep data up to this size in memory; what is larger is read from the files in every pass.",
            ),
            option(
                "--dtype",
                type=click.Choice(["float32", "float64"]),
                group=RUN,
                help="Type of numbers to compute with.",
            ),
        )
    ):
        command = decorate(command)
    return command


def hvg_option(command: F) -> F:
    """Add the option for data that are fitted: a model is applied to the genes that it has."""
    text = "h5ad: take the highly variable genes only, those of var['highly_variable']."
    return option("--hvg", is_flag=True, group=DATA, help=text)(command)


def printing_options(command: F) -> F:
    """Add the options on what is printed."""
    for decorate in reversed(
        (
            option("-q", "--quiet", is_flag=True, group=OUTPUT, help="Print nothing but errors (and --json)."),
            option("--json", "as_json", is_flag=True, group=OUTPUT, help="Print the summary as JSON."),
        )
    ):
        command = decorate(command)
    return command
