"""Speed-up and efficiency, where the time of an iteration goes, and the cost of a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from dbmd.experiments.experiment import Record, Table
from dbmd.experiments.scalability.claims import claims
from dbmd.experiments.scalability.derived import (
    FROM_R,
    affine,
    by,
    foreseen,
    gains,
    per_sample,
    questions,
    rule_in_words,
    slope,
)
from dbmd.experiments.scalability.simulation import efficiency, speed_up
from dbmd.experiments.style import COLOURS, MARKS, MUTED, NAMES, column, distinct, label, legend, new_figure, where

__all__ = ["claims", "draw", "table"]

DATA = {"covtype": "CoverType", "synthetic": "synthetic"}
PARTS = {
    "slowest_seconds": ("slowest node", "#1b6ca8"),
    "centre_seconds": ("driver", "#d1701a"),
    "message_seconds": ("messages", "#c9ced6"),
}


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return three figures: speed-up and efficiency, the parts of an iteration, and the cost of a pass."""
    runs = where(records, part="speed-up")
    return {
        "speed-up": draw_speed_up(runs),
        "iteration": draw_iteration(runs, about),
        "cost": draw_cost(records),
    }


def draw_speed_up(runs: Sequence[Record]) -> Any:
    """Return the figure of the paper: simulated for all numbers of nodes, measured where there are cores."""
    figure, (axes,) = new_figure(1, 2, width=10.4, height=4.6)
    first = distinct(runs, "rule")[0]
    nodes = np.array(distinct(runs, "nodes"))
    for ax, ideal in zip(axes, (nodes, np.ones_like(nodes)), strict=True):
        ax.plot(nodes, ideal, color=MUTED, lw=1)
        ax.set_xticks(nodes)
    for solver in distinct(runs, "solver"):
        own = where(runs, rule=first, solver=solver)
        look = {"color": COLOURS[solver], "marker": MARKS[solver]}
        for engine, how, style in (
            ("local", "simulated", {"ls": "--", "lw": 1.2, "ms": 6, "mfc": "white"}),
            ("local", "measured", {"ls": "-", "lw": 2, "ms": 6}),
            ("spark", "measured", {"ls": ":", "lw": 2, "ms": 4}),
        ):
            found = where(own, engine=engine, how=how)
            if found:
                p, (gain, used) = column(found, "nodes"), gains(found)
                axes[0].plot(p, gain, **look, **style)
                axes[1].plot(p, used, **look, **style)
    about = where(runs, how="simulated")[0]
    network = f"{about['bandwidth'] / 1e9:g} Gbit/s, {1e3 * about['latency']:g} ms one way"
    data = f"{DATA[about['data']]}, {about['rows']:,} samples"
    label(axes[0], f"Speed-up $T_1 / T_p$ ({data})", "nodes p", "times faster than one node")
    label(axes[1], "Efficiency $T_1 / (p\\,T_p)$", "nodes p", "fraction of the ideal")
    axes[0].set_ylim(0, None)
    axes[1].set_ylim(0, 1.15)
    legend(axes[0], handles=[*_solver_marks(runs), Line2D([], [], color=MUTED, lw=1, label="ideal")], loc="upper left")
    kinds = {f"SIMULATED, network of {network}": ("--", 1.2, "white"), "measured, a thread a node": ("-", 2.0, MUTED)}
    if where(runs, engine="spark", how="measured"):
        kinds["measured, Spark with a core a node"] = (":", 2.0, MUTED)
    lines = [
        Line2D([], [], color=MUTED, ls=ls, lw=lw, marker="o", mfc=mfc, label=text)
        for text, (ls, lw, mfc) in kinds.items()
    ]
    legend(axes[1], handles=lines, loc="lower left")
    if where(runs, how="missing"):
        axes[0].text(0.98, 0.02, "Spark was NOT measured: not to be had here", ha="right", fontsize=8, color="#b00020",
                     transform=axes[0].transAxes)  # fmt: skip
    return figure


