"""What follows from the records: gains, growth, and words that figures and claims share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.experiments.experiment import Record
from dbmd.experiments.scalability.simulation import efficiency, speed_up
from dbmd.experiments.style import column, where

FROM_R = 5  # below it, what does not depend on r hides how cost grows with r


def gains(own: Sequence[Record]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return speed-up and efficiency of records of one solver, the first of which has one node."""
    single = own[0]["seconds"]
    return (
        np.array([speed_up(single, record["seconds"]) for record in own]),
        np.array([efficiency(single, record["seconds"], record["nodes"]) for record in own]),
    )


def foreseen(measured: Sequence[Record], runs: Sequence[Record]) -> NDArray[np.float64]:
    """Return what the simulation foresees for measured records, and what they say; seconds, shape (n_records, 2).

    Threads have no messages; on Spark every question takes the time that was measured for one that does nothing.
    """
    pairs = []
    for record in measured:
        same = {name: record[name] for name in ("rule", "solver", "nodes")}
        alone = where(runs, how="simulated", **same)[0]
        asking = alone["asks"] * record.get("question_seconds", 0.0)
        pairs.append((alone["slowest_seconds"] + alone["centre_seconds"] + asking, record["seconds"]))
    return np.array(pairs)


def per_sample(costs: Sequence[Record]) -> NDArray[np.float64]:
    """Return the seconds of a warm pass for each sample."""
    return np.asarray(column(costs, "seconds") / column(costs, "n"))


def slope(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the exponent k of y = c x^k that is nearest in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def affine(x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float, float]:
    """Return a and b of y = a + b x with the least relative errors, and the largest of these."""
    b, a = np.polyfit(x, y, 1, w=1.0 / y)
    return float(a), float(b), float(np.abs((a + b * x) / y - 1.0).max())


def by(records: Sequence[Record], *names: str) -> list[list[Record]]:
    """Return the records in groups that agree in these names."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return list(groups.values())


def questions(record: Record) -> str:
    """Return how many questions an iteration asks, in words."""
    return f"{record['asks']:.3g} question{'s' * (record['asks'] != 1)}"


def rule_in_words(rule: str, about: Mapping[str, Any]) -> str:
    """Return what a rule of stopping is called."""
    return str(about["rules"][rule])
