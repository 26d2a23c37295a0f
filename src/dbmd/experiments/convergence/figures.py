"""The panels of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dbmd.experiments.convergence.run import GAP
from dbmd.experiments.convergence.theory import Curvature
from dbmd.experiments.experiment import Record
from dbmd.experiments.style import COLOURS, MARKS, MUTED, NAMES, column, distinct, label, new_figure, where

TITLES = {"A": "A (Bernoulli)", "B": "B (Dirichlet)"}
SHOWN = {"gaps": 60, "losses": 30}  # rounds; what takes longer is in the table
ROUNDING = 1e-15  # a gap below it is drawn there


def method_name(record: Record) -> str:
    """Return the name of a method with its options, for a legend or a heading."""
    name = NAMES[record["solver"]]
    if record["options"]:
        return ", ".join([name, *(f"{option} = {value:g}" for option, value in record["options"].items())])
    return name if record["solver"] in ("exact", "agd") else f"{name}, automatic"


def power(gap: float) -> str:
    """Return a power of ten as text.

    Examples
    --------
    >>> from dbmd.experiments.convergence.figures import power
    >>> power(1e-6)
    '1e-6'
    """
    return f"1e{round(np.log10(gap))}"


def paper_method(records: Sequence[Record], solver: str) -> Record:
    """Return a record of a solver with the paper's fixed option."""
    return next(record for record in where(records, study="methods", solver=solver) if record["options"])