def draw_iteration(runs: Sequence[Record], about: Mapping[str, Any]) -> Any:
    """Return the figure of what an iteration on most nodes consists of, and of how right the simulation is."""
    figure, (axes,) = new_figure(1, 2, width=10.4, height=4.4, width_ratios=[1.5, 1.0])
    left, right = axes
    most = max(distinct(runs, "nodes"))
    bars = where(runs, how="simulated", nodes=most)[::-1]
    start = np.zeros(len(bars))
    for part, (text, colour) in PARTS.items():
        width = 1e3 * column(bars, part)
        left.barh(np.arange(len(bars)), width, left=start, color=colour, label=text, height=0.7)
        start += width
    for place, bar in enumerate(bars):
        left.text(start[place], place, f" {questions(bar)}", va="center", fontsize=8, color=MUTED)
    left.set_yticks(range(len(bars)), [f"{NAMES[bar['solver']]}, {rule_in_words(bar['rule'], about)}" for bar in bars])
    left.set_xlim(0, 1.25 * start.max())
    label(left, f"Simulated iteration on {most} nodes", "milliseconds", "")
    legend(left, loc="lower right" if start[0] < start.max() / 2 else "upper right")

    for engine, mfc in (("local", None), ("spark", "white")):
        for solver in distinct(runs, "solver"):
            pairs = foreseen(where(runs, solver=solver, engine=engine, how="measured"), runs)
            if len(pairs):
                right.plot(*(1e3 * pairs.T), color=COLOURS[solver], marker=MARKS[solver], ls="none", mfc=mfc)
    ends = 1e3 * np.array([0.7, 1.4]) * _ends(foreseen(where(runs, how="measured"), runs))
    right.plot(ends, ends, color=MUTED, lw=1)
    for set_scale in (right.set_xscale, right.set_yscale):
        set_scale("log")
    _plain_numbers(right.xaxis, right.yaxis)
    label(right, "Simulation beside measurement", "simulated, milliseconds an iteration", "measured")
    words = {"local": (MUTED, "threads"), "spark": ("white", "Spark, with its own\ntime of a question")}
    kinds = [
        Line2D([], [], color=MUTED, marker="o", ls="none", mfc=mfc, label=text)
        for engine, (mfc, text) in words.items()
        if where(runs, engine=engine, how="measured")
    ]
    legend(right, handles=[*_solver_marks(runs), *kinds], loc="lower right")
    return figure


