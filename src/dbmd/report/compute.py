"""What the report shows of a fitted model, as plain data of bounded size, without drawings and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dbmd.advice.findings import says_much
from dbmd.config import Config
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.profile import Profile
from dbmd.report.agreeing import describe_agreement
from dbmd.report.basis import FAINT, TOP, check_image_shape, used_of
from dbmd.report.classes import describe_classes
from dbmd.report.crisp import at_peaks, certain, describe_memberships, has_pure
from dbmd.report.maps import describe_maps, map_of
from dbmd.report.mix import describe_mix
from dbmd.report.ordered import Patterns, check_patterns
from dbmd.report.patterns import describe_patterns
from dbmd.report.plain import VALUE, clean, number, numbers, text, value_text
from dbmd.report.simplex import describe_simplex

# However large the model is, no more than this is drawn. The page says what is left out.
SOURCES, CLUSTERS, ITERATIONS = 60, 100, 200
PATHS, COMMAND, WARNINGS, SENTENCES = 20, 4000, 12, 800


def describe(
    model: Any,
    image_shape: Sequence[int] | None = None,
    *,
    map_shape: Sequence[int] | None = None,
    memberships: Any = None,
    patterns: Patterns = "auto",
) -> dict[str, Any]:
    """Return what the report shows of a model.

    Parameters
    ----------
    model : DBMD
        Fitted, with ``profile_`` and ``fit_info_``.
    image_shape : sequence of int, optional
        (height, width) or (height, width, 3), if the features are the pixels of a picture.
    map_shape : sequence of int, optional
        (height, width), if the samples are the pixels of a picture, row by row.
    memberships : array of shape (n, r) or MembershipMap, optional
        Memberships of all samples, for the maps.
    patterns : {"auto", "lines", "images", "bars"}
        How to show the components.

    Returns
    -------
    dict
        JSON-able. Sources are in the order of their noise, clusters in that of their size. Its size is bounded,
        whatever the numbers of samples, features, components and sources are.
    """
    check_is_fitted(model, "components_")
    for attribute in ("profile_", "fit_info_"):
        if not hasattr(model, attribute):
            raise ValueError(
                f"The report needs the attribute {attribute!r} of the model: fit it again with this version."
            )
    W = np.asarray(model.components_)
    shape = check_image_shape(image_shape, W.shape[1])
    check_patterns(patterns, shape)
    found_map = map_of(memberships, map_shape, len(W))
    profile: Profile = model.profile_
    info: dict[str, Any] = model.fit_info_

    warnings = _warnings(info)
    tells_explained = says_much(info.get("explained"), [warning["kind"] for warning in warnings])

    by_noise = np.argsort(model.noise_variance_, kind="stable")
    sources = _evenly(by_noise, SOURCES)
    by_size = np.argsort(-np.asarray(model.cluster_sizes_), kind="stable")
    clusters = by_size[:CLUSTERS]
    labels = _class_names(profile, info)
    names = getattr(model, "feature_names_in_", None)
    sizes = np.asarray(model.cluster_sizes_, float)
    sample: MembershipSample | None = getattr(model, "membership_sample_", None)
    described = _clusters(model, profile, labels, clusters)
    return {
        "n_samples": int(info["n_samples"]),
        "n_features": W.shape[1],
        "n_clusters": len(W),
        "n_sources": len(model.sources_),
        "weighted": _is_weighted(profile, info),
        "warnings": warnings,
        "fit": _fit(model, info) | {"explained": number(info.get("explained")) if tells_explained else None},
        "preparation": _preparation(model, info),
        "sources": _sources(model, profile, sample, info if tells_explained else {}, sources),
        "offsets": _offsets(model, names, sources),
        "clusters": described,
        "mix": describe_mix(profile, sources, clusters, [_inside(cluster) for cluster in described]),
        "basis": describe_patterns(model, clusters, shape, patterns),
        "maps": describe_maps(found_map, clusters),
        "simplex": describe_simplex(
            np.asarray(getattr(model, "scaled_components_", W)),
            sizes,
            used_of(sizes),
            sample,
            clusters,
            sources,
            labels,
        ),
        "memberships": describe_memberships(profile, sample),
        "classes": describe_classes(profile, labels, by_size, getattr(model, "component_names_", None))
        if labels
        else None,
        "convergence": _convergence(model.history_),
        "provenance": _provenance(model, info),
    }


def _fit(model: Any, info: dict[str, Any]) -> dict[str, Any]:
    converged = info.get("converged")
    return {
        "converged": None if converged is None else bool(converged),
        "seconds": number(info.get("seconds")),
        "iterations": int(model.n_iter_),
        "objective": number(model.objective_),
        "noise": model.noise if isinstance(model.noise, str) else "fixed",
        "inference": model.inference,
        "effective_features": number(getattr(model, "effective_features_", None)),
        "change": number(model.history_[-1].change) if model.history_ else None,
    }


def _warnings(info: dict[str, Any]) -> list[dict[str, str]]:
    """Return what a user should know first, in words for Python, or for the command line if the fit was made there."""
    words = "command_text" if info.get("command") else "text"
    return [
        {"kind": text(found["kind"]), "text": text(found[words], SENTENCES)}
        for found in (info.get("warnings") or [])[:WARNINGS]
    ]


def _preparation(model: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Return what was done to the data, and which parts the model has besides components and noise."""
    return {
        "log": bool(model.log),
        "scaling": model.scaling,
        "unit": text(info.get("noise_unit") or "the data"),
        "offset_unit": text(offset_unit(model)),
        "brightness": bool(model.brightness),
        "shares": model.shares,
        "missing_fraction": number(info.get("missing_fraction")) if model.missing == "allow" else None,
        "left_out": max(int(info["n_samples"]) - int(model.profile_.n.sum()), 0) if model.missing == "drop" else 0,
        "n_known": 0 if model.known is None else len(model.known),
    }


