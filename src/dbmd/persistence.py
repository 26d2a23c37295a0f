"""A model as a directory: ``model.json``, to be read by people too, and ``arrays.npz``. No pickle."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dbmd.config import Config
from dbmd.errors import first_line
from dbmd.profile import Profile
from dbmd.result import Iteration
from dbmd.storage import from_npz, left_aside, read_file, to_json, to_npz, write_directory

FORMAT, FORMAT_VERSION = "dbmd-model", 1
# What may be in a model directory: the model, what is made from it, and what pyspark.ml knows it by.
OWNED = frozenset({"model.json", "arrays.npz", "report.html", "metadata/part-00000"})
M = TypeVar("M")


def save(
    model: Any, path: str | Path, *, overwrite: bool = False, beside: Mapping[str, bytes] = MappingProxyType({})
) -> Path:
    """Write a fitted model; see :meth:`dbmd.DBMD.save`. Further files, by their names, come into the same directory."""
    path = Path(path)
    params, arrays = params_of(model)
    arrays |= {"components": model.components_, "noise_variance": model.noise_variance_}
    arrays |= {f"profile_{f.name}": getattr(model.profile_, f.name) for f in fields(Profile)}
    if not model.sources_.dtype.hasobject:
        arrays["sources"] = model.sources_
    info = model.fit_info_
    if info.get("data") is None and hasattr(model, "labels_"):
        arrays["labels"] = model.labels_  # of arrays, not of files, which may have any number of rows
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
    files = {"model.json": to_json(record), "arrays.npz": to_npz(arrays), **beside}
    write_directory(path, files, overwrite=overwrite, owned=OWNED)
    return path


def restore(kind: type[M], path: str | Path) -> M:
    """Read a fitted model of a class; see :func:`dbmd.load`."""
    path = Path(path)
    record = read_record(path)
    try:
        arrays = from_npz(path / "arrays.npz")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: arrays.npz is missing. The model is not complete.") from None
    try:
        return _restored(kind, record, arrays)
    except Exception as error:  # there is no end to what may be wrong with a file
        reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        raise ValueError(f"{path} is not a sound model: {reason}.") from error


def _restored(kind: type[M], record: dict[str, Any], arrays: dict[str, Any]) -> M:
    params: dict[str, Any] = {"inference": "map"} | record[
        "params"
    ]  # what was written before there was evidence is of map
    params.pop("extrapolate", None)  # map alternates plainly now, whatever was said then
    if params.get("tol", 0.0) is None:
        params.pop("tol")
    params |= {name: arrays[f"param_{name}"] for name in ("alpha", "init") if f"param_{name}" in arrays}
    Config(**params)
    model: Any = kind(**params)
    names = record["feature_names"]
    sources = record["sources"]
    model.n_features_in_ = record["n_features"]
    model.components_ = arrays["components"]
    model.noise_variance_ = arrays["noise_variance"]
    # Labels that are objects (text of pandas, say) cannot be in an array without pickle.
    model.sources_ = arrays["sources"] if "sources" in arrays else np.array(sources["names"], dtype=sources["dtype"])
    model.profile_ = Profile(*(arrays[f"profile_{f.name}"] for f in fields(Profile)))
    model.objective_ = record["objective"]
    if model.inference == "evidence":
        model.effective_features_ = float(record["effective_features"])
        model.noise_excess_ = np.array(record["noise_excess"], dtype=np.float64)
    model.history_ = [Iteration(**entry) for entry in record["history"]]
    model.n_iter_ = len(model.history_)
    model.fit_info_ = dict(record["fit"])
    # A model that was written before there were batches came from one.
    model.n_samples_seen_ = record.get("n_samples_seen", model.fit_info_["n_samples"])
    model.n_steps_ = record.get("n_steps", 1)
    if names is not None:
        model.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
    if "labels" in arrays:
        model.labels_ = arrays["labels"]
    _check_sizes(model)
    model.cluster_sizes_ = model.profile_.sizes.sum(axis=0)
    return model


def _check_sizes(model: Any) -> None:
    r, m, n_sources = model.n_components, model.n_features_in_, len(model.sources_)
    expected = Profile.zero(n_sources, r, len(model.profile_.contingency))
    sizes = {f.name: (getattr(model.profile_, f.name), getattr(expected, f.name).shape) for f in fields(Profile)}
    sizes |= {"components": (model.components_, (r, m)), "noise_variance": (model.noise_variance_, (n_sources,))}
    sizes |= {"sources": (model.sources_, (n_sources,))}
    if model.inference == "evidence":
        sizes["noise_excess"] = model.noise_excess_, (n_sources,)
    if hasattr(model, "feature_names_in_"):
        sizes["feature_names"] = model.feature_names_in_, (m,)
    for name, (array, shape) in sizes.items():
        if array.shape != shape:
            raise ValueError(f"{name} should have shape {shape} and has {array.shape}")
    for name in ("components", "noise_variance"):
        if sizes[name][0].dtype.kind != "f" or not np.isfinite(sizes[name][0]).all():
            raise ValueError(f"{name} should hold finite numbers")


def read_record(path: Path) -> dict[str, Any]:
    """Return ``model.json`` of a model directory."""
    try:
        text = read_file(path / "model.json")
    except (FileNotFoundError, NotADirectoryError):
        aside = left_aside(path)
        hint = f" An interrupted overwrite left the model before it in {aside}: rename it." if aside else ""
        raise FileNotFoundError(f"{path} is not a model: it has no model.json.{hint}") from None
    try:
        record: dict[str, Any] = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path / 'model.json'} cannot be read: {error}.") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f"{path / 'model.json'} does not describe a model of dbmd.")
    number = record.get("format_version")
    if not isinstance(number, int):
        raise ValueError(f"{path / 'model.json'} does not say of which version of the format it is.")
    if number > FORMAT_VERSION:
        raise ValueError(f"{path} was written by a newer dbmd (version {number} of the format). Update dbmd.")
    return record


def params_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a model that can be written down, and those that are arrays."""
    params, arrays = dict(model.get_params(deep=False)), {}
    for name in ("alpha", "init"):
        if not isinstance(params[name], str) and np.ndim(params[name]) > 0:
            arrays[f"param_{name}"] = np.asarray(params.pop(name), dtype=np.float64)
    if not isinstance(params["engine"], str):
        params["engine"] = "local"  # one that was handed over as an object cannot be written down
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None
    return params, arrays


def versions() -> dict[str, str]:
    """Return the versions that a model was made with."""
    packages = ("dbmd", "numpy", "scipy", "scikit-learn", "numba", "pyarrow")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
