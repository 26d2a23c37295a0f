"""The summary of a fit: as data for JSON, and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from dbmd._utils.text import printable, quoted
from dbmd.advice.findings import says_much
from dbmd.cli._progress import duration
from dbmd.metrics import agreement
from dbmd.report.agreeing import AGREED
from dbmd.report.compute import offset_unit
from dbmd.report.numbers import percent, plural


def summary(model: Any) -> dict[str, Any]:
    """Return the summary of a fitted model, ready for JSON."""
    info = model.fit_info_
    counts = model.profile_.counts.sum(axis=0)
    found = {
        "n_samples": info["n_samples"],
        "n_features": model.n_features_in_,
        "n_components": len(model.components_),
        "converged": info["converged"],
        "n_iter": model.n_iter_,
        "seconds": round(info["seconds"], 3),
        "objective": model.objective_,
        "explained": info["explained"],
        "warnings": [
            {"kind": finding["kind"], "text": finding["command_text"]} for finding in info.get("warnings", [])
        ],
        "sources": [
            {"name": name, "n": int(n), "noise": float(np.sqrt(variance)), "noise_variance": float(variance)}
            for name, n, variance in zip(model.sources_.tolist(), model.profile_.n, model.noise_variance_, strict=True)
        ],
        "noise_unit": info.get("noise_unit", "the data"),
        "clusters": [
            {"size": float(size), "samples": int(count)}
            for size, count in zip(model.cluster_sizes_, counts, strict=True)
        ],
    }
    if hasattr(model, "offsets_"):
        found["offset_unit"] = offset_unit(model)
        for source, offset in zip(found["sources"], model.offsets_, strict=True):
            source["offset"] = float(np.sqrt(np.mean(np.square(offset))))
    if hasattr(model, "component_names_"):
        for cluster, name in zip(found["clusters"], model.component_names_, strict=True):
            cluster["name"] = str(name)
    if hasattr(model, "choice_"):
        found["choice"] = {"is_stable": model.choice_.is_stable, "sentence": model.choice_.sentence}
    if hasattr(model, "agreement_"):
        found["limit"] = AGREED
        for cluster, correlation in zip(found["clusters"], model.agreement_, strict=True):
            cluster["agreement"] = float(correlation)
    if "missing_fraction" in info:
        found["missing_fraction"] = info["missing_fraction"]
    if model.missing == "drop":
        found["left_out"] = max(info["n_samples"] - int(model.profile_.n.sum()), 0)
    if "check" in info:
        found["check"] = info["check"]
    if model.profile_.contingency.size:
        found["labels"] = asdict(agreement(model.profile_.contingency))
    return found


def _explains(found: dict[str, Any]) -> str:
    """Return which fraction of the variance is explained, unless a warning says that it means nothing."""
    kinds = [each["kind"] for each in found["warnings"]]
    return f"; explains {percent(found['explained'])} of the variance" if says_much(found["explained"], kinds) else ""


def _sizes(clusters: list[dict[str, Any]]) -> str:
    """Return the numbers of samples of clusters, the largest first, with their names if they have any."""
    shown = sorted(clusters, key=lambda cluster: -cluster["samples"])
    names = [f"{printable(each['name'])}: " if "name" in each else "" for each in shown]
    texts = [f"{name}{each['samples']:,}" for name, each in zip(names[:12], shown, strict=False)]
    return ", ".join(texts) + (", ..." if len(shown) > 12 else "")


def _halves(clusters: list[dict[str, Any]], limit: float) -> str:
    """Return a sentence on the patterns that two halves of the data do not agree on."""
    values = [each["agreement"] for each in clusters]
    apart = [k for k, value in enumerate(values) if value < limit]
    if not apart:
        least = np.floor(1000 * min(values)) / 1000
        return f"Two halves of the data agree on all {plural(len(values), 'pattern')}: correlation {least:.3f} or more."
    names = [printable(each.get("name", k)) for k, each in enumerate(clusters)]
    listed = [f"{names[k]} ({values[k]:.2f})" for k in apart]
    told = ", ".join(listed[:12]) + (", ..." if len(listed) > 12 else "")
    noun, verb = ("pattern", "depends") if len(apart) == 1 else ("patterns", "depend")
    return (
        f"Two halves of the data do not agree on {len(apart)} of {plural(len(values), 'pattern')}: {noun} {told} "
        f"{verb} on which rows were seen. Try fewer patterns, or do not rely on {'it' if len(apart) == 1 else 'these'}."
    )


def in_words(found: dict[str, Any]) -> str:
    """Return a summary as text."""
    ended = "converged" if found["converged"] else "did not converge"
    lines = [
        f"{ended.capitalize()} in {plural(found['n_iter'], 'iteration')}, {duration(found['seconds'])}. "
        f"Objective {found['objective']:.8g}{_explains(found)}.",
    ]
    unit = "" if found["noise_unit"] == "the data" else f", in units of {found['noise_unit']}"
    if len(found["sources"]) > 1:
        has_offsets = "offset" in found["sources"][0]
        lines.append("")
        lines.append(
            f"  {'source':<24} {'samples':>10}   {'offset   ' if has_offsets else ''}noise (standard deviation{unit})"
        )
        shown = sorted(found["sources"], key=lambda source: source["noise"])
        for source in shown if len(shown) <= 12 else [*shown[:6], None, *shown[-5:]]:
            if source is None:
                lines.append(f"  ... {len(shown) - 11} more")
            else:
                offset = f"{source['offset']:<9.3g}" if has_offsets else ""
                name = printable(source["name"])[:24]
                lines.append(f"  {name:<24} {source['n']:>10,}   {offset}{source['noise']:.4g}")
        if has_offsets:
            unit = found["offset_unit"]
            units = "the units of the data" if unit == "the data" else f"units of {unit}"
            lines.append(f"  Offsets are root mean squares over the features, in {units}.")
    else:
        lines.append(f"Noise (standard deviation{unit}): {found['sources'][0]['noise']:.4g}.")
    lines.append(f"\nCluster sizes: {_sizes(found['clusters'])}.")
    if "choice" in found:
        lines.append(found["choice"]["sentence"])
    if "limit" in found:
        lines.append(_halves(found["clusters"], found["limit"]))
    if found.get("missing_fraction"):
        lines.append(f"About {percent(found['missing_fraction'])} of the values are missing.")
    if found.get("left_out"):
        lines.append(
            f"{found['left_out']:,} of {plural(found['n_samples'], 'row')} were left out, because values are missing "
            "or their weight is zero."
        )
    if "labels" in found:
        scores = found["labels"]
        lines.append(
            f"Against the labels: accuracy {scores['accuracy']:.3f}, adjusted Rand index {scores['ari']:.3f}, "
            f"normalised mutual information {scores['nmi']:.3f}."
        )
    if found.get("check"):
        told = ", ".join(f"{name} {gain:+.2f}" for name, gain in found["check"].items())
        lines.append(f"Gain in log evidence for each sample, by fits of a part of the data: {told}.")
    page = f" Look at {printable(found['report'])}." if found["report"] else ""
    lines.append(f"\nThe model is in {printable(found['model'])}.{page}")
    lines.append(f"Memberships of every row: dbmd transform {quoted(found['model'])} DATA -o memberships.parquet")
    return "\n".join(lines)