def offset_unit(model: Any) -> str:
    """Return what ``offsets_`` are measured in: those of the noise, but not divided by scales of features."""
    is_scaled = model.log or model.scaling in ("sum", "l2")
    return str(model.fit_info_.get("noise_unit", "the data")) if is_scaled else "the data"


def _offsets(model: Any, names: Sequence[Any] | None, shown: NDArray[np.intp]) -> list[dict[str, Any]] | None:
    """Return for each source the size of its offset, and the features in which it is largest; None without offsets.

    The size is the root mean square over the features, so that it can be compared with the noise level.
    """
    offsets = getattr(model, "offsets_", None)
    if offsets is None:
        return None
    described = []
    for c in shown:
        offset = np.asarray(offsets[c], float)
        top = np.argsort(-np.abs(offset), kind="stable")[:TOP]
        described.append(
            {
                "name": _source_name(model.sources_[c]),
                "size": number(np.sqrt(np.mean(offset**2))),
                "top": [
                    {"name": f"feature {j}" if names is None else text(names[j]), "value": number(offset[j])}
                    for j in top
                    if abs(offset[j]) > FAINT * np.abs(offset).max()
                ],
            }
        )
    return described


def _sources(
    model: Any, profile: Profile, sample: MembershipSample | None, info: dict[str, Any], shown: NDArray[np.intp]
) -> list[dict[str, Any]]:
    """Return the sources, the least noisy first.

    ``weight`` is the weight of a sample in the fit: its precision 1 / sigma^2 relative to that of the least noisy
    source. ``worth`` is the number of samples of the least noisy source that all of its samples are equivalent to.
    """
    variance = np.asarray(model.noise_variance_, float)
    quietest = variance.min()
    explained = info.get("explained_by_source") or [None] * len(variance)
    described = []
    for c in shown:
        weight = quietest / variance[c] if variance[c] > 0 else 1.0
        n = int(profile.n[c])
        described.append(
            {
                "name": _source_name(model.sources_[c]),
                "sigma": number(np.sqrt(variance[c])),
                "weight": number(weight),
                "n": n,
                "worth": number(weight * n),
                "explained": number(explained[c]),
                "crispness": at_peaks(profile.largest[c]),
                "certain": certain(sample, int(c)) if n else None,
            }
        )
    return described


def _is_weighted(profile: Profile, info: dict[str, Any]) -> bool:
    """Say whether samples have weights: then sums of memberships are weighted, and numbers of samples are not."""
    told = info.get("weighted") or (info.get("data") or {}).get("sample_weight")
    sums = profile.sizes.sum(axis=1)
    return bool(told) or not np.allclose(sums, profile.n, rtol=1e-3, atol=1e-3)


