"""What a solver needs to come within a gap, from its record: rounds, numbers, seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbmd.engines import Link, Traffic
from dbmd.experiments.experiment import Record
from dbmd.experiments.style import column, where

ROUNDS = ("agd", "admm", "cease")  # the solvers of Table 1
STEPS = 91  # of the map of links, each way


def problems(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records of each problem, of all solvers."""
    tasks = dict.fromkeys((record["data"], record["nodes"], record["n_per_node"]) for record in records)
    return [where(records, data=data, nodes=nodes, n_per_node=n) for data, nodes, n in tasks]


def reached(record: Record, gap: float) -> int | None:
    """Return the first round after which a solver is within a gap."""
    return next((k for k, value in enumerate(record["gaps"]) if value <= gap), None)


def sent(record: Record, rounds: int) -> Traffic:
    """Return what a node sent and received in so many rounds."""
    return Traffic(record["asks"][rounds], record["floats_down"][rounds], record["floats_up"][rounds])


def floats(record: Record, rounds: int) -> int:
    """Return how many numbers passed the link of a node, both ways."""
    traffic = sent(record, rounds)
    return traffic.floats_down + traffic.floats_up


def by_table_1(record: Record, rounds: int, published: Mapping[str, int]) -> int:
    """Return how many they are by Table 1; the exact solver is not in it, and needs 2 m r + r^2."""
    mr = record["m"] * record["r"]
    return rounds * published[record["method"]] * mr if record["method"] in published else 2 * mr + record["r"] ** 2


def seconds(record: Record, gap: float, link: Link) -> float:
    """Return how long a solver takes to a gap: computing as measured, messages by the model; NaN if it never came."""
    rounds = reached(record, gap)
    return np.nan if rounds is None else record["seconds"][rounds] + link.seconds(sent(record, rounds))


def time_map(
    problem: Sequence[Record], gap: float, latency: NDArray[np.float64], bandwidth: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return for each solver the seconds to a gap, shape (n_bandwidths, n_latencies)."""
    times = {}
    for record in problem:
        # What latency and bandwidth cost adds up, so there is no need to go through all pairs.
        computing = seconds(record, gap, Link(0.0, np.inf))
        by_latency = np.array([seconds(record, gap, Link(value, np.inf)) for value in latency])
        by_bandwidth = np.array([seconds(record, gap, Link(0.0, value)) for value in bandwidth])
        times[record["method"]] = by_latency + by_bandwidth[:, None] - computing
    return times


def grid(ends: Sequence[float]) -> NDArray[np.float64]:
    """Return values between two, evenly on a logarithmic scale."""
    first, last = ends
    return np.geomspace(first, last, STEPS)


def modelled(records: Sequence[Record]) -> NDArray[np.float64]:
    """Return the seconds that the model says of runs that really waited."""
    return column(records, "link_seconds") + column(records, "computing_seconds")
