"""Accuracies and times of all methods, beside those of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import COLOURS, MUTED, column, distinct, label, new_figure, where

SOLVERS = ("agd", "admm", "cease", "exact")
WORDS = {
    "k-means": "k-means\n(scikit-learn)",
    "k-means||": "k-means||\n(Spark MLlib)",
    "nmf": "Scalable-NMF,\nleast squares",
    "nmf, as picked": "Scalable-NMF,\nas picked",
    "agd": "DBMD, AGD",
    "admm": "DBMD, ADMM",
    "cease": "DBMD, CEASE",
    "exact": "DBMD, exact",
}
SETTINGS = {"paper": "paper's setting", "default": "default setting"}


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return two figures: accuracies, and seconds."""
    return {"accuracy": _bars(records, about, "accuracy"), "seconds": _bars(records, about, "seconds")}


def _bars(records: Sequence[Record], about: Mapping[str, Any], what: str) -> Any:
    """Return a panel for each data set and setting, with a bar for each method and a dot for each run."""
    shown = [data for data in distinct(records, "data") if ", " not in data]  # variants are in the table
    settings = distinct(records, "setting")
    height = 0.9 + sum(0.3 * _most_methods(records, settings=settings, data=data) + 0.7 for data in shown)
    figure, axes = new_figure(
        len(shown),
        len(settings),
        width=10.4,
        height=height,
        sharex=True,
        gridspec_kw={"height_ratios": [_most_methods(records, settings=settings, data=data) + 2 for data in shown]},
    )
    for row, data in enumerate(shown):
        for place, setting in enumerate(settings):
            ax, own = axes[row, place], _found(records, data=data, setting=setting)
            if not own:
                ax.set_visible(False)
                continue
            _panel(ax, own, about, what)
            ax.tick_params(labelbottom=True)
            label(ax, f"{own[0]['name']}: {SETTINGS[setting]}", _axis(what) if row == len(shown) - 1 else "", "")
    handles, names = axes[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles[:1], names[:1], loc="outside lower left", frameon=False, fontsize=8)
    return figure


