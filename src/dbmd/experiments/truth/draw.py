"""Errors of all methods on all sets, and the error against iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import column, distinct, label, new_figure, where

# name, colour, mark, size
LOOKS = {
    "k-means": ("k-means", "#8a8f98", "x", 6.0),
    "nmf": ("NMF (scikit-learn)", "#a05195", "D", 5.0),
    "nn-fac": ("minimum-volume NMF (nn-fac)", "#2e8b57", "^", 6.0),
    "archetypes": ("archetypal analysis (archetypes)", "#7a5c3e", "P", 6.5),
    "map": ("DBMD, map", "#d1701a", "s", 5.5),
    "map, 150 iterations": ("DBMD, map, 150 iterations", "#d1701a", "s", 5.5),
    "evidence": ("DBMD, evidence", "#1b6ca8", "o", 7.5),
}
HOLLOW = ("map, 150 iterations",)
ASIDE = {"map": -0.17, "map, 150 iterations": 0.17}  # seen where they coincide with evidence
KINDS = {"mixtures": "made up", "levels": "made up, several noise levels", "jasper": "real", "cellmix": "real"}
NEAR_THE_LOWEST = 0.1
SETTLED, STAYS = 30, 0.02  # from this iteration on, an error that stays changes by this part at most
NONE = "-"
PATTERNS_ARE_FOUND, LEVELS_ARE_FOUND = 0.02, 0.05


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures: errors of all methods, and the error against iterations."""
    return {"errors": _dots(_found(records, part="errors")), "iterations": _curves(_found(records, part="iterations"))}


def _dots(records: list[Record]) -> Any:
    """Draw a line of marks for each set, those of one kind together."""
    places: dict[str, float] = {}
    groups: dict[str, float] = {}
    y = 0.0
    for data in distinct(records, "data"):
        kind = KINDS[where(records, data=data)[0]["kind"]]
        if kind not in groups:
            y += 1.2 if groups else 0.7
            groups[kind] = y - 0.8
        places[data] = y
        y += 1.0
    figure, axes = new_figure(width=9.6, height=1.5 + 0.36 * y)
    ax = axes[0, 0]
    methods = [method for method in LOOKS if where(records, method=method)]
    ax.hlines(list(places.values()), 0, 1, transform=ax.get_yaxis_transform(), color="#e3e6ea", lw=0.8, zorder=0)
    for method in methods:
        name, colour, mark, size = LOOKS[method]
        means = {data: mean_error(records, data, method) for data in places}
        known = [data for data in places if means[data] is not None]
        ax.plot(
            [means[data] for data in known],
            [places[data] + ASIDE.get(method, 0.0) for data in known],
            mark,
            color=colour,
            mfc="none" if method in HOLLOW else colour,
            ms=size,
            mew=1.6 if mark == "x" else 1.0,
            label=name,
        )
    for kind, place in groups.items():
        ax.annotate(kind, (0.0, place), xycoords=("axes fraction", "data"), xytext=(-6, 0), ha="right", va="center",
                    textcoords="offset points", fontsize=8, fontweight="bold", annotation_clip=False)  # fmt: skip
    ax.set_yticks(list(places.values()), list(places))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(y - 0.3, -0.5)
    ax.set_xscale("log")
    ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    runs = len(distinct(records, "run"))
    label(ax, "Distance to the true memberships", f"root mean square error, mean of {runs} runs", "")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _curves(records: list[Record]) -> Any:
    """Draw a panel for each set, with the lowest error of each curve marked."""
    sets = distinct(records, "data")
    figure, axes = new_figure(1, max(len(sets), 1), width=10.4, height=3.6)
    for ax, data in zip(axes[0], sets, strict=False):
        last = max(_curve(record)[0][-1] for record in where(records, data=data))
        for record in where(records, data=data):
            name, colour, *_ = LOOKS[record["method"]]
            x, errors = _curve(record)
            ax.plot(x, errors, color=colour, lw=1.8, label=name)
            ax.plot([x[-1], last], [errors[-1]] * 2, color=colour, lw=1.8, ls=":")  # W has ceased to change
            ax.plot(x[errors.argmin()], errors.min(), "o", color=colour, ms=5)
        ax.set_xscale("log")
        ticks = [tick for tick in (1, 3, 10, 30, 100, 200) if tick <= last]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(0, None)
        of = "patterns, relative" if _of_patterns(record) else "memberships"
        label(ax, data, "iterations", f"error of {of}")
    if sets:
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(),
            title="dots: the lowest error; dotted: the fit has ended",
            loc="outside lower center",
            ncols=2,
            frameon=False,
            fontsize=8,
            title_fontsize=8,
        )
    return figure


