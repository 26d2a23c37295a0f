"""What is wanted, and whether it is reached: decided from the records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.sets import SETS
from benchmarks.summary import distinct, measured, median, number, ratio, select

Contents = dict[str, dict[str, Any]]  # what the JSON files hold, by part

REPEATS = 3  # a median of fewer is told as such


@dataclass(frozen=True)
class Target:
    """Something that should be at most so large.

    Attributes
    ----------
    what : str
        What it is.
    reached : float or None
        What was measured, None if it was not.
    target, stretch : float
        What is wanted, and what would be better still, if there is such a thing.
    remark : str
        What has to be known beside the number.
    """

    what: str
    reached: float | None
    target: float
    stretch: float | None = None
    remark: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        if self.reached is None:
            words = "not measured"
        elif self.stretch is not None and self.reached <= self.stretch:
            words = "holds, stretch too"
        elif self.reached <= self.target:
            words = "holds"
        else:
            words = f"**does not hold**: {number(self.reached / self.target)} times the target"
        return f"{words}; {self.remark}" if self.remark else words


def targets(contents: Contents) -> Iterator[Target]:
    """Yield all targets."""
    yield from _peers(contents)
    yield from _limit(contents)
    yield from _one_pass(contents)
    yield from _scaling(contents)
    yield from _h_step(contents)
    yield from _others(contents)


# Seconds of a whole fit over those of scikit-learn's KMeans.
K_MEANS = {"covtype": 0.6, "kdd99": 0.5, "mnist": 0.15, "cells": 0.2}


def _peers(contents: Contents) -> Iterator[Target]:
    fits = measured(contents.get("peers"))
    wanted = (
        ("k_means", "scikit-learn KMeans", K_MEANS, None),
        ("mllib_k_means", "Spark MLlib KMeans", dict.fromkeys(SETS, 0.5), 0.1),
        ("nmf", "scikit-learn NMF", {name: 0.2 for name, data in SETS.items() if data.nonnegative}, 0.05),
    )
    for method, title, data, stretch in wanted:
        for name, target in data.items():
            own, other = select(fits, data=name, method="dbmd"), select(fits, data=name, method=method)
            remarks = []
            if own and other and min(len(own), len(other)) < REPEATS:
                remarks.append(f"of {len(own)} and {len(other)} repetitions only")
            if own and other and len(distinct(own + other, "run")) > 1:
                remarks.append("not of one run")
            if other and not all(record["converged"] for record in other):
                remarks.append(f"the other stopped at its limit of {other[0]['most']} rounds")
            reached = ratio(median(own, "seconds"), median(other, "seconds"))
            what = f"Whole fit, seconds of dbmd over those of {title}, {SETS[name].title}"
            yield Target(what, reached, target, stretch, ", ".join(remarks))


def _limit(contents: Contents) -> Iterator[Target]:
    records = measured(contents.get("limit"))
    for name, data in SETS.items():
        own = select(records, data=name)
        worst = max((record["distance"] for record in own), default=None)
        remark = f"the largest of {len(own)} seeds" if own else ""
        yield Target(
            f"Distance of W from its limit where the default tol stops, {data.title}", worst, 0.01, None, remark
        )
    for name, data in SETS.items():
        reached = median(select(records, data=name), "passes")
        yield Target(f"Full passes of a fit, start included, {data.title}", reached, 15)


def _one_pass(contents: Contents) -> Iterator[Target]:
    records = measured(contents.get("passes"))
    for name, data in SETS.items():
        for dtype in distinct(select(records, data=name), "type") or [None]:
            own = select(records, data=name, type=dtype)
            for start in ("warm", "cold"):
                reached = ratio(median(own, start), median(own, "bare"))
                told = f"{data.title}{f', {dtype}' if dtype else ''}, {start}"
                library = "NumPy's" if data.dense else "SciPy's (one thread)"
                yield Target(f"One pass over {library} X @ W and H.T @ X, {told}", reached, 1.5, 1.0)
            evidence = ratio(median(own, "warm"), median(own, "warm_map"))
            what = (
                f"One pass with evidence over one with map, {data.title}{f', {dtype}' if dtype else ''}, r = {data.r}"
            )
            yield Target(what, evidence, 1.15 if data.r <= 12 else 1.3)


def scaling_medians(contents: Contents) -> dict[int, float]:
    """Return microseconds a sample and pass, by number of samples."""
    found = [record["microseconds"] for record in measured(contents.get("scaling"))]
    sizes = found[0] if found else ()
    return {int(n): median(found, n) or 0.0 for n in sizes}


def _scaling(contents: Contents) -> Iterator[Target]:
    each = scaling_medians(contents)
    reached = max(each.values()) / min(each.values()) - 1.0 if each else None
    span = f"from n = {min(each):,} to {max(each):,}" if each else "from few to many samples"
    yield Target(f"Time per sample and pass {span}, largest over smallest less 1", reached, 0.15)


def h_step_medians(contents: Contents) -> dict[tuple[int, str, float, str], float]:
    """Return microseconds a sample by r, type, alpha and start."""
    rows = [row for record in measured(contents.get("h_step")) for row in record["rows"]]
    keys = dict.fromkeys((row["r"], row["type"], row["alpha"], row["start"]) for row in rows)
    names = ("r", "type", "alpha", "start")
    return {key: median(select(rows, **dict(zip(names, key, strict=True))), "microseconds") or 0.0 for key in keys}


def _h_step(contents: Contents) -> Iterator[Target]:
    each = h_step_medians(contents)
    for dtype in ("float32", "float64"):
        for start in ("cold", "warm"):
            reached = ratio(each.get((50, dtype, 1.0, start)), each.get((10, dtype, 1.0, start)))
            yield Target(f"H-step, r = 50 over r = 10, a sample, {dtype}, {start}", reached, 40, 25)


def _others(contents: Contents) -> Iterator[Target]:
    starts = measured(contents.get("start_up"))
    for what, target in (("import dbmd", 0.3), ("first fit of a process, kernels in the disk cache", 1.5)):
        yield Target(f"Seconds: {what}", median(select(starts, what=what), "seconds"), target)
    fits = measured(contents.get("memory"))
    shape = f"{fits[0]['n']:,} x {fits[0]['m']}" if fits else "400,000 x 784"
    yield Target(f"MB of a fit of {shape} float32 beyond X and H", median(fits, "beyond_mb"), 200)
