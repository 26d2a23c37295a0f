"""The result of a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dbmd.model.statistics import Float

OnRound = Callable[[Float], object]


def ignore(W: Float) -> None:
    """Ignore the W after a round: the default of ``on_round``."""


class WStep(NamedTuple):
    """The result of a W-step.

    Attributes
    ----------
    W : array of shape (m, r)
        The minimiser of (P), within the tolerance if it converged.
    rounds : int
        Rounds over the nodes.
    change : float
        Relative change of W in the last round.
    converged : bool
        Whether the change came below the tolerance.
    """

    W: Float
    rounds: int
    change: float
    converged: bool
