"""What was to be shown: the paper's two statements, that the simulation is right, and how the cost of a pass grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbmd.experiments.experiment import Claim, Record
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
from dbmd.experiments.style import NAMES, column, distinct, where

GOOD = 0.5  # efficiency: of what is paid for, half is used
AGREES = 0.15  # of simulation and measurement
STRAIGHT = 0.1  # distance of a log-log slope from 1
FITS = 0.25  # largest distance of a cost from a + b m
ENGINES = {"local": "threads", "spark": "Spark"}


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say whether the solvers scale, AGD loses most, the simulation is right, and cost grows as it should."""
    runs = where(records, part="speed-up")
    return [
        *scaling(runs),
        *losses(runs, about),
        *on_the_cores(runs),
        agreement(runs),
        *growth(where(records, part="cost")),
    ]


def scaling(runs: Sequence[Record]) -> list[Claim]:
    """Return for each solver whether it scales up well to the most nodes, by the paper's rule."""
    most = max(distinct(runs, "nodes"))
    found = []
    for own in by(where(runs, rule=distinct(runs, "rule")[0], how="simulated"), "solver"):
        gain, used = (float(values[-1]) for values in gains(own))
        text = (
            f"{NAMES[own[0]['solver']]} scales up well: {gain:.1f} times faster on {most} simulated nodes than on one"
        )
        found.append(Claim(f"{text} (efficiency {used:.2f}, at least {GOOD} asked for).", used >= GOOD))
    return found


def losses(runs: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Return for each rule of stopping whether AGD loses more than ADMM and CEASE, because it asks more often."""
    most = max(distinct(runs, "nodes"))
    found = []
    for rule in distinct(runs, "rule"):
        of = {own[0]["solver"]: own for own in by(where(runs, rule=rule, how="simulated"), "solver")}
        used = {solver: float(gains(own)[1][-1]) for solver, own in of.items()}
        asks = {solver: own[-1]["asks"] for solver, own in of.items()}
        values = ", ".join(f"{NAMES[solver]} {used[solver]:.2f} with {questions(of[solver][-1])}" for solver in of)
        holds = all(used["agd"] < used[solver] and asks["agd"] > asks[solver] for solver in ("admm", "cease"))
        text = f"AGD loses more than ADMM and CEASE, because it asks more often ({rule_in_words(rule, about)})"
        found.append(Claim(f"{text}: efficiency on {most} simulated nodes {values} an iteration.", holds))
    return found


def on_the_cores(runs: Sequence[Record]) -> list[Claim]:
    """Return for each engine whether fits by the paper's rule, measured, scale to the cores of the machine."""
    found = [
        Claim(f"Spark is measured beside the threads. It could not be: {record['reason']}", False)
        for record in where(runs, how="missing")[:1]
    ]
    for own in by(where(runs, how="measured", rule=distinct(runs, "rule")[0]), "engine"):
        cores = max(distinct(own, "nodes"))
        if cores == 1:
            continue
        at_most = {same[0]["solver"]: float(gains(same)[1][-1]) for same in by(own, "solver")}
        values = ", ".join(f"{NAMES[solver]} {used:.2f}" for solver, used in at_most.items())
        text = (
            f"Measured with {ENGINES[own[0]['engine']]}, {cores} nodes on {cores} cores have an efficiency of {values}"
        )
        found.append(Claim(f"{text} (at least {GOOD} asked for).", min(at_most.values()) >= GOOD))
    return found


def agreement(runs: Sequence[Record]) -> Claim:
    """Return whether the simulation without messages is what threads take."""
    pairs = foreseen(where(runs, engine="local", how="measured"), runs)
    off = np.abs(pairs[:, 0] / pairs[:, 1] - 1.0)
    cores = max(distinct(where(runs, how="measured"), "nodes"))
    return Claim(
        f"Where it can be checked (1 to {cores} nodes, a thread each, no messages), the simulation is within "
        f"{off.max():.0%} of the measurement, in the median {np.median(off):.0%} (at most {AGREES:.0%} asked for).",
        bool(off.max() <= AGREES),
    )


def growth(costs: Sequence[Record]) -> list[Claim]:
    """Return whether the cost of a pass grows linearly with n and m, and at most with the cube of r."""
    own = where(costs, against="n")
    n = column(own, "n")
    power = slope(n, column(own, "seconds"))
    found = [
        Claim(
            f"A warm pass is linear in n: it grows like n^{power:.3f} from {n[0]:,.0f} to {n[-1]:,.0f} samples, "
            f"{1e6 * per_sample(own).min():.2f} to {1e6 * per_sample(own).max():.2f} µs a sample.",
            abs(power - 1.0) <= STRAIGHT,
        )
    ]
    own = where(costs, against="m")
    m = column(own, "m")
    a, b, off = affine(m, per_sample(own))
    found.append(
        Claim(
            f"It is linear in m: {1e6 * a:.2f} + {1e6 * b:.4f} m µs a sample from m = {m[0]:.0f} to {m[-1]:.0f}, "
            f"off by {off:.0%} at most.",
            off <= FITS and b > 0.0,
        )
    )
    own = where(costs, against="r")
    r, cost = column(own, "r"), per_sample(own)
    steps = np.diff(np.log(cost)) / np.diff(np.log(r))
    power = slope(r[r >= FROM_R], cost[r >= FROM_R])
    found.append(
        Claim(
            f"It grows like r^{power:.2f} from r = {FROM_R} to {r[-1]:.0f}, like r^{steps.max():.2f} where it is "
            "steepest: no faster than the r^3 of the r x r system that each sample has.",
            bool(steps.max() <= 3.0),
        )
    )
    return found
