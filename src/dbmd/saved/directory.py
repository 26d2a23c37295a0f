"""A model as a directory: ``model.json``, which people can read, and ``arrays.npz``. No pickle."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dbmd import __version__
from dbmd._utils.fields import (
    COUNT,
    FLAG,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    OBJECT,
    POSITIVE,
    TEXT,
    Kind,
    check_array,
    check_fields,
    check_known,
)
from dbmd._utils.model_files import ARRAYS, MODEL, OWNED
from dbmd.config import Config
from dbmd.data.preparation import Preparation
from dbmd.errors import first_line
from dbmd.model.known import Known
from dbmd.model.profile import Profile
from dbmd.model.result import Iteration, check_iteration
from dbmd.saved._sample import sample_arrays, sample_from
from dbmd.saved._uncertainty import uncertainty_arrays, uncertainty_from
from dbmd.storage import (
    CHECKSUM,
    from_npz,
    is_as_signed,
    left_aside,
    read_file,
    signed,
    to_json,
    to_npz,
    write_directory,
)

FORMAT, FORMAT_VERSION = "dbmd-model", 1
ARRAY_PARAMS = ("alpha", "init", "known")  # parameters that may be arrays
M = TypeVar("M")

# Arrays that only some models have, by the attribute.
PARTS = {
    "scaled_components": "_scaled_components",
    "offsets": "offsets_",
    "scaled_offsets": "_scaled_offsets",
    "agreement": "agreement_",
}
# The entries of model.json that are read back. Others are for people, or from a later release.
RECORD = {
    "params": OBJECT,
    "n_features": COUNT,
    "feature_names": NAME.list.or_none,
    "sources": OBJECT,
    "objective": NUMBER.or_none,  # what is not finite is written as null
    "fit": OBJECT,
    "history": OBJECT.list,
    "n_samples_seen": COUNT,
    "n_steps": COUNT,
    "known": OBJECT,
    "preparation": OBJECT,
    "offset_variance": POSITIVE,
    "choice": OBJECT,
}
# The first release did not write them, or the model may have none.
OPTIONAL = ("n_samples_seen", "n_steps", "known", "preparation", "offset_variance", "choice")
PREPARATION = {"log": FLAG, "by_sample": TEXT.or_none, "drops": FLAG}
FIT = {
    "n_samples": COUNT,
    "seconds": NOT_NEGATIVE,
    "converged": FLAG.or_none,
    "seed": COUNT.or_none,
    "dtype": Kind("'float32' or 'float64'", lambda value: value in ("float32", "float64")),
    "explained": NUMBER.or_none,
    "explained_by_source": NUMBER.or_none.list,
    "classes": NAME.or_none.list.or_none,
    "data": OBJECT.or_none,
    "noise_unit": TEXT,
    "versions": TEXT.map,
    "created": TEXT,
    "command": TEXT,
    "missing_fraction": NOT_NEGATIVE,
    "check": NUMBER.map,
    "warnings": TEXT.map.list,
}
# Parameters that Config does not check. True and 1 are the same to Python.
SEED = Kind("a whole number >= 0", lambda value: isinstance(value, int) and value >= 0)
SWITCH = Kind("true, false or a number", lambda value: isinstance(value, bool | int | float))
DATA = {
    "paths": TEXT.list,
    "source": TEXT.or_none,
    "label": TEXT.or_none,
    "sample_weight": TEXT.or_none,
    "missing": TEXT.or_none,
    "encode": NAME.or_none.list.map,
    "header": FLAG.or_none,
    "delimiter": TEXT.or_none,
    "layer": TEXT.or_none,
    "obsm": TEXT.or_none,
    "hvg": FLAG.or_none,
    "transpose": FLAG.or_none,
    "fingerprint": TEXT,
}


def save(
    model: Any, path: str | Path, *, overwrite: bool = False, beside: Mapping[str, bytes] = MappingProxyType({})
) -> Path:
    """Write a fitted model to a directory, and return its path; see :meth:`dbmd.DBMD.save`.

    Parameters
    ----------
    model : DBMD
        Fitted.
    path : str or Path
        The directory.
    overwrite : bool
        Whether a model that is there may be replaced.
    beside : mapping of str to bytes
        Further files of the same directory.
    """
    path = Path(path)
    params, arrays = params_of(model)
    arrays |= {"components": model.components_, "noise_variance": model.noise_variance_}
    arrays |= {name: getattr(model, attribute) for name, attribute in PARTS.items() if hasattr(model, attribute)}
    arrays |= {f"profile_{f.name}": getattr(model.profile_, f.name) for f in fields(Profile)}
    arrays |= sample_arrays(getattr(model, "membership_sample_", None))
    arrays |= uncertainty_arrays(getattr(model, "_uncertainty", None))
    if not model.sources_.dtype.hasobject:
        arrays["sources"] = model.sources_
    info = model.fit_info_
    if "paths" not in (info.get("data") or {}) and hasattr(model, "labels_"):
        arrays["labels"] = model.labels_  # not those of files, which may have any number of rows
    info.setdefault("versions", versions())
    info.setdefault("created", datetime.now(UTC).isoformat(timespec="seconds"))
    names = getattr(model, "feature_names_in_", None)
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "params": params,
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else list(names),
        "sources": {"dtype": str(model.sources_.dtype), "names": model.sources_},
        "noise_variance": model.noise_variance_,
        "effective_features": getattr(model, "effective_features_", None),
        "noise_excess": getattr(model, "noise_excess_", None),
        "objective": model.objective_,
        "history": [record.asdict() for record in model.history_],
        "n_samples_seen": model.n_samples_seen_,
        "n_steps": model.n_steps_,
        "fit": info,
    }
    if hasattr(model, "_preparation"):
        how = model._preparation
        record["preparation"] = {"log": how.log, "by_sample": how.by_sample, "drops": how.drops}
        arrays |= {name: getattr(how, name) for name in ("scale", "fill") if getattr(how, name) is not None}
    if hasattr(model, "offset_variance_"):
        record["offset_variance"] = model.offset_variance_
    if hasattr(model, "choice_"):
        record["choice"] = model.choice_.asdict()
    if model.known is not None:
        known = Known.of(model.known)
        if known.names or known.columns:
            record["known"] = {"names": known.names, "columns": known.columns}
    files = {MODEL: to_json(signed(record, arrays)), ARRAYS: to_npz(arrays), **beside}
    write_directory(path, files, overwrite=overwrite, owned=OWNED)
    return path


def restore(kind: type[M], path: str | Path, read_choice: Callable[[dict[str, Any]], Any]) -> M:
    """Return the model in a directory, as an estimator of a class; see :func:`dbmd.load`.

    Parameters
    ----------
    kind : type
        The class.
    path : str or Path
        The directory.
    read_choice : callable
        Returns how the number of components was chosen, of its record in ``model.json``.
    """
    path = Path(path)
    record = read_record(path)
    try:
        arrays = from_npz(path / ARRAYS)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: {ARRAYS} is missing. The model is not complete.") from None
    try:
        return _restored(kind, record, arrays, read_choice)
    except Exception as error:  # a damaged file may raise anything
        reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise ValueError(f"{path} is not a sound model: {reason}.") from error


def _restored(
    kind: type[M], record: dict[str, Any], arrays: dict[str, Any], read_choice: Callable[[dict[str, Any]], Any]
) -> M:
    # The first release wrote no checksums.
    if CHECKSUM in record and not is_as_signed(record, arrays):
        raise ValueError(
            "its checksum does not match, so it was changed after it was saved. Take a copy that was not; or, if it "
            f"was changed on purpose, remove {CHECKSUM!r} from its {MODEL}"
        )
    check_fields(record, RECORD, optional=OPTIONAL)
    check_fields(record["sources"], {"dtype": TEXT, "names": NAME.or_none.list}, "sources.")
    check_fields(record["fit"], FIT, "fit.", optional=FIT.keys() - {"n_samples", "seconds", "converged", "explained"})
    if record["fit"].get("data") is not None:
        check_fields(record["fit"]["data"], DATA, "fit.data.", optional=DATA)
    for i, entry in enumerate(record["history"]):
        check_iteration(entry, f"history[{i}]")
    if not record["history"] and record["params"].get("max_iter") != 0:
        raise ValueError("history must not be empty")

    model: Any = kind(**_params(record["params"], arrays, record.get("known")))
    names, sources = record["feature_names"], record["sources"]
    model.n_features_in_ = record["n_features"]
    model.components_ = arrays["components"]
    model.noise_variance_ = arrays["noise_variance"]
    _restore_parts(model, record, arrays)
    if "choice" in record:
        model.choice_ = read_choice(record["choice"])
    # Labels of the type object, such as text of pandas, cannot be saved in an array without pickle.
    if "sources" not in arrays and sources["dtype"] != "object":
        raise KeyError("sources")
    model.sources_ = arrays["sources"] if "sources" in arrays else np.array(sources["names"], dtype=object)
    model.profile_ = Profile(*(arrays[f"profile_{f.name}"] for f in fields(Profile)))
    sample = sample_from(arrays, len(model.components_), len(model.sources_), len(model.profile_.contingency))
    if sample is not None:
        model.membership_sample_ = sample
    known = uncertainty_from(arrays, model)
    if known is not None:
        model._uncertainty = known
    model.objective_ = record["objective"]
    if model.inference == "evidence":
        check_fields(record, {"effective_features": POSITIVE, "noise_excess": POSITIVE.list})
        model.effective_features_ = float(record["effective_features"])
        model.noise_excess_ = np.array(record["noise_excess"], dtype=np.float64)
    model.history_ = [Iteration(**entry) for entry in record["history"]]
    model.n_iter_ = len(model.history_)
    model.fit_info_ = dict(record["fit"])
    # The first release had no partial_fit.
    model.n_samples_seen_ = record.get("n_samples_seen", model.fit_info_["n_samples"])
    model.n_steps_ = record.get("n_steps", 1)
    if names is not None:
        model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    if "labels" in arrays:
        model.labels_ = arrays["labels"]
    _check_arrays(model)
    model.cluster_sizes_ = model.profile_.sizes.sum(axis=0)
    return model


def _restore_parts(model: Any, record: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Set what only some models have: how data are scaled, offsets of sources, names of components."""
    for name, attribute in PARTS.items():
        if name in arrays:
            setattr(model, attribute, arrays[name])
    if "preparation" in record:
        check_fields(record["preparation"], PREPARATION, "preparation.")
        model._preparation = Preparation(**record["preparation"], scale=arrays.get("scale"), fill=arrays.get("fill"))
        if "scale" in arrays:
            model.scale_ = arrays["scale"]
    if "offset_variance" in record:
        model.offset_variance_ = float(record["offset_variance"])
    names = None if model.known is None else Known.of(model.known).component_names(len(model.components_))
    if names is not None:
        model.component_names_ = names