def _clusters(model: Any, profile: Profile, labels: list[str] | None, shown: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return the clusters, the largest first, each with the class that most of its samples have, if that is known."""
    sizes, counts = np.asarray(model.cluster_sizes_, float), profile.counts.sum(axis=0)
    names = getattr(model, "component_names_", None)
    pure = has_pure(profile, getattr(model, "membership_sample_", None))
    described = []
    for k in shown:
        cluster = {
            "name": str(k) if names is None else text(names[k]),
            "title": f"Cluster {k}" if names is None else text(names[k]),
            "size": number(sizes[k]),
            "fraction": number(sizes[k] / sizes.sum()),
            "count": int(counts[k]),
            "pure": bool(pure[k]),
            "class": None,
            "purity": None,
            **describe_agreement(model, int(k)),
        }
        known = profile.contingency[:, k] if labels else np.zeros(0, int)
        if labels and known.sum():
            cluster |= {"class": labels[known.argmax()], "purity": number(known.max() / known.sum())}
        described.append(cluster)
    return described


def _convergence(history: Sequence[Any]) -> dict[str, Any]:
    """Return the objective and by how much each iteration lowered it, thinned where there are many."""
    objective = np.array([record.objective for record in history], float)
    seconds = np.cumsum([record.seconds for record in history])
    decrease = np.append(np.nan, -np.diff(objective))
    gain = objective[0] - objective[-1] if len(objective) else 0.0
    # The first iterations decrease the objective most: they are shown close together, later ones further apart.
    last = len(objective) - 1
    if len(objective) > ITERATIONS:
        shown = np.unique(np.rint(np.append(0, np.geomspace(1, last, ITERATIONS - 1))).astype(int))
    else:
        shown = np.arange(len(objective))

    def reached(fraction: float) -> int | None:
        return int(np.argmax(objective[0] - objective >= fraction * gain)) + 1 if gain > 0 else None

    return {
        "total": len(objective),
        "iteration": numbers(shown + 1),
        "objective": [None if not np.isfinite(v) else float(f"{v:.10g}") for v in objective[shown]],
        "decrease": numbers(decrease[shown]),
        "seconds": numbers(seconds[shown]),
        "gain": number(gain),
        "half": reached(0.5),  # the iteration that reached half of the decrease
        "most": reached(0.9),
        "last": number(decrease[-1] / gain) if gain > 0 else None,
    }


def _provenance(model: Any, info: dict[str, Any]) -> dict[str, Any]:
    defaults = Config()
    data = info.get("data") or {}
    paths = [text(path, VALUE) for path in (data.get("paths") or [])[:PATHS]]
    command = info.get("command")
    return {
        "parameters": [
            {
                "name": name,
                "value": value_text(value),
                "default": value_text(value) == value_text(getattr(defaults, name, None)),
            }
            for name, value in model.get_params(deep=False).items()
        ],
        "seed": value_text(info.get("seed")),
        "dtype": text(info.get("dtype") or model.components_.dtype),
        "created": text(info.get("created") or ""),
        "versions": {text(name): text(value) for name, value in list((info.get("versions") or {}).items())[:20]},
        "paths": paths,
        "paths_left_out": max(len(data.get("paths") or []) - PATHS, 0),
        "columns": {name: text(data[name]) for name in ("source", "label") if data.get(name) is not None},
        "fingerprint": text(data.get("fingerprint") or ""),
        # A shortened command would reproduce nothing: all of it, or none.
        "command": clean(command) if command and len(command) <= COMMAND else None,
    }


def _class_names(profile: Profile, info: dict[str, Any]) -> list[str] | None:
    if not profile.contingency.sum():
        return None
    labels = info.get("classes")
    return [text(label) for label in (labels if labels is not None else range(len(profile.contingency)))]


def _source_name(label: Any) -> str:
    """Return a name to use in a sentence: a bare number says too little."""
    name = text(label)
    return name if isinstance(label, str) and name else f"source {name}".strip()


def _inside(cluster: dict[str, Any]) -> str:
    """Return a cluster as a part of a sentence: names of known patterns stay as they are."""
    return f"cluster {cluster['name']}" if cluster["title"] == f"Cluster {cluster['name']}" else str(cluster["title"])


def _evenly(order: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return at most ``count`` entries, evenly over the order, the first and the last among them."""
    if len(order) <= count:
        return order
    return order[np.linspace(0, len(order) - 1, count).round().astype(int)]
