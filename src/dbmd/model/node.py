"""What an engine keeps for each part of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics


@dataclass(frozen=True)
class Node:
    """A part of the samples, and what was last computed from it.

    Only ``block`` is data. The rest is a cache that follows from the block and the last W, and may be lost.

    Attributes
    ----------
    name : str
        For messages.
    block : Block
        The samples (see :mod:`dbmd.data`).
    Ht : array of shape (n_i, r), optional
        The memberships of the last sweep, in the order of the block's chunks: where the next sweep starts.
    stats : PerSource[Statistics], optional
        Of the last sweep.
    origin : array of shape (m,), optional
        What these statistics are about.
    quadratic : Quadratic, optional
        This node's share of the W-problem (P), of the last sweep.
    memory : object
        What a solver or a start keeps between its own rounds.
    """

    name: str
    block: Any = None
    Ht: Any = None
    stats: PerSource[Statistics] | None = None
    origin: Float | None = None
    quadratic: Quadratic | None = None
    memory: Any = None