def _of_patterns(record: Record) -> bool:
    """Say whether a curve is that of W: where most of the error of memberships is the noise of the noisiest source."""
    return bool(record["kind"] == "levels")


def _curve(record: Record) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    name = "pattern_error" if _of_patterns(record) else "error"
    return column(record["curve"], "iteration"), column(record["curve"], name)


def _found(records: Sequence[Record], **values: Any) -> list[Record]:
    return [record for record in where(records, **values) if "missing" not in record]


def mean_error(records: Sequence[Record], data: str, method: str) -> float | None:
    """Return the mean over runs of the error of a method on a set, if it was run."""
    values = column(where(records, data=data, method=method), "error")
    return float(values.mean()) if len(values) else None


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return errors by set and method; the paper has no such numbers."""
    errors, curves = where(records, part="errors"), _found(records, part="iterations")
    methods = [method for method in LOOKS if where(errors, method=method)]
    rows = [
        (f"{data}", *(_told(where(errors, data=data, method=method), "error") for method in methods))
        for data in distinct(errors, "data")
    ]
    for data in distinct(_found(errors, kind="levels"), "data"):
        own = where(errors, data=data)
        rows.append((f"{data}: W", *(_told(where(own, method=m), "pattern_error") for m in methods)))
        rows.append((f"{data}: noise found", *(_levels(where(own, method=m)) for m in methods)))
    for data in distinct(curves, "data"):
        of = "W" if _of_patterns(where(curves, data=data)[0]) else "memberships"
        ends = {record["method"]: _lowest_and_last(record) for record in where(curves, data=data)}
        rows.append((f"{data}: {of} by iteration, lowest / last", *(ends.get(m, NONE) for m in methods)))
    rows.append(("seconds of a fit, median", *(_seconds(_found(errors, method=m)) for m in methods)))
    return Table(("", *(LOOKS[method][0] for method in methods)), tuple(rows), _note(errors))


def _told(records: Sequence[Record], name: str) -> str:
    if any("missing" in record for record in records):
        return "not run"
    values = column(records, name)
    if not len(values) or not np.isfinite(values).all():
        return NONE
    return f"{values.mean():.3f} ± {values.std():.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _levels(records: Sequence[Record]) -> str:
    if not records or records[0].get("sigmas_found") is None:
        return NONE
    return " ".join(f"{sigma:.3g}" for sigma in column(records, "sigmas_found").mean(axis=0))


def _lowest_and_last(record: Record) -> str:
    _, errors = _curve(record)
    return f"{errors.min():.3f} / {errors[-1]:.3f}"


def _seconds(records: Sequence[Record]) -> str:
    return f"{np.median(column(records, 'seconds')):.1f}" if records else NONE


def _note(errors: Sequence[Record]) -> str:
    """Return what a reader has to know, and what is missing and why."""
    found = _found(errors)
    negative = [record["negative"] for record in found if record["method"] in ("nmf", "nn-fac")]
    some = [
        f"{method} gets {own[0]['samples']:,} samples at most, and its errors are of these."
        for method in ("nn-fac", "archetypes")
        if (own := [r for r in found if r["method"] == method and r["samples"] < r["n"]])
    ]
    return " ".join(
        [
            "Root mean square error of memberships after matching the components, mean ± standard deviation over runs; "
            "made-up sets are made anew for each run. k-means has memberships 0 and 1. The scales of the components of "
            "NMF are chosen such that memberships sum nearly to one, then they are divided by their sum.",
            *([f"For NMF negative numbers, up to {max(negative):.1%} of a set, become zero."] if negative else []),
            "Sets with several noise levels are as often negative as positive: there is no NMF of them.",
            *some,
            *(f"Not run: {reason}" for reason in _reasons(errors)),
        ]
    )


def _reasons(records: Sequence[Record]) -> list[str]:
    return sorted({record["missing"] for record in records if "missing" in record})


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say whether evidence is nearer to the truth than the others, and whether it stays there."""
    errors, curves = _found(records, part="errors"), _found(records, part="iterations")
    others = [method for method in LOOKS if method != "evidence" and where(errors, method=method)]
    made = [*(_claim_against(errors, method) for method in others), *_claims_on_levels(errors)]
    made += [claim for data in distinct(curves, "data") for claim in _claims_on_curves(where(curves, data=data))]
    made += [Claim(f"All methods were run on all sets. Left out: {reason}", False) for reason in _reasons(records)]
    return made


