"""The Params of the pyspark.ml interface, made from the table of parameters in config.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from inspect import Parameter, Signature
from numbers import Integral
from typing import Any

import numpy as np
from pyspark.ml.param import Param, Params, TypeConverters

from dbmd.config import Config
from dbmd.model.known import Known

# Parameters that have another name in pyspark.ml; the names of all others are those of Config in camel case.
RENAMED = {"n_components": "k", "random_state": "seed", "n_nodes": "numPartitions"}
# Parameters that are no Params, and why.
LEFT_OUT = {
    "engine": "it is always Spark",
    "forget_factor": "an Estimator has no partial_fit",
    "warm_start": "an Estimator keeps nothing of its last fit; pass init=model.clusterCenters()",
}
COLUMNS: dict[str, tuple[str | None, str]] = {
    "featuresCol": ("features", "Column of samples: vectors, or arrays of float or double."),
    "predictionCol": ("prediction", "Column to add with the cluster of each sample; '' adds none."),
    "probabilityCol": ("probability", "Column to add with the memberships of each sample; '' adds none."),
    "sourceCol": (None, "Column that names the source of each sample; unset, all are of one source."),
    "weightCol": (None, "Column that says how often each sample counts, >= 0; unset, all count once."),
    "brightnessCol": (None, "Column to add with the brightness of each sample, if the model has it; unset adds none."),
    "labelCol": (None, "Column with known classes: never a feature, only compared with the clusters found."),
}


def spark_name(name: str) -> str:
    """Return the Param for a parameter of :class:`dbmd.DBMD`."""
    return RENAMED.get(name) or re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


NAMES = {field.name: spark_name(field.name) for field in fields(Config) if field.name not in LEFT_OUT}
DEFAULTS = {NAMES[field.name]: field.default for field in fields(Config) if field.name in NAMES} | {
    name: default for name, (default, _) in COLUMNS.items() if default is not None
}
_CHANGED = re.compile(r"\b(" + "|".join(old for old, new in NAMES.items() if old != new) + r")\b")


@contextmanager
def spark_names() -> Iterator[None]:
    """Replace the names of parameters in error messages by those of the Params."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = _CHANGED.sub(lambda found: NAMES[found[1]], str(error))
        # Errors of other classes are about data, whose columns may have any name.
        if type(error) not in (TypeError, ValueError) or message == str(error):
            raise
        raise type(error)(message) from None


def plain(value: Any) -> Any:
    """Return a value that can be written as JSON: lists for arrays and vectors, Python's numbers for NumPy's.

    Known components with names become a dict from names to vectors.
    """
    if isinstance(value, Known) or hasattr(value, "columns"):
        known = Known.of(value)
        rows = known.values.tolist()
        return rows if known.names is None else dict(zip(known.names, rows, strict=True))
    if hasattr(value, "toArray"):  # of pyspark.ml
        value = value.toArray()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return value


def _converter(name: str) -> Callable[[Any], Any]:
    """Return a function that converts a value to a plain one, and refuses one that is always wrong."""

    def convert(value: Any) -> Any:
        value = plain(value)
        if name == "random_state":
            _check_int("seed", value, 0, 2**32 - 1)
        elif name == "verbose":
            _check_int("verbose", value, 0, 2**31)
        elif name == "alpha":  # whether it suits the inference is checked by a fit
            with spark_names():
                n_components = len(value) if isinstance(value, list) else Config.n_components
                Config(inference="map", alpha=value, n_components=n_components)
        elif name == "known":  # whether there are so many components is checked by a fit
            with spark_names():
                Config(known=value, n_components=max(1, len(value) if isinstance(value, list | dict) else 1))
        elif name == "shares":  # whether there is brightness is checked by a fit
            with spark_names():
                Config(shares=value, brightness=True)
        # Options depend on the solver, and no iteration at all on what is known: a fit checks them together.
        elif name != "solver_options" and (name, value) != ("max_iter", 0):
            with spark_names():
                Config(**{name: value})
        return value

    return convert


def _check_int(name: str, value: Any, low: int, high: int) -> None:
    if value is not None and not (isinstance(value, Integral) and low <= int(value) <= high):
        error = ValueError if isinstance(value, Integral) else TypeError
        raise error(f"The {name!r} parameter of DBMD must be an int from {low} to {high}. Got {value!r}.")


def _getter(name: str) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        return self._value(name)

    get.__name__, get.__doc__ = f"get{name[0].upper()}{name[1:]}", f"Return the value of {name}, None if it has none."
    return get


def _setter(name: str) -> Callable[[Any, Any], Any]:
    def set_value(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    set_value.__name__, set_value.__doc__ = f"set{name[0].upper()}{name[1:]}", f"Set {name}, and return self."
    return set_value


def with_setters(*names: str) -> Callable[[type], type]:
    """Return a decorator that adds a setter for each of some Params to a class."""

    def decorate(cls: type) -> type:
        for name in names:
            setter = _setter(name)
            setattr(cls, setter.__name__, setter)
        return cls

    return decorate


class DBMDParams(Params):
    """All Params, with a getter for each; the estimator and its model have the same."""

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(**DEFAULTS)

    def _value(self, name: str) -> Any:
        return self.getOrDefault(name) if self.isDefined(name) else None

    def _estimator_params(self) -> dict[str, Any]:
        """Return the parameters of :class:`dbmd.DBMD`, by its names."""
        return {name: self._value(param) for name, param in NAMES.items()}


def _add(name: str, doc: str, converter: Callable[[Any], Any]) -> None:
    getter = _getter(name)
    setattr(DBMDParams, name, Param(Params._dummy(), name, doc, typeConverter=converter))
    setattr(DBMDParams, getter.__name__, getter)


for _field in fields(Config):
    if _field.name in NAMES:
        _add(NAMES[_field.name], _field.metadata["doc"], _converter(_field.name))
for _name, (_, _doc) in COLUMNS.items():
    _add(_name, _doc, TypeConverters.toString)

SIGNATURE = Signature(
    [Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name)) for name in [*NAMES.values(), *COLUMNS]]
)