def _panel(ax: Any, records: Sequence[Record], about: Mapping[str, Any], what: str) -> None:
    methods = distinct(records, "method")
    for place, method in enumerate(methods):
        own = where(records, method=method)
        values = column(own, what)
        colour = COLOURS[method.split(",")[0].rstrip("|")]
        ax.barh(place, values.mean(), 0.62, color=colour, alpha=0.75)
        ax.plot(values, np.full(len(values), place), ".", color="black", ms=3)
        right = values.max()
        theirs = about["published"].get(own[0]["data"], {}).get(method.split(",")[0])
        if theirs and own[0]["setting"] == "paper":
            value = theirs[0] / 100 if what == "accuracy" else theirs[2]
            ax.plot(value, place, "d", color="white", mec=MUTED, ms=6, label="the paper, on its own data and machines")
            in_the_way = right < value < (right + 0.1 if what == "accuracy" else 2 * right)
            right = value if in_the_way else right
        text = f"{values.mean():.3f}" if what == "accuracy" else f"{values.mean():.1f} s"
        ax.annotate(text, (right, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=7)
    ax.set_yticks(range(len(methods)), [WORDS[method] for method in methods], fontsize=7)
    ax.invert_yaxis()
    if what == "seconds":
        ax.set_xscale("log")
    else:
        ax.set_xlim(0, 1.08)


def _axis(what: str) -> str:
    return "accuracy (bar: mean, dots: runs)" if what == "accuracy" else "seconds of a fit (bar: mean, dots: runs)"


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return all results, beside the paper's."""
    rows = []
    for data in distinct(records, "data"):
        for setting in distinct(where(records, data=data), "setting"):
            for method in distinct(where(records, data=data, setting=setting), "method"):
                own = where(records, data=data, setting=setting, method=method)
                theirs = about["published"].get(data, {}).get(method.split(",")[0]) if setting == "paper" else None
                rows.append(
                    (_data(own[0]), SETTINGS[setting], WORDS[method].replace("\n", " "), *_numbers(own, theirs))
                )
    return Table(
        ("data", "setting", "method", "accuracy", "ARI", "NMI", "seconds", "iterations", "paper: accuracy", "paper: s"),
        tuple(rows),
        "Mean ± standard deviation of the runs. The paper's numbers are of the full KDD-99, of an MNIST of 400,000 "
        "images, and of a cluster of six machines. Scalable-NMF: memberships by non-negative least squares, or, as in "
        "the paper, the picked features themselves.",
    )


def _data(record: Record) -> str:
    note = record["data"].split(", ", 1)[1] if ", " in record["data"] else ""
    return record["name"] + (f", {note}" if note else "") + f" ({record['n']:,} x {record['m']})"


def _numbers(records: Sequence[Record], theirs: Sequence[float] | None) -> tuple[str, ...]:
    if "missing" in records[0]:
        return (f"not run: {records[0]['missing']}", "", "", "", "", "", "")

    def mean_text(name: str, digits: int) -> str:
        values = column(records, name)
        deviation = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
        return f"{values.mean():.{digits}f}{deviation}"

    paper = (f"{theirs[0] / 100:.3f} ± {theirs[1] / 100:.3f}", f"{theirs[2]:.0f}") if theirs else ("", "")
    ours = mean_text("accuracy", 3), mean_text("ari", 3), mean_text("nmi", 3), mean_text("seconds", 1)
    return (*ours, f"{column(records, 'iterations').mean():.0f}", *paper)


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say what of the accuracies that were required is reached, and whether the solvers agree."""
    made = []
    for data, least in about["required"]["paper"].items():
        found = {m: _mean(records, data=data, setting="paper", method=m) for m in SOLVERS}
        if None in found.values():
            continue
        numbers = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        made.append(
            Claim(
                f"Paper's setting, {_name(records, data)}: at least {least} with each solver: {numbers}.",
                min(found.values()) >= least,  # type: ignore[type-var]
            )
        )
    for data in distinct(records, "data"):
        found = {m: _mean(records, data=data, setting="paper", method=m) for m in SOLVERS}
        if None in found.values():
            continue
        apart = max(found.values()) - min(found.values())  # type: ignore[type-var, operator]
        made.append(
            Claim(
                f"The four solvers agree on {_name(records, data)} in the paper's setting: means {apart:.4f} apart.",
                apart <= 0.02,
            )
        )
    for data, below in about["required"]["below_k_means"].items():
        ours = _mean(records, data=data, setting="default", method="exact")
        theirs = _mean(records, data=data, setting="default", method="k-means")
        if ours is None or theirs is None:
            continue
        runs = len(_found(records, data=data, setting="default", method="exact"))
        wanted = f"within {below} of k-means" if below else "at least as accurate as k-means"
        made.append(
            Claim(
                f"Default setting, {_name(records, data)}, {runs} runs: {wanted}: {ours:.3f} against {theirs:.3f}.",
                ours >= theirs - below,
            )
        )
    missing = {record["missing"] for record in records if "missing" in record}
    made += [Claim(f"All methods were run. Left out: {reason}", False) for reason in sorted(missing)]
    return made


def _found(records: Sequence[Record], **values: Any) -> list[Record]:
    return [record for record in where(records, **values) if "missing" not in record]


def _mean(records: Sequence[Record], **values: Any) -> float | None:
    own = _found(records, **values)
    return float(column(own, "accuracy").mean()) if own else None


def _name(records: Sequence[Record], data: str) -> str:
    return str(where(records, data=data)[0]["name"])


def _most_methods(records: Sequence[Record], *, settings: Sequence[str], data: str) -> int:
    return max(len(distinct(_found(records, data=data, setting=setting), "method")) for setting in settings)