def _claim_against(errors: Sequence[Record], method: str) -> Claim:
    pairs = [(data, *(mean_error(errors, data, m) for m in ("evidence", method))) for data in distinct(errors, "data")]
    both = [(data, own, other) for data, own, other in pairs if own is not None and other is not None]
    worse = [f"{data} ({own:.4f} against {other:.4f})" for data, own, other in both if own >= other]
    return Claim(
        f"Evidence is nearer to the truth than {_in_a_sentence(method)} on every set: on {len(both) - len(worse)} of "
        f"{len(both)}{'; not on ' + ', '.join(worse) if worse else ''}.",
        not worse,
    )


def _in_a_sentence(method: str) -> str:
    return LOOKS[method][0].removeprefix("DBMD, ")


def _claims_on_levels(errors: Sequence[Record]) -> list[Claim]:
    own = where(errors, kind="levels", method="evidence")
    if not own:
        return []
    sets = distinct(own, "data")
    off = [column(where(own, data=data), "pattern_error").mean() for data in sets]
    levels = [
        (put_in, found)
        for data in sets
        for put_in, found in zip(
            where(own, data=data)[0]["sigmas"],
            column(where(own, data=data), "sigmas_found").mean(axis=0),
            strict=True,
        )
    ]
    farthest = max(levels, key=lambda pair: abs(pair[1] / pair[0] - 1))
    return [
        Claim(
            f"With several noise levels evidence finds W within {PATTERNS_ARE_FOUND:.0%}: errors of W are "
            f"{', '.join(f'{error:.4f}' for error in off)}.",
            bool(max(off) <= PATTERNS_ARE_FOUND),
        ),
        Claim(
            f"The noise levels that it finds are within {LEVELS_ARE_FOUND:.0%} of those put in; the farthest is "
            f"{farthest[1]:.3g} for {farthest[0]:g}.",
            bool(abs(farthest[1] / farthest[0] - 1) <= LEVELS_ARE_FOUND),
        ),
    ]


def _claims_on_curves(own: Sequence[Record]) -> list[Claim]:
    curves = {record["method"]: _curve(record) for record in own}
    data, of = own[0]["data"], "W" if _of_patterns(own[0]) else "memberships"
    x, evidence = curves["evidence"]
    _, peak = curves["map"]
    late = {m: errors[iteration >= SETTLED] for m, (iteration, errors) in curves.items()}
    change = {m: float(np.ptp(errors) / errors[0]) for m, errors in late.items()}
    return [
        Claim(
            f"{data}: evidence stays where it is, and map does not: from iteration {SETTLED} on the error of {of} "
            f"changes by {change['evidence']:.1%} with evidence and by {change['map']:.0%} with map.",
            change["evidence"] <= STAYS < change["map"],
        ),
        Claim(
            f"{data}: with evidence the last error of {of}, {evidence[-1]:.4f}, is within {NEAR_THE_LOWEST:.0%} of the "
            f"lowest that it passes, {evidence.min():.4f} (at iteration {x[evidence.argmin()]}).",
            bool(evidence[-1] <= (1 + NEAR_THE_LOWEST) * evidence.min()),
        ),
        Claim(
            f"{data}: with map it is not: the error of {of} falls to {peak.min():.4f} and rises to {peak[-1]:.4f}.",
            bool(peak[-1] > (1 + NEAR_THE_LOWEST) * peak.min()),
        ),
    ]