def per_round(records: Sequence[Record], what: str) -> Figure:
    """Return a panel for each problem, with a curve for each method: its ``gaps`` or its ``losses``."""
    own = where(records, study="methods")
    kinds, sizes = distinct(own, "data"), distinct(own, "n_per_source")
    figure, axes = new_figure(len(kinds), len(sizes), width=10.4, height=6.4, sharex=True, sharey=what == "gaps")
    for kind, line in zip(kinds, axes, strict=True):
        for n, ax in zip(sizes, line, strict=True):
            found = where(own, data=kind, n_per_source=n)
            for record in found:
                _curve(ax, record, what)
            label(ax, f"{TITLES[kind]}, n_c = {n}", "", "")
            if what == "losses":
                # From the start to the minimum: ADMM's first round may be far above both.
                start, least = found[0]["losses"][0], found[0]["losses"][-1]
                ax.set_ylim(least - 0.08 * (start - least), start + 0.15 * (start - least))
    axes[0, 0].set_xlim(0, SHOWN[what])
    if what == "gaps":
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_ylim(ROUNDING / 3, 10)
    for ax in axes[-1]:
        ax.set_xlabel("rounds", fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel(
            "relative gap (F - F*) / F*" if what == "gaps" else "log loss (cut off above the start)", fontsize=9
        )
    _legend_below(figure, axes[0, 0].get_lines(), 6)
    return figure


def _curve(ax: Any, record: Record, what: str) -> None:
    values = np.asarray(record[what])
    if what == "gaps":
        at_minimum = np.flatnonzero(values <= ROUNDING)
        values = np.maximum(values[: at_minimum[0] + 1] if len(at_minimum) else values, ROUNDING)
    style: dict[str, Any] = {"color": COLOURS[record["solver"]], "lw": 1.4, "label": method_name(record)}
    if record["solver"] == "exact":
        style |= {"marker": "*", "markevery": [1], "ms": 9}
    elif record["options"]:  # with marks, which show where it lies on the automatic one
        style |= {"ls": "--", "marker": MARKS[record["solver"]], "markevery": 4, "ms": 3.5}
    ax.plot(values, **style)


def cease_rates(records: Sequence[Record]) -> Figure:
    """Return the contraction of CEASE in a round against gamma, with the bound tau_3."""
    own = where(records, study="cease")
    kinds, sizes = distinct(own, "data"), distinct(own, "n_per_source")
    figure, axes = new_figure(1, len(kinds), width=10.4, height=4.9, sharey=True, sharex=True)
    ratios = column(own, "gamma") / column(own, "mu")
    grid = np.geomspace(ratios.min(), ratios.max(), 200)
    for kind, ax in zip(kinds, axes[0], strict=True):
        ax.axhspan(1.0, 5.0, color="#eef1f4", zorder=0)
        ax.plot(grid, grid / (1.0 + grid), color=MUTED, lw=1, ls=":")
        for n, style in zip(sizes, _styles(len(sizes)), strict=True):
            found = where(own, data=kind, n_per_source=n)
            curvature = _curvature(found[0])
            bound = [curvature.cease(ratio * curvature.mu) for ratio in grid]
            ax.plot(grid, bound, color=style["color"], lw=1.4, label=f"n_c = {n}")
            for raised in (False, True):
                part = where(found, stepped_back=raised)
                x = column(part, "gamma") / column(part, "mu")
                ax.plot(x, column(part, "late"), **style | ({"mfc": "white"} if raised else {}))
        label(ax, f"CEASE on {TITLES[kind]}", "gamma / mu", "")
        ax.text(0.98, 0.98, "the bound says nothing here", transform=ax.transAxes, ha="right", va="top", fontsize=8)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylim(3e-3, 5.0)
    axes[0, 0].set_ylabel("||W - W*|| after a round / before", fontsize=9)
    handles = [
        *_lines_of_sizes(axes[0, 0]),
        Line2D([], [], color=MUTED, lw=1.4, label="bound tau_3"),
        _mark("observed; leftmost of each n_c: the paper's gamma"),
        _mark("observed, gamma raised by the step-back", mfc="white"),
        Line2D([], [], color=MUTED, lw=1, ls=":", label="gamma / (gamma + mu): all nodes alike"),
    ]
    _legend_below(figure, handles, 3)
    return figure


def admm_rates(records: Sequence[Record]) -> Figure:
    """Return ADMM's rounds for each digit against rho, alone and in units of sqrt(mu L), and its rounds to a gap."""
    own = where(records, study="admm")
    kinds, sizes = distinct(own, "data"), distinct(own, "n_per_source")
    fixed = paper_method(records, "admm")["options"]["rho"]
    figure, axes = new_figure(len(kinds), 3, width=10.4, height=7.2, sharey="col", sharex="col")
    for kind, (left, middle, right) in zip(kinds, axes, strict=True):
        left.axvline(fixed, color=MUTED, lw=1, ls="--")
        for n, style in zip(sizes, _styles(len(sizes)), strict=True):
            found = where(own, data=kind, n_per_source=n)
            (automatic,) = where(found, rho=None)
            found = [record for record in found if record["rho"] is not None]
            curvature = _curvature(found[0])
            grid = np.geomspace(found[0]["rho"], found[-1]["rho"], 200)
            formula = rounds_per_digit([curvature.admm(rho) for rho in grid])
            for ax, unit in ((left, 1.0), (middle, curvature.best_rho)):
                ax.plot(grid / unit, formula, color=style["color"], lw=1.2, label=f"n_c = {n}")
                for enough in (True, False):
                    part = [record for record in found if long_enough(record) is enough]
                    look = style if enough else style | {"mfc": "white"}
                    ax.plot(column(part, "rho") / unit, rounds_per_digit(column(part, "late")), **look)
                ax.axhline(rounds_per_digit(automatic["late"]), color=style["color"], lw=1, ls=":")
            x = column(found, "rho") / curvature.best_rho
            right.plot(x, column(found, "rounds_to_gap").astype(float), **style | {"ls": "-", "lw": 1})
            right.axhline(automatic["rounds_to_gap"] or np.nan, color=style["color"], lw=1, ls=":")
        for ax in (left, middle, right):
            ax.set_xscale("log")
            ax.set_yscale("log")
        label(left, f"ADMM on {TITLES[kind]}", "", "rounds for each digit of W, in the end")
        label(middle, "The same, in units of sqrt(mu L)", "", "")
        label(right, f"Rounds to a gap of {power(GAP)}", "", "rounds")
    for ax, name in zip(axes[-1], ("rho", "rho / sqrt(mu L)", "rho / sqrt(mu L)"), strict=True):
        ax.set_xlabel(name, fontsize=9)
    handles = [
        *_lines_of_sizes(axes[0, 0]),
        Line2D([], [], color=MUTED, lw=1.2, label="max(rho / (rho + mu), L / (rho + L))"),
        _mark("observed"),
        _mark("observed, too few rounds to see the end", mfc="white"),
        Line2D([], [], color=MUTED, lw=1, ls=":", label="automatic penalty"),
        Line2D([], [], color=MUTED, lw=1, ls="--", label=f"the paper's rho = {fixed:g}"),
    ]
    _legend_below(figure, handles, 4)
    return figure


def long_enough(record: Record) -> bool:
    """Say whether ADMM had the rounds for two digits at the rate of the formula: before, faster parts are mixed in."""
    return bool(record["rounds"] >= 2.0 * rounds_per_digit(record["predicted"]))


def rounds_per_digit(rate: Any) -> Any:
    """Return in how many rounds the error shrinks tenfold."""
    return np.log(10.0) / -np.log(np.asarray(rate, float))


def _curvature(record: Record) -> Curvature:
    return Curvature(record["mu"], record["L"], record["least"], record["delta"])


def _styles(number: int) -> list[dict[str, Any]]:
    """Return a colour and a mark for each n_c."""
    colours = colormaps["viridis"](np.linspace(0.8, 0.05, number))
    marks = cycle("os^vD")
    return [
        {"color": colour, "marker": mark, "ms": 5, "ls": "none"} for colour, mark in zip(colours, marks, strict=False)
    ]


def _mark(text: str, **options: Any) -> Line2D:
    return Line2D([], [], color=MUTED, marker="o", ms=5, ls="none", label=text, **options)


def _lines_of_sizes(ax: Any) -> list[Any]:
    return [line for line in ax.get_lines() if line.get_label().startswith("n_c")]


def _legend_below(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
