"""The empirical ratio with its error bars, on the lines of the two formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import COLOURS, MARKS, MUTED, NAMES, column, distinct, label, legend, new_figure, where

SHIFT = 0.09  # methods side by side, so that none hides another


def ratio(record: Record) -> tuple[float, float]:
    """Return the ratio of the two mean squared errors, and its standard error.

    Both come from the same noise, so they rise and fall together: the error of the ratio R = a / b is that of the
    mean of a - R b, over b.
    """
    weighted = np.asarray(record["squared_errors"])
    unweighted = np.asarray(record["squared_errors_unweighted"])
    found = weighted.mean() / unweighted.mean()
    spread = (weighted - found * unweighted).std(ddof=1) / np.sqrt(len(weighted))
    return float(found), float(spread / unweighted.mean())


def distances(records: Sequence[Record]) -> NDArray[np.float64]:
    """Return how far the ratios are from the exact formula, in standard errors, shape (n_records,)."""
    found = np.array([ratio(record) for record in records])
    # With equal noise both ways are the same, and nothing is left to chance.
    return (found[:, 0] - column(records, "exact_ratio")) / np.maximum(found[:, 1], 1e-6)


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Figure]:
    """Return one figure: the ratios, and how far they are from the formula in standard errors."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.2, width_ratios=[1.5, 1.0])
    left, right = axes[0]
    methods = distinct(records, "method")
    formula = where(records, method=methods[0])
    sigma = column(formula, "last_sigma")
    left.plot(sigma, column(formula, "exact_ratio"), color=MUTED, lw=1.2, label="exact, from the drawn H")
    left.plot(sigma, column(formula, "ratio_of_means"), color=MUTED, lw=1.2, ls=":", label="harmonic / arithmetic mean")
    right.axhspan(-2, 2, color="#eef1f4", zorder=0)
    right.axhline(0, color=MUTED, lw=1.2)
    for place, method in enumerate(methods):
        own = where(records, method=method)
        found = np.array([ratio(record) for record in own])
        x = column(own, "last_sigma") + SHIFT * (place - (len(methods) - 1) / 2)
        style = {"color": COLOURS[method], "marker": MARKS[method], "ms": 5, "ls": "none", "label": NAMES[method]}
        left.errorbar(x, found[:, 0], 2 * found[:, 1], elinewidth=1, capsize=2, **style)
        right.plot(x, distances(own), **style)
    left.set_ylim(0, None)
    noise = "standard deviation of the noise of the fifth source"
    repeats = len(records[0]["squared_errors"])
    label(
        left, f"Variance with weights / without ({repeats} repeats, bars: 2 standard errors)", noise, "variance ratio"
    )
    label(right, "Distance from the exact formula", noise, "in standard errors")
    right.set_ylim(-5, 5)
    legend(left)
    return {"ratio": figure}


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return the ratios by noise and method. The paper shows a curve and prints no numbers."""
    methods = distinct(records, "method")
    rows = []
    for sigma in distinct(records, "last_sigma"):
        own = where(records, last_sigma=sigma)
        found = [ratio(record) for record in own]
        rows.append(
            (
                f"{sigma:g}",
                f"{own[0]['ratio_of_means']:.4f}",
                f"{own[0]['exact_ratio']:.4f}",
                *(f"{value:.4f} ± {error:.4f}" for value, error in found),
            )
        )
    return Table(
        ("sigma_5", "HM / AM (Theorem 1, put right)", "exact formula", *(NAMES[method] for method in methods)),
        tuple(rows),
        "The paper prints the ratio as sum_c C/(1/sigma_c^2) over sum_c sigma_c^2 / C, which is C^2 for any noise; "
        "its figure shows the harmonic over the arithmetic mean. ± is one standard error.",
    )


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say whether the simulated ratios agree with the formula, and the methods with each other."""
    away = np.abs(distances(records))
    methods = distinct(records, "method")
    by_method = np.array([[ratio(r)[0] for r in where(records, method=method)] for method in methods])
    apart = float((np.ptp(by_method, axis=0) / by_method.mean(axis=0)).max())
    formula = where(records, method=methods[0])
    over_draws = np.array([np.mean(record["exact_ratio_over_draws"]) for record in formula])
    off = np.abs(over_draws / column(formula, "ratio_of_means") - 1)
    return [
        Claim(
            f"The empirical ratios are those of the exact formula within their error bars: {(away <= 2).mean():.0%} of "
            f"{len(away)} within 2 standard errors, the farthest at {away.max():.1f}.",
            bool((away <= 2).mean() >= 0.85 and away.max() < 4.5),
        ),
        Claim(
            f"{', '.join(NAMES[m] for m in methods)} find the same W: ratios differ by {apart:.1e} at most.",
            apart < 1e-3,
        ),
        Claim(
            f"The harmonic over the arithmetic mean is {off.max():.1%} at most from the mean of the exact ratio over "
            f"{len(formula[0]['exact_ratio_over_draws'])} draws of the memberships.",
            bool(off.max() < 0.06),
        ),
    ]
