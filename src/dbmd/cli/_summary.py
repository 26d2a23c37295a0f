"""The summary of a fit: as data for JSON, and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from dbmd._utils.text import printable, quoted
from dbmd.advice.findings import says_much
from dbmd.cli._progress import duration
from dbmd.metrics import agreement
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
        "clusters": [
            {"size": float(size), "samples": int(count)}
            for size, count in zip(model.cluster_sizes_, counts, strict=True)
        ],
    }
    if "check" in info:
        found["check"] = info["check"]
    if model.profile_.contingency.size:
        found["labels"] = asdict(agreement(model.profile_.contingency))
    return found


def _explains(found: dict[str, Any]) -> str:
    """Return which fraction of the variance is explained, unless a warning says that it means nothing."""
    kinds = [each["kind"] for each in found["warnings"]]
    return f"; explains {percent(found['explained'])} of the variance" if says_much(found["explained"], kinds) else ""


def in_words(found: dict[str, Any]) -> str:
    """Return a summary as text."""
    ended = "converged" if found["converged"] else "did not converge"
    lines = [
        f"{ended.capitalize()} in {plural(found['n_iter'], 'iteration')}, {duration(found['seconds'])}. "
        f"Objective {found['objective']:.8g}{_explains(found)}.",
    ]
    if len(found["sources"]) > 1:
        lines.append("")
        lines.append(f"  {'source':<24} {'samples':>10}   noise (standard deviation)")
        shown = sorted(found["sources"], key=lambda source: source["noise"])
        for source in shown if len(shown) <= 12 else [*shown[:6], None, *shown[-5:]]:
            if source is None:
                lines.append(f"  ... {len(shown) - 11} more")
            else:
                lines.append(f"  {printable(source['name'])[:24]:<24} {source['n']:>10,}   {source['noise']:.4g}")
    else:
        lines.append(f"Noise (standard deviation): {found['sources'][0]['noise']:.4g}.")
    sizes = sorted((cluster["samples"] for cluster in found["clusters"]), reverse=True)
    listed = ", ".join(f"{size:,}" for size in sizes[:12]) + (", ..." if len(sizes) > 12 else "")
    lines.append(f"\nCluster sizes: {listed}.")
    if "labels" in found:
        scores = found["labels"]
        lines.append(
            f"Against the labels: accuracy {scores['accuracy']:.3f}, adjusted Rand index {scores['ari']:.3f}, "
            f"normalised mutual information {scores['nmi']:.3f}."
        )
    if found.get("check"):
        told = ", ".join(f"{name} {gain:+.2f}" for name, gain in found["check"].items())
        lines.append(f"Gain in log evidence for each sample of a part, by fits with and without: {told}.")
    page = f" Look at {printable(found['report'])}." if found["report"] else ""
    lines.append(f"\nThe model is in {printable(found['model'])}.{page}")
    lines.append(f"Memberships of every row: dbmd transform {quoted(found['model'])} DATA -o memberships.parquet")
    return "\n".join(lines)
