"""Rounds, numbers and times in a table beside Table 1, and what was to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbmd.engines import Link
from dbmd.experiments.communication.costs import (
    ROUNDS,
    by_table_1,
    floats,
    grid,
    modelled,
    problems,
    reached,
    seconds,
    time_map,
)
from dbmd.experiments.communication.words import in_bits, in_powers, in_time, in_words
from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import NAMES, column, where


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return rounds and numbers to each gap, beside Table 1, and the times at the two ends of the range of links."""
    gaps, links = about["gaps"], about["links"]
    near = Link(min(links["latency"]), max(links["bandwidth"]))
    far = Link(max(links["latency"]), min(links["bandwidth"]))
    rows = []
    for record in where(records, kind="counting"):
        last = reached(record, min(gaps))
        formula = f"{about['published'][record['method']]} q m r" if record["method"] in ROUNDS else "2 m r + r²"
        rows.append(
            (
                in_words(record),
                NAMES[record["method"]],
                *(rounds_and_floats(record, gap) for gap in gaps),
                "-" if last is None else f"{formula} = {by_table_1(record, last, about['published']):,}",
                *(in_time(seconds(record, min(gaps), link)) for link in (near, far)),
            )
        )
    ends = (f"{1e3 * link.latency:g} ms, {in_bits(link.bandwidth)}" for link in (near, far))
    return Table(
        (
            "data, samples of a node",
            "solver",
            *(f"gap {in_powers(gap)}: rounds, numbers" for gap in gaps),
            f"by Table 1, to {in_powers(min(gaps))}",
            *(f"time to {in_powers(min(gaps))} at {end}" for end in ends),
        ),
        tuple(rows),
        "Numbers over the link of one node, down and up together, as the engine counted them, from W = 0 to the first "
        "round within the gap. The exact solver is not in the paper: in a fit its m r + r² numbers come up with the "
        "reply to the H-step, and the m r numbers of W that go down with that question are counted here. Times are "
        "computing as measured, at a node and the driver, and messages by the model: latency + 64 bits x numbers / "
        "bandwidth one way, each node on a link of its own.",
    )


def rounds_and_floats(record: Record, gap: float) -> str:
    """Return how many rounds and numbers a solver needs, for people."""
    rounds = reached(record, gap)
    return "not reached" if rounds is None else f"{rounds}, {floats(record, rounds):,}"


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say whether Table 1 is right, what the exact solver saves, and whether ADMM and CEASE save anything."""
    counting = where(records, kind="counting")
    return [
        table_1_is_right(counting, about["published"]),
        exact_sends_least(counting, about["gaps"]),
        *(saves_against_agd(counting, name, min(about["gaps"])) for name in ("admm", "cease")),
        exact_is_fastest(counting, about),
        model_agrees_with_a_clock(where(records, kind="waiting")),
    ]


def table_1_is_right(records: Sequence[Record], published: Mapping[str, int]) -> Claim:
    """Say whether the numbers counted after each round are those of the formulas."""
    pairs = [
        (floats(record, k), by_table_1(record, k, published))
        for record in records
        for k in range(1, len(record["gaps"]))
    ]
    wrong = sum(counted != formula for counted, formula in pairs)
    return Claim(
        "The numbers that the engine counts are those of Table 1, 2 q m r for AGD and ADMM and 4 q m r for CEASE, and "
        f"2 m r + r² for exact: {len(pairs) - wrong} of {len(pairs)} rounds agree to the last number.",
        wrong == 0,
    )


def exact_sends_least(records: Sequence[Record], gaps: Sequence[float]) -> Claim:
    """Say how the exact solver compares with one round of ADMM, and with what the others need."""
    m, r = records[0]["m"], records[0]["r"]
    up, both, one_round = m * r + r * r, 2 * m * r + r * r, 2 * m * r
    others = [floats(x, k) / both for x in records if x["method"] in ROUNDS and (k := reached(x, min(gaps)))]
    return Claim(
        f"The exact solver needs one sum of m r + r² = {up:,} numbers; a single round of ADMM or AGD takes "
        f"2 m r = {one_round:,}, down and up. With the new W that goes down to the nodes it is 2 m r + r² = {both:,}: "
        f"{both / one_round - 1:.1%} more than one round, for the minimum itself. To a gap of {in_powers(min(gaps))} "
        f"the others need {min(others):.1f} to {max(others):.0f} times as many.",
        up < one_round and min(others) > 1.0,
    )


def saves_against_agd(records: Sequence[Record], method: str, gap: float) -> Claim:
    """Say whether a solver of the paper sends less than AGD."""
    ratios, found = [], []
    for problem in problems(records):
        own, agd = (where(problem, method=name)[0] for name in (method, "agd"))
        k, k_agd = reached(own, gap), reached(agd, gap)
        if k is None or k_agd is None:
            ratios.append(np.inf)
            found.append(f"{in_words(own)}: not reached")
        else:
            ratios.append(floats(own, k) / floats(agd, k_agd))
            found.append(f"{in_words(own)}: {k} against {k_agd} rounds, {ratios[-1]:.2f} times the numbers")
    return Claim(
        f"{NAMES[method]} reduces the communication load against AGD, as the paper says, to a gap of {in_powers(gap)} "
        f"on all data. Found: {'; '.join(found)}.",
        max(ratios) < 1.0,
    )


def exact_is_fastest(records: Sequence[Record], about: Mapping[str, Any]) -> Claim:
    """Say on which links the exact solver is the fastest of all."""
    gap = min(about["gaps"])
    latency, bandwidth = grid(about["links"]["latency"]), grid(about["links"]["bandwidth"])
    maps = [time_map(problem, gap, latency, bandwidth) for problem in problems(records)]
    # The best of the others over exact, shape (n_problems, n_bandwidths, n_latencies).
    lead = np.array([np.nanmin([times[name] for name in ROUNDS], axis=0) / times["exact"] for times in maps])
    near, far = lead[:, -1, 0], lead[:, 0, -1]
    at_10_ms = lead[:, :, latency >= 1e-2].min()
    return Claim(
        "Over a network the exact solver is the fastest: from a latency of 10 ms on, at every bandwidth and on all "
        f"data, the best of the others takes {at_10_ms:.1f} times as long or more, and {far.min():.1f} to "
        f"{far.max():.1f} times at {1e3 * latency[-1]:g} ms and {in_bits(bandwidth[0])}. It wins on "
        f"{np.mean(lead > 1):.0%} of the map; at {1e3 * latency[0]:g} ms and {in_bits(bandwidth[-1])}, where computing "
        f"is nearly all, the best of the others takes {near.min():.2f} to {near.max():.2f} times as long.",
        bool(at_10_ms > 1.0),
    )


def model_agrees_with_a_clock(records: Sequence[Record]) -> Claim:
    """Say how far the seconds of the model are from those of nodes that really waited."""
    ratio = column(records, "real_seconds") / modelled(records)
    waited = column(records, "real_seconds") >= column(records, "link_seconds")
    return Claim(
        f"Nodes that really wait take as long as the model says: {ratio.min():.2f} to {ratio.max():.2f} times, over "
        f"{len(ratio)} runs, and never less than the links alone.",
        bool(waited.all() and np.abs(ratio - 1.0).max() <= 0.15),
    )
