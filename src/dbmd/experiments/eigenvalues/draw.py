"""Largest eigenvalue and condition number against n_c, on the lines of their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import column, distinct, label, legend, new_figure, where

TITLES = {"bernoulli": "Bernoulli", "dirichlet": "Dirichlet"}
COLOURS = {"bernoulli": "#b5482a", "dirichlet": "#3d5a98"}
MARKS = {"bernoulli": "o", "dirichlet": "^"}


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Figure]:
    """Return one figure: means of both with bands that hold 90 % of the repeats, and their limits, dashed."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.2)
    left, right = axes[0]
    for kind in distinct(records, "kind"):
        own = where(records, kind=kind)
        n = column(own, "n_per_source")
        style = {"color": COLOURS[kind], "marker": MARKS[kind], "ms": 4.5, "lw": 1.2, "label": TITLES[kind]}
        dashed = {"color": COLOURS[kind], "ls": "--", "lw": 1.2}
        left.plot(n, column(own, "expected_largest"), **dashed)
        right.axhline(own[0]["limit_of_condition"], **dashed)
        for ax, name in ((left, "largest"), (right, "condition")):
            values = column(own, name)
            ax.fill_between(n, *np.quantile(values, [0.05, 0.95], axis=1), color=COLOURS[kind], alpha=0.18, lw=0)
            ax.plot(n, values.mean(axis=1), **style | ({"ls": "none"} if ax is left else {}))
    left.set_yscale("log")
    right.set_ylim(0, None)
    ticks = [100, 200, 500, 1000, 2000, 5000]
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
    samples = "samples at each source, n_c"
    repeats = len(records[0]["largest"])
    label(left, "Largest eigenvalue (dashed: C n_c lambda_max(E[hh']))", samples, "largest eigenvalue")
    label(right, f"Condition number ({repeats} repeats, band: 5-95 %)", samples, "kappa (dashed: limit)")
    legend(left)
    legend(right, loc="lower left")
    return {"eigenvalues": figure}


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return mean and standard deviation for each n_c. The paper shows curves and prints no numbers."""
    kinds = distinct(records, "kind")
    rows = []
    for n in distinct(records, "n_per_source"):
        entries = [str(n)]
        for kind in kinds:
            (own,) = where(records, kind=kind, n_per_source=n)
            largest, condition = np.asarray(own["largest"]), np.asarray(own["condition"])
            entries += [
                f"{largest.mean():.1f} ± {largest.std(ddof=1):.1f}",
                f"{own['expected_largest']:.1f}",
                f"{condition.mean():.2f} ± {condition.std(ddof=1):.2f}",
            ]
        rows.append(tuple(entries))
    limits = ", ".join(f"{TITLES[kind]} {where(records, kind=kind)[0]['limit_of_condition']:.2f}" for kind in kinds)
    return Table(
        (
            "n_c",
            *(f"{TITLES[k]}: {name}" for k in kinds for name in ("lambda_max", "C n_c lambda_max(E[hh'])", "kappa")),
        ),
        tuple(rows),
        f"± is one standard deviation over the repeats. Limits of kappa: {limits}.",
    )


def growth(records: Sequence[Record]) -> float:
    """Return the slope of the mean of the largest eigenvalue against n_c, both in logarithms."""
    means = column(records, "largest").mean(axis=1)
    return float(np.polyfit(np.log(column(records, "n_per_source")), np.log(means), 1)[0])


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say whether the largest eigenvalue grows linearly, kappa falls to its limit, and which distribution has more."""
    by_kind = {kind: where(records, kind=kind) for kind in distinct(records, "kind")}
    slopes = {kind: growth(own) for kind, own in by_kind.items()}
    off = max(abs(np.mean(r["largest"]) / r["expected_largest"] - 1) for r in records)
    kappas = {kind: column(own, "condition").mean(axis=1) for kind, own in by_kind.items()}
    limits = {kind: own[0]["limit_of_condition"] for kind, own in by_kind.items()}
    times = column(by_kind["bernoulli"], "largest").mean(1) / column(by_kind["dirichlet"], "largest").mean(1)
    over = np.concatenate([np.asarray(r["largest"]) * r["components"] / r["samples"] for r in by_kind["dirichlet"]])
    empty = by_kind["bernoulli"][0]["empty"]
    return [
        Claim(
            "lambda_max grows linearly with n_c: slope in logarithms "
            + ", ".join(f"{slope:.3f} ({TITLES[kind]})" for kind, slope in slopes.items())
            + f"; its means are within {off:.1%} of C n_c lambda_max(E[hh']).",
            all(abs(slope - 1) < 0.03 for slope in slopes.values()) and off < 0.05,
        ),
        Claim(
            "kappa does not grow with n_c; it falls to its limit: "
            + ", ".join(
                f"{kappas[k][0]:.1f} to {kappas[k][-1]:.1f}, limit {limits[k]:.1f} ({TITLES[k]})" for k in by_kind
            )
            + ".",
            # Means of the repeats, so a step up by chance is allowed a little.
            all(
                bool((np.diff(kappas[k]) < 0.03 * kappas[k][1:]).all()) and kappas[k][-1] < 1.15 * limits[k]
                for k in by_kind
            ),
        ),
        Claim(
            f"lambda_max is greater for Bernoulli than for Dirichlet memberships at each n_c: {times.min():.1f} to "
            f"{times.max():.1f} times.",
            bool((times > 1).all()),
        ),
        Claim(
            "No memberships can have less than C n_c / r, as columns sum to one and lambda_max >= 1'HH'1 / r, and "
            f"Dirichlet ones have hardly more: {over.min():.4f} to {over.max():.4f} of it. What Bernoulli ones have "
            f"above it comes from the rule that the {empty:.0%} of samples without a component get the last one: where "
            "all components are alike, 1 is the leading eigenvector of E[hh'], and lambda_max tends to C n_c / r.",
            bool(over.min() > 1 - 1e-9 and over.max() < 1.05),
        ),
    ]
