"""Names and numbers in words."""

from __future__ import annotations

from dbmd.experiments.experiment import Record

KINDS = {"A": "A (Bernoulli)", "B": "B (Dirichlet)"}


def in_words(record: Record) -> str:
    """Return the name of a problem."""
    return f"{KINDS[record['data']]}, {record['nodes']} nodes of {record['n_per_node']:,}"


def in_bits(bandwidth: float) -> str:
    """Return a bandwidth for people."""
    return f"{bandwidth / 1e9:g} Gbit/s" if bandwidth >= 1e9 else f"{bandwidth / 1e6:g} Mbit/s"


def in_powers(gap: float) -> str:
    """Return a gap for people: 1e-6, not 1e-06."""
    return f"{gap:.0e}".replace("e-0", "e-")


def in_time(value: float) -> str:
    """Return seconds for people."""
    return f"{1e3 * value:.3g} ms" if value < 0.9995 else f"{value:.3g} s"
