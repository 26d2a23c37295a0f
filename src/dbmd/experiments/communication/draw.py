"""Gap against numbers sent, time over links by the model, and the model beside a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.ticker import LogLocator, NullFormatter

from dbmd.engines import Link
from dbmd.experiments.communication.costs import ROUNDS, floats, grid, modelled, problems, seconds, time_map
from dbmd.experiments.communication.findings import claims, table
from dbmd.experiments.communication.words import KINDS, in_bits, in_powers, in_words
from dbmd.experiments.experiment import Record
from dbmd.experiments.style import COLOURS, MARKS, MUTED, NAMES, column, distinct, label, legend, new_figure, where

__all__ = ["claims", "draw", "table"]

LEADS = (0.2, 0.5, 1, 2, 4, 8)  # over the exact solver, drawn in the map


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures."""
    counting = where(records, kind="counting")
    return {
        "numbers": draw_numbers(counting, about),
        "time": draw_time(counting, about),
        "map": draw_map(counting, about),
        "waiting": draw_waiting(where(records, kind="waiting")),
    }


def draw_numbers(records: Sequence[Record], about: Mapping[str, Any]) -> Any:
    """Return the gap against the numbers that pass the link of a node, a panel for each problem."""
    figure, axes = panels(records, sharex=True)
    floor = min(about["gaps"]) * 1e-2  # a gap may be zero to rounding, which has no place on this axis
    for ax, title, problem in axes:
        for gap in about["gaps"]:
            ax.axhline(gap, color="#dfe3e8", lw=0.8, zorder=0)
        ax.axhline(problem[0]["gaps"][0], color=MUTED, lw=1, ls=":", label="start, W = 0")
        for record in problem:
            gaps = np.maximum(record["gaps"][1:], floor)
            ax.loglog([floats(record, k) / 1e3 for k in range(1, len(gaps) + 1)], gaps, **line(record["method"]))
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_ylim(floor / 3, None)
        label(ax, title, "thousands of numbers over a node's link, both ways", "gap (F - F*) / F*")
    figure.suptitle(f"Relative gap after each round (at {in_powers(floor)}: there or below)", fontsize=10)
    legend(axes[0][0])
    return figure


def draw_time(records: Sequence[Record], about: Mapping[str, Any]) -> Any:
    """Return the time to the smallest gap against the latency, for some bandwidths, for the first shape."""
    gap, bandwidths = min(about["gaps"]), about["links"]["lines"]
    first = where(records, nodes=records[0]["nodes"], n_per_node=records[0]["n_per_node"])
    kinds = distinct(first, "data")
    figure, axes = new_figure(
        len(kinds), len(bandwidths), width=10.4, height=3.1 * len(kinds), sharex=True, sharey="row"
    )
    latency = grid(about["links"]["latency"])
    for row, data in zip(axes, kinds, strict=True):
        for ax, bandwidth in zip(row, bandwidths, strict=True):
            for record in where(first, data=data):
                y = [1e3 * seconds(record, gap, Link(delay, bandwidth)) for delay in latency]
                ax.loglog(1e3 * latency, y, **line(record["method"]), markevery=(0, 15))
            title = f"{KINDS[data]}, {in_bits(bandwidth)}"
            label(ax, title, "latency one way (ms)", f"ms to a gap of {in_powers(gap)}" if ax is row[0] else "")
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    shape = f"{first[0]['nodes']} nodes with {first[0]['n_per_node']:,} samples each"
    figure.suptitle(f"{shape}: messages modelled, computing measured", fontsize=10)
    legend(axes[0][0])
    return figure


def draw_map(records: Sequence[Record], about: Mapping[str, Any]) -> Any:
    """Return which of the paper's solvers is the fastest at each latency and bandwidth, and exact beside it."""
    gap = min(about["gaps"])
    latency, bandwidth = grid(about["links"]["latency"]), grid(about["links"]["bandwidth"])
    figure, axes = panels(records, sharex=True, sharey=True)
    for ax, title, problem in axes:
        times = time_map(problem, gap, latency, bandwidth)
        paper = np.array([times[name] for name in ROUNDS])
        best = np.nanargmin(paper, axis=0)
        ax.pcolormesh(
            1e3 * latency, bandwidth, best, cmap=ListedColormap([COLOURS[name] for name in ROUNDS]),
            vmin=-0.5, vmax=len(ROUNDS) - 0.5, alpha=0.35, rasterized=True, shading="nearest",
        )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        lead = np.nanmin(paper, axis=0) / times["exact"]
        levels = {"levels": LEADS, "linewidths": [2 if level == 1 else 1 for level in LEADS], "colors": "#1b2127"}
        lines = ax.contour(1e3 * latency, bandwidth, lead, **levels)
        ax.clabel(lines, fmt=lambda value: f"{value:g} x", fontsize=8, inline_spacing=2)
        label(ax, title, "latency one way (ms)", "bandwidth (bit/s)")
    for name in ROUNDS:
        axes[0][0].fill_between([], [], color=COLOURS[name], alpha=0.35, label=f"{NAMES[name]} is the fastest of three")
    axes[0][0].plot([], [], color="#1b2127", lw=1, label="its time / that of exact")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(f"Time to a gap of {in_powers(gap)}: messages modelled, computing measured", fontsize=10)
    return figure


def draw_waiting(records: Sequence[Record]) -> Any:
    """Return the seconds with real waiting against those of the model."""
    figure, axes = new_figure(width=5.4, height=4.2)
    ax = axes[0][0]
    largest = 1.15 * max(*column(records, "real_seconds"), *modelled(records))
    ax.plot([0, largest], [0, largest], color=MUTED, lw=1, label="equal")
    for place, (latency, bandwidth) in enumerate(dict.fromkeys((r["latency"], r["bandwidth"]) for r in records)):
        for record in where(records, latency=latency, bandwidth=bandwidth):
            name = record["method"]
            style = {"color": COLOURS[name], "marker": MARKS[name], "ms": 8, "ls": "none"}
            filled = {} if place == 0 else {"markerfacecolor": "white"}
            text = f"{NAMES[name]}, {1e3 * latency:g} ms, {in_bits(bandwidth)}"
            ax.plot(modelled([record]), [record["real_seconds"]], **style, **filled, label=text)
    ax.set_xlim(0, largest)
    ax.set_ylim(0, largest)
    label(ax, "The model against a clock", "links by the model + computing (s)", "nodes that really wait (s)")
    legend(ax)
    return figure


def panels(records: Sequence[Record], **options: Any) -> Any:
    """Return a figure and, for each problem, its axes, its name and its records: the kinds of data side by side."""
    found = problems(records)
    columns = len(distinct(records, "data"))
    rows = len(found) // columns
    figure, axes = new_figure(rows, columns, width=10.4, height=3.1 * rows + 0.6, **options)
    return figure, [(ax, in_words(problem[0]), problem) for ax, problem in zip(axes.flat, found, strict=True)]


def line(method: str) -> dict[str, Any]:
    """Return how the line of a solver looks."""
    # The star of one round would vanish among the others.
    size = 10 if method == "exact" else 4
    return {"color": COLOURS[method], "marker": MARKS[method], "ms": size, "lw": 1.2, "label": NAMES[method]}