def _check_parts(model: Any) -> None:
    """Raise a ValueError if arrays are not those that the parameters ask for."""
    (r, m), n_sources = model.components_.shape, len(model.sources_)
    has_features_scaled = model.scaling in ("standard", "minmax")
    wanted = {
        "scaled_components": ((r, m), "_scaled_components", model.log or model.scaling is not None),
        "offsets": ((n_sources, m), "offsets_", model.offsets),
        "scaled_offsets": ((n_sources, m), "_scaled_offsets", model.offsets),
        "scale": ((m,), "scale_", has_features_scaled),
        "agreement": ((r,), "agreement_", False),
    }
    for name, (shape, attribute, is_needed) in wanted.items():
        if hasattr(model, attribute):
            least = np.finfo(np.float64).smallest_subnormal if name == "scale" else -np.inf
            check_array(name, getattr(model, attribute), shape, least=least)
        elif is_needed:
            raise KeyError(name)
    if model.offsets and not hasattr(model, "offset_variance_"):
        raise KeyError("offset_variance")
    preparation = getattr(model, "_preparation", None)
    if preparation is None and (model.log or model.scaling is not None):
        raise KeyError("preparation")
    if preparation is not None and preparation.fill is not None:
        check_array("fill", preparation.fill, (m,))
    if preparation is not None and preparation.by_sample not in (None, "sum", "l2"):
        raise ValueError(f"preparation.by_sample must be null, 'sum' or 'l2' and is {preparation.by_sample!r}")