def draw_cost(records: Sequence[Record]) -> Any:
    """Return the figure of the cost of a pass, for each sample, against samples, features and clusters."""
    figure, (axes,) = new_figure(1, 3, width=10.4, height=3.8)
    costs = where(records, part="cost")
    for ax, (name, words) in zip(axes, {"n": "samples", "m": "features", "r": "clusters"}.items(), strict=True):
        own = where(costs, against=name)
        size, cost = column(own, name), per_sample(own)
        ax.plot(size, 1e6 * cost, color=COLOURS["admm"], marker="o", ls="none", label="measured")
        ax.set_xscale("log")
        fixed = ", ".join(f"{other} = {own[0][other]:,}" for other in ("n", "m", "r") if other != name)
        label(ax, f"Against {name} ({fixed})", f"{words} {name}", "")
    axes[0].set_ylabel("microseconds a sample and pass, one core", fontsize=9)
    own = where(costs, against="n")
    axes[0].axhline(1e6 * float(np.median(per_sample(own))), color=MUTED, lw=1, label="linear in n: flat")
    single = where(records, part="speed-up", how="simulated", solver="exact", nodes=1)
    if single:
        cost = 1e6 * single[0]["slowest_seconds"] / single[0]["rows"]
        axes[0].plot(single[0]["rows"], cost, color=COLOURS["agd"], marker="*", ms=10, ls="none",
                     label=f"{DATA[single[0]['data']]}, in a fit")  # fmt: skip
    axes[0].set_ylim(0, 1.6 * 1e6 * per_sample(own).max())
    own = where(costs, against="m")
    a, b, _ = affine(column(own, "m"), per_sample(own))
    m = np.geomspace(own[0]["m"], own[-1]["m"], 100)
    axes[1].plot(m, 1e6 * (a + b * m), color=MUTED, lw=1, label=f"{1e6 * a:.2g} + {1e6 * b:.2g} m")
    axes[1].set_yscale("log")
    own = [record for record in where(costs, against="r") if record["r"] >= FROM_R]
    r = column(own, "r")
    power = slope(r, per_sample(own))
    level = np.exp(np.mean(np.log(per_sample(own)) - power * np.log(r)))
    axes[2].plot(r, 1e6 * level * r**power, color=MUTED, lw=1, label=f"$r^{{{power:.2f}}}$ from r = {FROM_R}")
    axes[2].set_yscale("log")
    _plain_numbers(axes[1].xaxis, axes[1].yaxis, axes[2].xaxis, axes[2].yaxis)
    for ax in axes:
        legend(ax, loc="upper left")
    return figure


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return times, speed-up and efficiency of each solver. The paper shows curves and prints no numbers."""
    runs = where(records, part="speed-up")
    most = max(distinct(runs, "nodes"))
    cores = max(distinct(where(runs, engine="local", how="measured"), "nodes"))
    authors = about["authors"]["seconds_per_sample"]
    rows = []
    for own in by(where(runs, engine="local"), "rule", "solver"):
        simulated = where(own, how="simulated")
        one, many = (where(simulated, nodes=p)[0] for p in (1, most))
        slow_one, slow_many = (r["rows"] / r["nodes"] * authors + _beside(r) for r in (one, many))
        threads = where(own, how="measured")
        spark = where(runs, engine="spark", rule=one["rule"], solver=one["solver"], how="measured")
        rows.append(
            (
                NAMES[one["solver"]],
                rule_in_words(one["rule"], about),
                f"{many['asks']:.3g}",
                f"{1e3 * one['seconds']:.1f}",
                f"{1e3 * many['seconds']:.1f}",
                f"{speed_up(one['seconds'], many['seconds']):.2f}",
                f"{efficiency(one['seconds'], many['seconds'], most):.2f}",
                f"{efficiency(slow_one, slow_many, most):.2f}",
                _measured(threads),
                _measured(spark),
            )
        )
    return Table(
        (
            "W by",
            "stopped by",
            "questions an iteration",
            "T_1, ms",
            f"T_{most}, ms",
            f"speed-up, {most} nodes",
            "efficiency",
            f"efficiency with an H-step of {1e6 * authors:.0f} µs a sample",
            f"measured, 1 to {cores} threads",
            "measured, Spark",
        ),
        tuple(rows),
        "Times are of an iteration, the least of the repeats. T_p and what follows are simulated: the slowest of the "
        "nodes, each of which worked alone on one core, the driver, and messages on the network of the figure. "
        f"The last but two column has the time of the authors' own program, {1e6 * authors:.0f} µs a sample: where a "
        "pass is slow, messages do not count, and everything scales. The paper calls the reciprocal of the speed-up "
        "efficiency; here it is T_1 / (p T_p).",
    )


def _beside(record: Record) -> float:
    return float(record["centre_seconds"] + record["message_seconds"])


def _measured(own: Sequence[Record]) -> str:
    return " / ".join(f"{1e3 * record['seconds']:.0f} ms" for record in own) or "-"


def _ends(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([values.min(), values.max()])


def _plain_numbers(*axes: Any) -> None:
    """Write 5, 10, 20 at logarithmic axes, not powers of ten."""
    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def _solver_marks(runs: Sequence[Record]) -> list[Line2D]:
    return [
        Line2D([], [], color=COLOURS[solver], marker=MARKS[solver], ls="none", label=NAMES[solver])
        for solver in distinct(runs, "solver")
    ]
