"""What is wanted, and whether it is reached: decided from the records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.parts.gap import CONVERGED
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
    yield from _passes_to_converge(contents)
    yield from _one_pass(contents)
    yield from _scaling(contents)
    yield from _h_step(contents)
    yield from _others(contents)


def _peers(contents: Contents) -> Iterator[Target]:
    fits, gaps = measured(contents.get("peers")), measured(contents.get("gap"))
    dense, nonnegative = [d for d, s in SETS.items() if s.dense], [d for d, s in SETS.items() if s.nonnegative]
    wanted = (
        ("k_means", "scikit-learn KMeans", dense, 2.0, 1.0),
        ("mllib_k_means", "Spark MLlib KMeans", list(SETS), 0.5, 0.1),
        ("nmf", "scikit-learn NMF", nonnegative, 0.2, 0.05),
    )
    for method, title, data, target, stretch in wanted:
        for name in data:
            own, other = select(fits, data=name, method="dbmd"), select(fits, data=name, method=method)
            remarks = []
            if own and other and min(len(own), len(other)) < REPEATS:
                remarks.append(f"of {len(own)} and {len(other)} repetitions only")
            if own and other and len(distinct(own + other, "run")) > 1:
                remarks.append("not of one run")
            if other and not all(record["converged"] for record in other):
                remarks.append(f"the other stopped at its limit of {other[0]['most']} rounds")
            reached = ratio(median(own, "seconds"), median(other, "seconds"))
            known = select(gaps, data=name)
            if reached is not None and known and not all(record["default_converges"] for record in known):
                # The fit is not converged where it stops: it is judged by the time that it would take.
                gap, stopped = median(known, "gap_at_stop"), reached
                reached *= max(1.0, ratio(median(known, "converged_after_seconds"), median(known, "seconds")) or 1.0)
                remarks.append(f"to a gap of {CONVERGED:g}; the default stops at {number(gap)}, {number(stopped)}")
            elif reached is not None and not known:
                remarks.append("whether it has converged was not measured")
            what = f"Whole fit, seconds of dbmd over those of {title}, {SETS[name].title}"
            yield Target(what, reached, target, stretch, ", ".join(remarks))


def _passes_to_converge(contents: Contents) -> Iterator[Target]:
    records = measured(contents.get("gap"))
    for name, data in SETS.items():
        own = select(records, data=name)
        beyond = sum(not record["default_converges"] for record in own)
        remark = f"in {beyond} of {len(own)} counted beyond where the default tol stops" if beyond else ""
        reached = median(own, "converged_after_passes")
        yield Target(f"Full passes to a gap of {CONVERGED:g}, start included, {data.title}", reached, 15, 8, remark)


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