def _params(record: dict[str, Any], arrays: dict[str, Any], names: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a model, checked; ``names`` are those of known components and their columns."""
    params = {"inference": "map"} | record  # the first release had no other
    params.pop("extrapolate", None)  # a parameter of earlier releases
    if params.get("tol", 0.0) is None:
        params.pop("tol")
    check_known(params, [f.name for f in fields(Config)], "params")
    kinds = {"random_state": SEED.or_none, "warm_start": SWITCH, "verbose": SWITCH, "engine": TEXT}
    check_fields(params, kinds, "params.", optional=kinds)
    params |= {name: arrays[f"param_{name}"] for name in ARRAY_PARAMS if f"param_{name}" in arrays}
    if names is not None:
        check_fields(names, {"names": TEXT.list.or_none, "columns": TEXT.list.or_none}, "known.")
        labels = {name: None if each is None else tuple(each) for name, each in names.items()}
        params["known"] = Known(params["known"], names=labels["names"], columns=labels["columns"])
    Config(**params)
    return params


def _check_arrays(model: Any) -> None:
    """Raise a ValueError if the shapes, types or values of arrays are not those of a model."""
    r, m, n_sources = _number_of_components(model), model.n_features_in_, len(model.sources_)
    info, profile = model.fit_info_, model.profile_
    tiny = np.finfo(np.float64).smallest_subnormal
    check_array("components", model.components_, (r, m))
    _check_parts(model)
    check_array("noise_variance", model.noise_variance_, (n_sources,), least=tiny)
    expected = Profile.zero(n_sources, r, len(profile.contingency) if profile.contingency.ndim else 0)
    for f in fields(Profile):
        zero = getattr(expected, f.name)
        check_array(f"profile_{f.name}", getattr(profile, f.name), zero.shape, zero.dtype.kind, least=0.0)
    if model.inference == "evidence":
        check_array("noise_excess", model.noise_excess_, (n_sources,), least=tiny)
    if hasattr(model, "labels_"):
        check_array("labels", model.labels_, (info["n_samples"],), "i", least=-1.0 if model.missing == "drop" else 0.0)
        if model.labels_.max(initial=0) >= r:
            raise ValueError(f"labels must be < {r} and has {model.labels_.max()}")
    lengths = {
        "feature_names": (getattr(model, "feature_names_in_", None), m),
        "sources": (None if model.sources_.ndim == 1 else (), n_sources),
        "fit.classes": (info.get("classes"), len(profile.contingency)),
        "fit.explained_by_source": (info.get("explained_by_source"), n_sources),
    }
    for name, (values, length) in lengths.items():
        if values is not None and len(values) != length:
            raise ValueError(f"{name} must have {length} entries and has {len(values)}")
    Config.of(model, n_components=r).start(m)


def _number_of_components(model: Any) -> int:
    """Return how many components a model must have; with "auto" as many as were chosen, if it says how."""
    if model.n_components != "auto":
        return int(model.n_components)
    return int(model.choice_.n_components) if hasattr(model, "choice_") else len(model.components_)


def read_record(path: Path) -> dict[str, Any]:
    """Return ``model.json`` of a model directory."""
    try:
        text = read_file(path / MODEL)
    except (FileNotFoundError, NotADirectoryError):
        aside = left_aside(path)
        hint = f" An interrupted overwrite left the model before it in {aside}: rename it." if aside else ""
        raise FileNotFoundError(f"{path} is not a model: it has no {MODEL}.{hint}") from None
    try:
        record: dict[str, Any] = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path / MODEL} cannot be read: {error}.") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{path / MODEL} does not describe a model of dbmd.")
    number = record.get("format_version")
    if not isinstance(number, int):
        raise ValueError(f"{path / MODEL} does not say of which version of the format it is.")
    if number > FORMAT_VERSION:
        raise ValueError(f"{path} was written by a newer dbmd (version {number} of the format). Update dbmd.")
    return record


def params_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a model that can be saved as JSON, and those that are arrays."""
    params, arrays = dict(model.get_params(deep=False)), {}
    if params["known"] is not None:
        params["known"] = Known.of(params["known"])
    for name in ARRAY_PARAMS:
        if not isinstance(params[name], str) and np.ndim(params[name]) > 0:
            arrays[f"param_{name}"] = np.asarray(params.pop(name), dtype=np.float64)
    if not isinstance(params["engine"], str):
        params["engine"] = "local"  # an engine that was passed as an object cannot be saved
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None
    return params, arrays


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that the fit depends on."""
    packages = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")
    own = {"python": platform.python_version(), "dbmd": __version__}  # a source tree need not be installed
    return own | {name: version(name) for name in packages}
